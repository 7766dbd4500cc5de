//! Values for the inputs and the state of a graph.

use std::collections::BTreeMap;

use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{DType, Tensor};

/// What a graph is run on.
#[derive(Debug, Clone, PartialEq)]
pub struct Feeds {
    /// The inputs by name.
    pub inputs: BTreeMap<String, Tensor>,
    /// The state, in the order of the graph.
    pub state: Vec<Tensor>,
}

/// Numbers that follow from a seed (xorshift).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// Those of a seed.
    pub fn new(seed: u64) -> Numbers {
        let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // Seeds that are close give numbers that are close, at first.
        for _ in 0..4 {
            numbers.bits();
        }
        numbers
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from -1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
    }

    /// A whole number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.bits() >> 16) % n.max(1)
    }
}

/// What kind of numbers are fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Floats from -2 to 2, integers of one digit.
    Tame,
    /// Multiples of a half, so that many are equal.
    Halves,
    /// The ends of types of integers, zeros of both signs, infinities and NaN among others.
    Wild,
}

/// Values for a graph; a few seeds give strange ones.
pub fn feeds(graph: &Graph, seed: u64) -> Feeds {
    let mut numbers = Numbers::new(seed);
    let kind = match seed % 16 {
        13 | 14 => Kind::Halves,
        15 => Kind::Wild,
        _ => Kind::Tame,
    };
    let inputs = graph
        .inputs()
        .map(|(name, v)| (name.to_owned(), tensor(graph.ty(v), kind, &mut numbers)))
        .collect();
    let state = graph
        .state
        .iter()
        .map(|piece| tensor(&piece.ty, kind, &mut numbers))
        .collect();
    Feeds { inputs, state }
}

fn tensor(ty: &Type, kind: Kind, numbers: &mut Numbers) -> Tensor {
    let n = ty.elements();
    if ty.dtype.is_float() {
        let values: Vec<f64> = (0..n).map(|_| float(kind, numbers)).collect();
        return Tensor::from_f64s(ty, values);
    }
    let (least, most) = ty.dtype.int_range().unwrap_or((0, 1));
    let whole = |numbers: &mut Numbers| match ty.dtype {
        DType::Bool => (numbers.below(2)) as i64,
        _ if kind == Kind::Wild && numbers.below(6) == 0 => {
            [least, most, 0, -1, least + 1][numbers.below(5) as usize]
        }
        _ => numbers.below(19) as i64 - 9,
    };
    let values: Vec<i64> = (0..n).map(|_| whole(numbers)).collect();
    Tensor::from_i64s(ty, values)
}

fn float(kind: Kind, numbers: &mut Numbers) -> f64 {
    match kind {
        Kind::Tame => numbers.unit() * 2.0,
        Kind::Halves => numbers.below(9) as f64 * 0.5 - 2.0,
        Kind::Wild if numbers.below(6) == 0 => {
            let special = [
                0.0,
                -0.0,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                // Not so large that sums of products end differently in more digits.
                1e4,
                -300.0,
                // Products with it are too small to be normal, which makes them zero. Numbers that are that small from the start may be
                // taken as they are or as zero.
                1e-37,
            ];
            special[numbers.below(special.len() as u64) as usize]
        }
        Kind::Wild => numbers.unit() * 2.0,
    }
}
