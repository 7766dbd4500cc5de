//! Generators: iota, and uniform random numbers by the counter-based generator Philox 4x32-10.

use trainspec_ir::DType;
use trainspec_ir::interp::EvalError;
use trainspec_ir::philox::Key;

use super::elements::{Elem, floats};
use super::elementwise::map;
use super::{GRAIN, Routine, SliceMut, y};
use crate::exec::multiversion::{Work, dispatch};
use crate::exec::parallel;

/// Iota: 0, 1, 2, ….
pub(super) fn iota(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    map(r.pool, y::<i64>(&mut r.outputs[0]), |i| i as i64..);
    Ok(())
}

/// The Philox key of a call site under a seed.
pub(super) fn random_key(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let key = Key::new(r.x::<i64>(0)[0], r.string("site"));
    y::<i64>(&mut r.outputs[0])[0] = key.0 as i64;
    Ok(())
}

/// Derives a key from a key and a number (fold-in).
pub(super) fn fold_key(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let key = Key(r.x::<i64>(0)[0] as u64).fold(r.x::<i64>(1)[0]);
    y::<i64>(&mut r.outputs[0])[0] = key.0 as i64;
    Ok(())
}

/// Uniform random numbers in the open interval (0, 1): (k + ½) / 2ᵇ for b random bits k.
pub(super) fn random_uniform(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let dtype = r.results[0].dtype;
    let bits = match dtype {
        DType::F16 => 10,
        DType::Bf16 => 7,
        DType::F32 => 23,
        DType::F64 => 52,
        other => panic!("random numbers are floats, not {other}"),
    };
    let key = Key(r.x::<i64>(0)[0] as u64);
    let unit = |k: u64| (k as f64 + 0.5) / (1_u64 << bits) as f64;
    let pair = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32) >> (64 - bits);
    if let SliceMut::F32(y) = &mut r.outputs[0] {
        let cpu = r.cpu;
        parallel::chunks_mut(r.pool, y, GRAIN, |i, part| {
            let draws = Draws {
                key,
                first: (i * GRAIN / 4) as u64,
                to: part,
            };
            dispatch(cpu, draws);
        });
        return Ok(());
    }
    // Numbers of a Philox block of four words.
    let size = if dtype == DType::F64 { 2 } else { 4 };
    floats!(dtype, T => {
        parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), GRAIN, |i, part| {
            let first = i * GRAIN / size;
            for (j, some) in part.chunks_mut(size).enumerate() {
                let words = key.block((first + j) as u64);
                for (k, y) in some.iter_mut().enumerate() {
                    *y = T::rounded(unit(match size {
                        2 => pair(words[2 * k], words[2 * k + 1]),
                        _ => u64::from(words[k] >> (32 - bits)),
                    }));
                }
            }
        });
    });
    Ok(())
}

/// Uniform random f32 from the Philox blocks of a key, from block `first` on.
struct Draws<'a> {
    key: Key,
    first: u64,
    to: &'a mut [f32],
}

/// Philox blocks that are computed at once, one for each lane.
const BLOCKS_AT_ONCE: usize = 8;

impl Work for Draws<'_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        for (i, some) in self.to.chunks_mut(4 * BLOCKS_AT_ONCE).enumerate() {
            let words = self
                .key
                .blocks::<BLOCKS_AT_ONCE>(self.first + (i * BLOCKS_AT_ONCE) as u64);
            let mut numbers = [0.0; 4 * BLOCKS_AT_ONCE];
            for (j, four) in numbers.chunks_exact_mut(4).enumerate() {
                for (number, word) in four.iter_mut().zip(&words) {
                    // Exact: k + 1/2 has 24 bits.
                    *number =
                        ((word[j] >> 9) as u32 as i32 as f32 + 0.5) * (1.0 / (1 << 23) as f32);
                }
            }
            some.copy_from_slice(&numbers[..some.len()]);
        }
    }
}
