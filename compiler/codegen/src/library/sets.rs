//! Compaction of a boolean mask (tf.where), unique elements (tf.unique, by a hash table), range checks and checks for finite numbers.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use trainspec_ir::interp::{EvalError, NotFinite};

use super::elements::{Elem, any, floats, ints};
use super::{Routine, y};
use crate::exec::{allocate, parallel};

/// Compaction: the indices of true elements, zero-padded, and their count.
pub(super) fn compact(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let x = r.x::<bool>(0);
    let positions = y::<i64>(&mut r.outputs[0]);
    positions.fill(0);
    let mut count = 0;
    for (i, _) in x.iter().enumerate().filter(|(_, is_set)| **is_set) {
        positions[count] = i as i64;
        count += 1;
    }
    y::<i64>(&mut r.outputs[1])[0] = count as i64;
    Ok(())
}

/// Elements of a task of a range check.
const RANGE_CHECK_GRAIN: usize = 1 << 12;

/// Range check: the operand, or an error for an element outside `low..high`.
pub(super) fn bounded(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let range = r.int("low")..r.int("high");
    ints!(r.types[0].dtype, T => {
        let x = r.x::<T>(0);
        let outside = |n: &T| !range.contains(&n.to_i64());
        let wrong = AtomicBool::new(false);
        parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), RANGE_CHECK_GRAIN, |i, part| {
            let x = &x[i * RANGE_CHECK_GRAIN..][..part.len()];
            part.copy_from_slice(x);
            // Branch-free over all elements.
            if x.iter().fold(false, |any, n| any | outside(n)) {
                wrong.store(true, Relaxed);
            }
        });
        if wrong.into_inner() {
            let n = x.iter().find(|n| outside(n)).expect("there is one");
            let (what, low, high) = (r.string("what"), range.start, range.end);
            return Err(EvalError::new(format!("`{what}`: {n} is not in {low}..{high}")));
        }
    });
    Ok(())
}

/// Check for NaN and infinities: true, or an error for an element that is not finite.
pub(super) fn check_finite(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    floats!(r.types[0].dtype, T => {
        let x = r.x::<T>(0);
        if let Some(found) = NotFinite::find(r.string("name"), x.iter().map(|x| x.to_f64())) {
            return Err(EvalError::not_finite(found));
        }
    });
    y::<bool>(&mut r.outputs[0])[0] = true;
    Ok(())
}

/// Unique elements in the order of first occurrence, zero-padded, the index of each element among them, and their count.
pub(super) fn unique(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let dtype = r.types[0].dtype;
    match dtype.is_float() {
        // The key is the bits after -0 became 0; NaN has no key, because it is not equal to itself.
        true => floats!(dtype, T => unique_by_key(r, |x: T| {
            let x = x.to_f64();
            (!x.is_nan()).then(|| (x + 0.0).to_bits())
        })),
        false => any!(dtype, T => unique_by_key(r, |x: T| Some(x.to_i64() as u64))),
    }
    Ok(())
}

/// An empty slot of the hash table.
const EMPTY_SLOT: u32 = u32::MAX;

fn unique_by_key<T: Elem>(r: &mut Routine<'_>, key: impl Fn(T) -> Option<u64>) {
    let x = r.x::<T>(0);
    let [values, positions, count] = r.outputs else {
        panic!("`unique` has three results");
    };
    let (values, positions) = (y::<T>(values), y::<i32>(positions));
    // Open addressing with linear probing, load factor at most ½: indices of unique values by their keys.
    let bits = (2 * x.len()).next_power_of_two().ilog2().max(1);
    let table = &mut r.scratch.hash_table;
    table.clear();
    allocate::grow(table, 1 << bits, EMPTY_SLOT);
    let mut found = 0;
    for (x, position) in x.iter().zip(positions) {
        // The slot of the value, or the empty slot for it.
        let slot = key(*x).map(|key_of_x| {
            let mut at = (key_of_x.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize;
            while table[at] != EMPTY_SLOT && key(values[table[at] as usize]) != Some(key_of_x) {
                at = (at + 1) % (1 << bits);
            }
            &mut table[at]
        });
        *position = match slot {
            Some(number) if *number != EMPTY_SLOT => *number as i32,
            new => {
                if let Some(number) = new {
                    *number = found as u32;
                }
                values[found] = *x;
                found += 1;
                found as i32 - 1
            }
        };
    }
    values[found..].fill(T::default());
    y::<i64>(count)[0] = found as i64;
}
