//! Stateless random numbers in a graph: keys are values, so that a draw is a pure function like any other.

use crate::build::{Builder, Value};
use crate::graph::{Attr, Type};
use crate::ops::prims;

impl Builder {
    /// From here on, draws are keyed by this seed and these numbers (all i64 scalars), besides their site.
    pub fn randomness<'g>(&'g self, seed: Value<'g>, numbers: &[Value<'g>]) {
        let numbers = numbers.iter().map(|v| v.id).collect();
        *self.random.borrow_mut() = Some((seed.id, numbers));
    }

    /// What draws are keyed by, where it was set.
    pub fn randomness_now(&self) -> Option<(Value<'_>, Vec<Value<'_>>)> {
        let (seed, numbers) = self.random.borrow().clone()?;
        Some((
            self.value(seed),
            numbers.into_iter().map(|v| self.value(v)).collect(),
        ))
    }

    /// The key of a site.
    ///
    /// # Panics
    ///
    /// When [`Builder::randomness`] was not called.
    pub fn key(&self, site: &str) -> Value<'_> {
        let (seed, numbers) = self
            .randomness_now()
            .expect("a seed is set before numbers are drawn");
        let key = self.prim(
            &prims::RANDOM_KEY,
            &[seed],
            vec![Attr::String(site.to_owned())],
        )[0];
        numbers.into_iter().fold(key, |key, n| {
            self.prim(&prims::FOLD_KEY, &[key, n], Vec::new())[0]
        })
    }

    /// The uniform distribution on the open interval (0, 1): (k + 1/2) / 2ᵇ with b one less than the digits of the type.
    pub fn random_uniform<'g>(&'g self, key: Value<'g>, ty: &Type) -> Value<'g> {
        let attrs = vec![Attr::Sizes(ty.shape.clone()), Attr::DType(ty.dtype)];
        self.prim(&prims::RANDOM_UNIFORM, &[key], attrs)[0]
    }
}
