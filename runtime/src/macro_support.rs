//! What generated modules read values with: scalars, ndarray views and tensors of the last run, by the names of their fetches.

use ndarray::{ArrayView, Dimension, IxDyn};
use trainspec_compiler::Fetch;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::tensor::Element;

use crate::session::{Session, Target};
use crate::{Fetched, State};

/// The values of the last run of a session.
#[derive(Debug, Clone, Copy)]
pub struct Values<'s> {
    session: &'s Session,
    fetched: &'s Fetched,
}

impl<'s> Values<'s> {
    /// Those of the last run.
    pub fn of(session: &'s Session) -> Values<'s> {
        Values {
            session,
            fetched: session.results(),
        }
    }

    fn tensor(&self, name: &str) -> &'s Tensor {
        let found = self.fetched.get(name);
        found.unwrap_or_else(|| panic!("a run of the module gives `{name}`"))
    }

    /// A value without dimensions.
    pub fn scalar<T: Element + Copy>(&self, name: &str) -> T {
        elements(name, self.tensor(name))[0]
    }

    /// A value with dimensions.
    pub fn view<T: Element, D: Dimension>(&self, name: &str) -> ArrayView<'s, T, D> {
        view(name, self.tensor(name))
    }

    /// An output some of whose sizes are known at run time alone, without padding.
    pub fn output(&self, name: &str) -> Tensor {
        let value = (self.session).value(&Target::Value(Fetch::Output(name.to_owned())));
        let value = value.ok().flatten();
        value.unwrap_or_else(|| panic!("a prediction of the module gives `{name}`"))
    }
}

/// A variable of a state.
pub fn variable<'s, T: Element, D: Dimension>(state: &'s State, name: &str) -> ArrayView<'s, T, D> {
    let tensor = state.get(name);
    let tensor = tensor.unwrap_or_else(|| panic!("the state of the module has `{name}`"));
    view(name, tensor)
}

fn elements<'t, T: Element>(name: &str, tensor: &'t Tensor) -> &'t [T] {
    let values = tensor.values();
    values.unwrap_or_else(|| panic!("`{name}` has the type of the module"))
}

fn view<'t, T: Element, D: Dimension>(name: &str, tensor: &'t Tensor) -> ArrayView<'t, T, D> {
    ArrayView::from_shape(IxDyn(tensor.shape()), elements(name, tensor))
        .and_then(|view| view.into_dimensionality())
        .unwrap_or_else(|_| panic!("`{name}` has the rank of the module"))
}
