//! Key derivation for the random generator (`jax.random.fold_in`): the subkey for one of many uses.

use ndarray::arr0;

use crate::graph::{Eval, Gradient, Prim};
use crate::ops::random_key::{keys, number};
use crate::philox::Key;

/// The bits of the subkey derived from a key and a number, by [`Key::fold`].
pub(crate) static PRIM: Prim = Prim {
    name: "fold_key",
    attrs: &[],
    infer: |call| keys::<2>(call),
    gradient: Gradient::None,
    eval: Eval::Tensors(|e| {
        let key = Key(number(e, 0) as u64).fold(number(e, 1));
        Ok(vec![arr0(key.0 as i64).into_dyn().into()])
    }),
};
