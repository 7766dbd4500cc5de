//! Elements that are kept, told apart or checked.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, any, floats, ints};
use super::{Routine, y};
use crate::exec::parallel;

/// The positions of what is true, zeros behind them, and how many there are.
pub(super) fn compact(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let x = r.x::<bool>(0);
    let positions = y::<i64>(&mut r.outputs[0]);
    positions.fill(0);
    let mut count = 0;
    for (i, _) in x.iter().enumerate().filter(|(_, truth)| **truth) {
        positions[count] = i as i64;
        count += 1;
    }
    y::<i64>(&mut r.outputs[1])[0] = count as i64;
    Ok(())
}

/// How many elements are checked by one task.
const CHECKED: usize = 1 << 12;

/// The operand, if all of it lies between the bounds.
pub(super) fn bounded(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let range = r.int("low")..r.int("high");
    ints!(r.types[0].dtype, T => {
        let x = r.x::<T>(0);
        let outside = |n: &T| !range.contains(&n.to_i64());
        let wrong = AtomicBool::new(false);
        parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), CHECKED, |i, part| {
            let x = &x[i * CHECKED..][..part.len()];
            part.copy_from_slice(x);
            // All are looked at, without a branch for each.
            if x.iter().fold(false, |any, n| any | outside(n)) {
                wrong.store(true, Relaxed);
            }
        });
        if wrong.into_inner() {
            let n = x.iter().find(|n| outside(n)).expect("there is one");
            let (what, low, high) = (r.string("what"), range.start, range.end);
            return Err(EvalError(format!("`{what}`: {n} is not in {low}..{high}")));
        }
    });
    Ok(())
}

/// The different elements in the order of their first appearance, zeros behind them, which of these each element is, and
/// how many there are.
pub(super) fn unique(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let dtype = r.types[0].dtype;
    match dtype.is_float() {
        // What is equal has the same bits after -0 became 0; NaN has no key, because it equals nothing.
        true => floats!(dtype, T => distinct(r, |x: T| {
            let x = x.to_f64();
            (!x.is_nan()).then(|| (x + 0.0).to_bits())
        })),
        false => any!(dtype, T => distinct(r, |x: T| Some(x.to_i64() as u64))),
    }
    Ok(())
}

/// A place of the table that is free.
const FREE: u32 = u32::MAX;

fn distinct<T: Elem>(r: &mut Routine<'_>, key: impl Fn(T) -> Option<u64>) {
    let x = r.x::<T>(0);
    let [values, positions, count] = r.outputs else {
        panic!("`unique` has three results");
    };
    let (values, positions) = (y::<T>(values), y::<i32>(positions));
    // Numbers of values by their keys; half of the table stays free, and a taken place is passed over.
    let bits = (2 * x.len()).next_power_of_two().ilog2().max(1);
    let table = &mut r.scratch.table;
    table.clear();
    table.resize(1 << bits, FREE);
    let mut found = 0;
    for (x, position) in x.iter().zip(positions) {
        // Where the value is known, or else where it will be.
        let known = key(*x).map(|wanted| {
            let mut at = (wanted.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize;
            while table[at] != FREE && key(values[table[at] as usize]) != Some(wanted) {
                at = (at + 1) % (1 << bits);
            }
            &mut table[at]
        });
        *position = match known {
            Some(number) if *number != FREE => *number as i32,
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
