//! Vector math: error bounds of the reference, and machine code that equals the reference bit for bit.
//!
//! References are `libm` in double precision. For f32 its error is negligible; for f64 the bounds are loosened by the error of
//! `libm` itself: one unit in the last place (ulp), two where the reference composes several calls.
#![allow(unsafe_code)]

use cranelift::prelude::*;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module};
use trainspec_codegen::cpu::Cpu;
use trainspec_codegen::math::{Clif, Function, Lane, Scalar, emit, needs_call, trig_limit};

/// Random operands of a bound check, and of a faster one.
const SAMPLES: usize = if cfg!(debug_assertions) {
    20_000
} else {
    2_000_000
};
const FAST_SAMPLES: usize = SAMPLES / 10;

/// A float type with its bits.
trait Float: Copy + PartialEq + std::fmt::Debug {
    const LANE: Lane;
    fn of_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn wide(self) -> f64;
    fn round(x: f64) -> Self;
    fn call(function: Function, fma: bool, operands: &[Self]) -> Self;
    fn needs_call(function: Function, operands: &[Self]) -> bool;
}

macro_rules! float {
    ($t:ty, $bits:ty, $lane:expr) => {
        impl Float for $t {
            const LANE: Lane = $lane;
            fn of_bits(bits: u64) -> $t {
                <$t>::from_bits(bits as $bits)
            }
            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }
            fn wide(self) -> f64 {
                f64::from(self)
            }
            fn round(x: f64) -> $t {
                x as $t
            }
            fn call(function: Function, fma: bool, operands: &[$t]) -> $t {
                emit(&mut Scalar::<$t>::new(fma), function, operands)
            }
            fn needs_call(function: Function, operands: &[$t]) -> bool {
                needs_call(&mut Scalar::<$t>::new(true), function, operands).unwrap_or(false)
            }
        }
    };
}
float!(f32, u32, Lane::F32);
float!(f64, u64, Lane::F64);

/// The reference value of a function, in double precision.
fn reference(function: Function, x: f64, y: f64) -> f64 {
    match function {
        Function::Exp => libm::exp(x),
        Function::Expm1 => libm::expm1(x),
        Function::Log => libm::log(x),
        Function::Log1p => libm::log1p(x),
        Function::Tanh => libm::tanh(x),
        Function::Sigmoid if x < 0.0 => libm::exp(x) / (1.0 + libm::exp(x)),
        Function::Sigmoid => 1.0 / (1.0 + libm::exp(-x)),
        Function::Softplus => x.max(0.0) + libm::log1p(libm::exp(-x.abs())),
        Function::Erf => libm::erf(x),
        Function::Erfc => libm::erfc(x),
        Function::Pow => libm::pow(x, y),
        Function::Sin => libm::sin(x),
        Function::Cos => libm::cos(x),
        Function::Tan => libm::tan(x),
        Function::Sqrt => x.sqrt(),
        Function::Rsqrt => 1.0 / x.sqrt(),
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Round => x.round_ties_even(),
        Function::Sign if x == 0.0 || x.is_nan() => x,
        Function::Sign => x.signum(),
    }
}

/// The error bound of the reference, in units in the last place (ulp) of double precision.
fn reference_ulp(function: Function) -> f64 {
    match function {
        Function::Sqrt | Function::Floor | Function::Ceil | Function::Round | Function::Sign => 0.0,
        Function::Sigmoid | Function::Softplus | Function::Tanh => 2.0,
        Function::Exp
        | Function::Expm1
        | Function::Log
        | Function::Log1p
        | Function::Erf
        | Function::Erfc
        | Function::Pow
        | Function::Sin
        | Function::Cos
        | Function::Tan
        | Function::Rsqrt => 1.0,
    }
}

/// The error in units in the last place (ulp), infinite where classes (NaN, infinity) or signs of zero differ.
fn ulps<T: Float>(got: T, want: f64) -> f64 {
    let rounded = T::round(want);
    if got.wide().is_nan() || want.is_nan() {
        return if got.wide().is_nan() && want.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if got.bits() == rounded.bits() && (T::LANE == Lane::F64 || rounded.wide().is_infinite()) {
        return 0.0;
    }
    if want == 0.0 || want.is_infinite() {
        return if got.bits() == rounded.bits() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let (mantissa, min_exponent, over) = match T::LANE {
        Lane::F32 => (23, -149, 2f64.powi(128)),
        Lane::F64 => (52, -1074, f64::MAX),
    };
    if got.wide() == 0.0 && got.wide().is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    let value = if got.wide().is_infinite() {
        over.copysign(got.wide())
    } else {
        got.wide()
    };
    let exponent = (libm::ilogb(want) - mantissa).max(min_exponent);
    libm::scalbn(value - want, -exponent.max(-1000))
        * if exponent < -1000 {
            2f64.powi(-1000 - exponent)
        } else {
            1.0
        }
}

/// Special values and the bounds of the functions' ranges, of both signs.
fn specials<T: Float>() -> Vec<T> {
    let mut all = Vec::new();
    let (one, step) = (
        T::round(1.0).bits(),
        if T::LANE == Lane::F32 { 23 } else { 52 },
    );
    let infinity = T::round(f64::INFINITY).bits();
    let edges = [
        0,
        1,
        2,
        3,
        (1 << step) - 1,
        1 << step,
        (1 << step) + 1,
        one,
        infinity - 1,
        infinity,
        infinity + 1,
    ];
    all.extend(edges.map(T::of_bits));
    all.push(T::round(f64::NAN));
    for value in [
        0.5,
        2.0,
        3.0,
        4.0,
        5.0,
        1.5,
        0.25,
        10.0,
        1e5,
        1e10,
        16777216.0,
        16777217.0,
        9007199254740993.0,
        1e30,
        1e300,
        88.72283,
        88.72284,
        89.0,
        87.33654,
        87.4,
        103.27893,
        103.97208,
        104.0,
        709.782712893384,
        709.7827128933841,
        710.0,
        708.3964,
        745.1332191019411,
        745.1332191019412,
        746.0,
        0.34657359,
        1.0397208,
        8.850179,
        9.01,
        10.0,
        19.06,
        20.0,
        18.7,
        36.7,
        37.0,
        std::f64::consts::FRAC_1_SQRT_2,
        std::f64::consts::SQRT_2,
        3.8894222,
        3.92,
        4.0,
        5.86,
        5.92,
        6.0,
        10.05,
        10.06,
        11.0,
        26.54,
        27.22,
        28.0,
        std::f64::consts::FRAC_PI_4,
        3.0 * std::f64::consts::FRAC_PI_4,
        std::f64::consts::TAU,
        3.0 * std::f64::consts::FRAC_PI_2,
        std::f64::consts::LOG2_E,
        355.0,
        524_288.0,
        35_184_372_088_832.0,
        2f64.powi(-13),
        2f64.powi(-25),
        2f64.powi(-26),
        2f64.powi(-28),
        2f64.powi(-54),
        2f64.powi(-55),
        2f64.powi(60),
        std::f64::consts::PI,
        std::f64::consts::FRAC_PI_2,
        std::f64::consts::LN_2,
        std::f64::consts::E,
    ] {
        let bits = T::round(value).bits();
        all.extend([bits - 1, bits, bits + 1].map(T::of_bits));
    }
    let sign = T::round(-0.0).bits();
    let negative: Vec<T> = all.iter().map(|x| T::of_bits(x.bits() | sign)).collect();
    all.extend(negative);
    all
}

/// A stream of bits (SplitMix64).
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 * 2f64.powi(-53)
    }
}

/// Operands of the function: any bits, and numbers of the range where the function varies.
fn operands<T: Float>(function: Function, bits: &mut Bits) -> [T; 2] {
    let kind = bits.next() % 4;
    let any = T::of_bits(bits.next());
    let in_range =
        match (function, T::LANE) {
            (Function::Log | Function::Log1p, _) => bits.uniform(-1.5, 3.0),
            (Function::Sin | Function::Cos | Function::Tan, lane) if kind == 1 => {
                bits.uniform(-1.0, 1.0) * trig_limit(lane)
            }
            (Function::Sin | Function::Cos | Function::Tan, _) if kind == 2 => {
                (bits.uniform(-2000.0, 2000.0)).round() * std::f64::consts::FRAC_PI_2
            }
            (
                Function::Exp | Function::Expm1 | Function::Sigmoid | Function::Softplus,
                Lane::F32,
            ) if kind == 1 => bits.uniform(-110.0, 110.0),
            (
                Function::Exp | Function::Expm1 | Function::Sigmoid | Function::Softplus,
                Lane::F64,
            ) if kind == 1 => bits.uniform(-760.0, 760.0),
            (Function::Erf | Function::Erfc, _) if kind == 1 => bits.uniform(-28.0, 28.0),
            (Function::Pow, _) if kind == 1 => bits.uniform(0.9, 1.1),
            _ => bits.uniform(-6.0, 6.0),
        };
    let x = if kind == 0 { any } else { T::round(in_range) };
    let y = match bits.next() % 4 {
        0 => T::of_bits(bits.next()),
        1 => T::round(bits.uniform(-40.0, 40.0).round()),
        2 => T::round(bits.uniform(-40.0, 40.0)),
        // An exponent that brings the power near overflow or underflow.
        _ => {
            let ends = if T::LANE == Lane::F32 { 104.0 } else { 746.0 };
            T::round(bits.uniform(-ends, ends) / libm::log(x.wide().abs()))
        }
    };
    [x, y]
}

fn inputs<T: Float>(function: Function, count: usize) -> Vec<[T; 2]> {
    let special = specials::<T>();
    let mut all = Vec::with_capacity(count);
    if function.arity() == 2 {
        for &x in &special {
            all.extend(special.iter().map(|&y| [x, y]));
        }
    } else {
        all.extend(special.iter().map(|&x| [x, x]));
    }
    let mut bits = Bits(function as u64 + 1);
    all.extend((0..count).map(|_| operands(function, &mut bits)));
    all
}

fn check_bound<T: Float>(function: Function, fma: bool, count: usize) {
    let loose = if T::LANE == Lane::F64 {
        reference_ulp(function)
    } else {
        0.0
    };
    let bound = function.max_ulp(T::LANE) + loose;
    let (mut worst, mut at) = (0.0, None);
    for [x, y] in inputs::<T>(function, count) {
        let operands = &[x, y][..function.arity()];
        if T::needs_call(function, operands) {
            continue;
        }
        let got = T::call(function, fma, operands);
        let error = ulps(got, reference(function, x.wide(), y.wide())).abs();
        if error > worst {
            (worst, at) = (error, Some((x, y, got)));
        }
    }
    println!(
        "{:8} {:?} fma {fma:5}: {worst:.3} ulp at {at:?}",
        function.name(),
        T::LANE
    );
    assert!(
        worst <= bound,
        "{} {:?} fma {fma}: {worst} ulp above {bound} at {at:?}",
        function.name(),
        T::LANE
    );
}

#[test]
fn errors_stay_below_the_stated_bounds_in_single_precision() {
    for function in Function::ALL {
        check_bound::<f32>(function, true, SAMPLES);
        check_bound::<f32>(function, false, FAST_SAMPLES);
    }
}

#[test]
fn errors_stay_below_the_stated_bounds_in_double_precision() {
    for function in Function::ALL {
        check_bound::<f64>(function, true, SAMPLES);
        check_bound::<f64>(function, false, FAST_SAMPLES);
    }
}

/// Every `step`-th number of single precision, for functions of one operand.
fn check_every(step: usize) {
    for function in Function::ALL.into_iter().filter(|f| f.arity() == 1) {
        for fma in [true, false] {
            let mut worst = (0.0, 0.0);
            for bits in (0..=u32::MAX).step_by(step) {
                let x = f32::from_bits(bits);
                if f32::needs_call(function, &[x]) {
                    continue;
                }
                let got = f32::call(function, fma, &[x]);
                let error = ulps(got, reference(function, f64::from(x), 0.0)).abs();
                if error > worst.0 {
                    worst = (error, x);
                }
            }
            let (name, (error, at)) = (function.name(), worst);
            println!("{name:8} fma {fma:5}: {error:.3} ulp at {at:?}");
            assert!(
                error <= function.max_ulp(Lane::F32),
                "{name} fma {fma}: {error} ulp at {at:?}"
            );
        }
    }
}

#[test]
fn errors_stay_below_the_stated_bounds_throughout_single_precision() {
    // A prime, so that all mantissas come up.
    check_every(if cfg!(debug_assertions) {
        200_003
    } else {
        9_973
    });
}

#[test]
#[ignore = "takes an hour in release"]
fn errors_stay_below_the_stated_bounds_for_every_number_of_single_precision() {
    check_every(1);
}

#[test]
fn tanh_and_erf_are_odd_and_saturate_at_one() {
    for fma in [true, false] {
        for function in [Function::Tanh, Function::Erf] {
            for [x, _] in inputs::<f32>(function, FAST_SAMPLES) {
                let (up, down) = (
                    f32::call(function, fma, &[x.abs()]),
                    f32::call(function, fma, &[-x.abs()]),
                );
                if x.is_nan() {
                    assert!(up.is_nan() && down.is_nan());
                    continue;
                }
                assert_eq!(up.to_bits(), (-down).to_bits(), "{} {x:?}", function.name());
                assert!(up <= 1.0, "{} {x:?}", function.name());
                assert!(x.abs() < 9.0 || up == 1.0, "{} {x:?}", function.name());
                if function == Function::Tanh && x.abs() < 2f32.powi(-13) {
                    assert_eq!(up.to_bits(), x.abs().to_bits(), "{x:?}");
                }
            }
        }
    }
}

#[test]
fn known_values_are_exact() {
    macro_rules! check {
        ($t:ty, $fma:expr) => {
            for (function, x, y) in [
                (Function::Exp, 0.0, 1.0),
                (Function::Log, 1.0, 0.0),
                (Function::Sigmoid, 0.0, 0.5),
                (Function::Sigmoid, 100.0, 1.0),
                (Function::Sin, 0.0, 0.0),
                (Function::Tanh, 40.0, 1.0),
                (Function::Erf, 7.0, 1.0),
            ] {
                assert_eq!(<$t>::call(function, $fma, &[x]), y, "{}", function.name());
            }
        };
    }
    for fma in [true, false] {
        check!(f32, fma);
        check!(f64, fma);
    }
    assert_eq!(f32::call(Function::Cos, true, &[0.0]), 1.0);
    assert_eq!(f64::call(Function::Cos, true, &[0.0]), 1.0);
}

#[test]
fn integer_powers_are_exact_where_representable() {
    for fma in [true, false] {
        for base in -60i32..=60 {
            let mut power = 1i128;
            for exponent in 0..=40 {
                let exact = power as f64;
                if power.unsigned_abs() < 1 << 53 {
                    let got =
                        f64::call(Function::Pow, fma, &[f64::from(base), f64::from(exponent)]);
                    assert_eq!(got, exact, "{base}^{exponent}");
                }
                if power.unsigned_abs() < 1 << 24 {
                    let got = f32::call(Function::Pow, fma, &[base as f32, exponent as f32]);
                    assert_eq!(f64::from(got), exact, "{base}^{exponent}");
                }
                power = match power.checked_mul(i128::from(base)) {
                    Some(power) => power,
                    None => break,
                };
            }
        }
    }
}

#[test]
fn functions_are_found_by_the_names_of_primitives() {
    for function in Function::ALL {
        assert_eq!(Function::of(function.name()), Some(function));
        assert!(trainspec_ir::ops::find_prim(function.name()).is_some());
    }
    assert_eq!(Function::of("lgamma"), None);
}

/// A function of a vector or scalar, JIT-compiled.
struct Compiled {
    module: Option<JITModule>,
    code: extern "C" fn(*const u8, *const u8, *mut u8),
    bytes: usize,
}

impl Compiled {
    fn new(function: Function, ty: Type, fma: bool) -> Compiled {
        let mut flags = settings::builder();
        flags.set("opt_level", "speed").unwrap();
        let isa = cranelift_native::builder()
            .unwrap()
            .finish(settings::Flags::new(flags))
            .unwrap();
        let pointer = isa.pointer_type();
        let mut module = JITModule::new(JITBuilder::with_isa(
            isa,
            cranelift_module::default_libcall_names(),
        ));
        let mut context = module.make_context();
        context
            .func
            .signature
            .params
            .extend([AbiParam::new(pointer); 3]);
        let id = module
            .declare_function("f", Linkage::Export, &context.func.signature)
            .unwrap();
        let mut frame = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut context.func, &mut frame);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let [a, b, out] = *builder.block_params(block) else {
            unreachable!()
        };
        let x = builder.ins().load(ty, MemFlagsData::new(), a, 0);
        let y = builder.ins().load(ty, MemFlagsData::new(), b, 0);
        let result = emit(
            &mut Clif::new(&mut builder, ty, fma),
            function,
            &[x, y][..function.arity()],
        );
        builder.ins().store(MemFlagsData::new(), result, out, 0);
        builder.ins().return_(&[]);
        builder.finalize(module.target_config());
        module.define_function(id, &mut context).unwrap();
        module.finalize_definitions().unwrap();
        let code = module.get_finalized_function(id);
        // SAFETY: the function was declared with three pointers and no result, in the host's C convention.
        let code = unsafe {
            std::mem::transmute::<*const u8, extern "C" fn(*const u8, *const u8, *mut u8)>(code)
        };
        Compiled {
            module: Some(module),
            code,
            bytes: ty.bytes() as usize,
        }
    }

    /// The results for as many operands as fit one value.
    fn call<T: Float>(&self, x: &[T], y: &[T], out: &mut [T]) {
        for slice in [x.len(), y.len(), out.len()] {
            assert_eq!(slice * size_of::<T>(), self.bytes);
        }
        // The code reads `bytes` from the first two and writes `bytes` to the third.
        (self.code)(
            x.as_ptr().cast(),
            y.as_ptr().cast(),
            out.as_mut_ptr().cast(),
        );
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: `code`, the only pointer into the memory, is never called after this.
            unsafe { module.free_memory() }
        }
    }
}

fn check_code<T: Float + Default>(function: Function, ty: Type, fma: bool) {
    let code = Compiled::new(function, ty, fma);
    let lanes = ty.lane_count() as usize;
    let mut out = vec![T::default(); lanes];
    for chunk in inputs::<T>(function, FAST_SAMPLES).chunks_exact(lanes) {
        let x: Vec<T> = chunk.iter().map(|c| c[0]).collect();
        let y: Vec<T> = chunk.iter().map(|c| c[1]).collect();
        code.call(&x, &y, &mut out);
        for ([x, y], got) in chunk.iter().zip(&out) {
            let want = T::call(function, fma, &[*x, *y][..function.arity()]);
            let nans = want.wide().is_nan() && got.wide().is_nan();
            assert!(
                nans || want.bits() == got.bits(),
                "{} {ty} fma {fma}: {got:?} instead of {want:?} at {x:?}, {y:?}",
                function.name()
            );
        }
    }
}

#[test]
fn machine_code_gives_the_bits_of_the_reference() {
    // Other architectures always have FMA.
    let detected = !cfg!(target_arch = "x86_64") || Cpu::host().has_fma();
    for function in Function::ALL {
        for fma in [false, true] {
            if fma && !detected {
                println!("skipped: needs FMA");
                continue;
            }
            check_code::<f32>(function, types::F32X4, fma);
            check_code::<f32>(function, types::F32, fma);
            check_code::<f64>(function, types::F64X2, fma);
            check_code::<f64>(function, types::F64, fma);
        }
    }
}
