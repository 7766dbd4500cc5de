//! Instruction counts of the straight-line math functions: the cost of a vector of results, without a timer.
//!
//! Constants and bit casts are free. A fused multiply-add is one operation, and so is each of the comparison and the select
//! that make a clamp.

use trainspec_codegen::math::{Emit, Function, Lane, emit};

/// An emitter that only counts.
struct Count {
    lane: Lane,
    /// All operations.
    all: usize,
    /// Divisions and square roots among them.
    slow: usize,
}

impl Count {
    fn one(&mut self) {
        self.all += 1;
    }
    fn one_slow(&mut self) {
        self.all += 1;
        self.slow += 1;
    }
}

macro_rules! count {
    ($($name:ident($($operand:ty),*) by $how:ident;)*) => {
        $(fn $name(&mut self, $(_: $operand),*) { self.$how() })*
    };
}

impl Emit for Count {
    type V = ();
    type I = ();
    type M = ();

    fn lane(&self) -> Lane {
        self.lane
    }
    fn has_fma(&self) -> bool {
        true
    }
    fn float(&mut self, _: f64) {}
    fn int(&mut self, _: i64) {}
    fn bits(&mut self, (): ()) {}
    fn bits_to_float(&mut self, (): ()) {}
    count! {
        add((), ()) by one;
        sub((), ()) by one;
        mul((), ()) by one;
        div((), ()) by one_slow;
        fma((), (), ()) by one;
        fnma((), (), ()) by one;
        neg(()) by one;
        abs(()) by one;
        sqrt(()) by one_slow;
        floor(()) by one;
        ceil(()) by one;
        nearest(()) by one;
        trunc(()) by one;
        lt((), ()) by one;
        le((), ()) by one;
        eq((), ()) by one;
        unordered((), ()) by one;
        select((), (), ()) by one;
        mask_and((), ()) by one;
        mask_or((), ()) by one;
        mask_not(()) by one;
        iadd((), ()) by one;
        isub((), ()) by one;
        iand((), ()) by one;
        ior((), ()) by one;
        ixor((), ()) by one;
        inot(()) by one;
        shl((), u32) by one;
        shr((), u32) by one;
    }
}

fn operations(function: Function, lane: Lane) -> (usize, usize) {
    let mut count = Count {
        lane,
        all: 0,
        slow: 0,
    };
    emit(&mut count, function, &[(), ()][..function.arity()]);
    (count.all, count.slow)
}

/// The most operations each function may take, in single and in double precision.
fn max_operations(function: Function) -> [usize; 2] {
    match function {
        Function::Exp => [20, 25],
        Function::Expm1 => [21, 26],
        Function::Log => [27, 34],
        Function::Log1p => [29, 36],
        Function::Tanh => [16, 26],
        Function::Sigmoid => [17, 22],
        Function::Softplus => [32, 42],
        Function::Erf => [18, 56],
        Function::Erfc => [61, 84],
        Function::Pow => [116, 126],
        Function::Sin => [13, 17],
        Function::Cos => [15, 19],
        Function::Tan => [17, 19],
        Function::Rsqrt => [2, 2],
        Function::Sign => [5, 5],
        Function::Sqrt | Function::Floor | Function::Ceil | Function::Round => [1, 1],
    }
}

#[test]
fn functions_take_no_more_operations_than_stated() {
    for function in Function::ALL {
        for (lane, max) in [Lane::F32, Lane::F64]
            .into_iter()
            .zip(max_operations(function))
        {
            let (all, slow) = operations(function, lane);
            println!(
                "{:8} {lane:?}: {all} operations, {slow} of them slow",
                function.name()
            );
            assert!(
                all <= max,
                "{} {lane:?}: {all} above {max}",
                function.name()
            );
        }
    }
}
