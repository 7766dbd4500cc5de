//! Vector math library: elementary functions as branch-free code over lanes (range reduction and minimax polynomials), with stated
//! error bounds in ulp.
//!
//! In: a [`Function`], its operands and an [`Emit`] to emit operations with. Out: the value of the function.
//! [`Scalar`] evaluates the operations on one number; [`Clif`] emits Cranelift instructions. Both give the same bits, except for NaN
//! payloads.
//! Leaves alone: functions that need a loop or a table, which are calls (see [`Function::of`]), and trigonometric functions of huge
//! arguments (see [`needs_call`]).

mod clif;
mod emit;
mod erf;
mod error_free;
mod exp;
mod log;
mod poly;
mod pow;
mod rsqrt_sign;
mod saturating;
mod scalar;
mod sigmoid;
mod tanh;
mod trig;

pub use clif::Clif;
pub use emit::{Emit, Lane};
pub use scalar::Scalar;

/// A function that has branch-free code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// eˣ.
    Exp,
    /// eˣ - 1.
    Expm1,
    /// ln x.
    Log,
    /// ln (1 + x).
    Log1p,
    /// tanh x.
    Tanh,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// ln (1 + eˣ).
    Softplus,
    /// The error function.
    Erf,
    /// The complementary error function 1 - erf x.
    Erfc,
    /// xʸ.
    Pow,
    /// sin x.
    Sin,
    /// cos x.
    Cos,
    /// tan x.
    Tan,
    /// √x, correctly rounded.
    Sqrt,
    /// 1 / √x, from a rounded root and a rounded quotient.
    Rsqrt,
    /// ⌊x⌋.
    Floor,
    /// ⌈x⌉.
    Ceil,
    /// The nearest integer, ties to even.
    Round,
    /// -1, 0 or 1; x itself where x is zero or NaN.
    Sign,
}

impl Function {
    /// All functions.
    pub const ALL: [Function; 19] = [
        Function::Exp,
        Function::Expm1,
        Function::Log,
        Function::Log1p,
        Function::Tanh,
        Function::Sigmoid,
        Function::Softplus,
        Function::Erf,
        Function::Erfc,
        Function::Pow,
        Function::Sin,
        Function::Cos,
        Function::Tan,
        Function::Sqrt,
        Function::Rsqrt,
        Function::Floor,
        Function::Ceil,
        Function::Round,
        Function::Sign,
    ];

    /// The name of the primitive for this function.
    pub fn name(self) -> &'static str {
        match self {
            Function::Exp => "exp",
            Function::Expm1 => "expm1",
            Function::Log => "log",
            Function::Log1p => "log1p",
            Function::Tanh => "tanh",
            Function::Sigmoid => "sigmoid",
            Function::Softplus => "softplus",
            Function::Erf => "erf",
            Function::Erfc => "erfc",
            Function::Pow => "pow",
            Function::Sin => "sin",
            Function::Cos => "cos",
            Function::Tan => "tan",
            Function::Sqrt => "sqrt",
            Function::Rsqrt => "rsqrt",
            Function::Floor => "floor",
            Function::Ceil => "ceil",
            Function::Round => "round",
            Function::Sign => "sign",
        }
    }

    /// The function of a primitive on floats, if it has branch-free code; the others are calls to `libm`.
    pub fn of(prim_name: &str) -> Option<Function> {
        Function::ALL.into_iter().find(|f| f.name() == prim_name)
    }

    /// The number of operands.
    pub fn arity(self) -> usize {
        if self == Function::Pow { 2 } else { 1 }
    }

    /// The error bound in units in the last place (ulp) of the result, denormal results included.
    ///
    /// Sines, cosines and tangents keep it where [`needs_call`] is false.
    pub fn max_ulp(self, lane: Lane) -> f64 {
        match (self, lane) {
            (Function::Floor | Function::Ceil | Function::Round | Function::Sign, _) => 0.0,
            (Function::Sqrt, _) => 0.5,
            (Function::Rsqrt, _) => 1.5,
            (Function::Exp | Function::Log, Lane::F32) => 2.0,
            (Function::Tanh | Function::Erf | Function::Erfc | Function::Sigmoid, Lane::F32) => 5.0,
            (
                Function::Expm1
                | Function::Log1p
                | Function::Softplus
                | Function::Pow
                | Function::Sin
                | Function::Cos
                | Function::Tan,
                Lane::F32,
            )
            | (
                Function::Exp
                | Function::Expm1
                | Function::Log
                | Function::Log1p
                | Function::Tanh
                | Function::Sigmoid
                | Function::Softplus
                | Function::Erf
                | Function::Erfc
                | Function::Pow
                | Function::Sin
                | Function::Cos
                | Function::Tan,
                Lane::F64,
            ) => 4.0,
        }
    }
}

/// Emits `function` of `operands` with `e`.
///
/// # Panics
///
/// If the number of operands is not [`Function::arity`].
pub fn emit<E: Emit>(e: &mut E, function: Function, operands: &[E::V]) -> E::V {
    assert_eq!(
        operands.len(),
        function.arity(),
        "operands of {}",
        function.name()
    );
    let x = operands[0];
    match function {
        Function::Exp => exp::exp(e, x),
        Function::Expm1 => exp::expm1(e, x),
        Function::Log => log::log(e, x),
        Function::Log1p => log::log1p(e, x),
        Function::Tanh => tanh::tanh(e, x),
        Function::Sigmoid => sigmoid::sigmoid(e, x),
        Function::Softplus => sigmoid::softplus(e, x),
        Function::Erf => erf::erf(e, x),
        Function::Erfc => erf::erfc(e, x),
        Function::Pow => pow::pow(e, x, operands[1]),
        Function::Sin => trig::sin(e, x),
        Function::Cos => trig::cos(e, x),
        Function::Tan => trig::tan(e, x),
        Function::Sqrt => e.sqrt(x),
        Function::Rsqrt => rsqrt_sign::rsqrt(e, x),
        Function::Floor => e.floor(x),
        Function::Ceil => e.ceil(x),
        Function::Round => e.nearest(x),
        Function::Sign => rsqrt_sign::sign(e, x),
    }
}

/// The mask of the lanes for which [`emit`] is invalid, so that the caller must fall back to a call; `None` if
/// there can be none.
///
/// Only sines, cosines and tangents of finite arguments beyond [`trig_limit`] are such.
pub fn needs_call<E: Emit>(e: &mut E, function: Function, operands: &[E::V]) -> Option<E::M> {
    match function {
        Function::Sin | Function::Cos | Function::Tan => Some(trig::needs_call(e, operands[0])),
        Function::Exp
        | Function::Expm1
        | Function::Log
        | Function::Log1p
        | Function::Tanh
        | Function::Sigmoid
        | Function::Softplus
        | Function::Erf
        | Function::Erfc
        | Function::Pow
        | Function::Sqrt
        | Function::Rsqrt
        | Function::Floor
        | Function::Ceil
        | Function::Round
        | Function::Sign => None,
    }
}

/// The greatest magnitude whose sine, cosine and tangent need no call: the limit of the range reduction.
pub fn trig_limit(lane: Lane) -> f64 {
    match lane {
        Lane::F32 => trig::LIMIT_F32,
        Lane::F64 => trig::LIMIT_F64,
    }
}
