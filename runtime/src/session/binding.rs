//! Shape unification: binds a model's named dimensions to the sizes of the values it is fed.

use trainspec_compiler::ir::{DType, Size};
use trainspec_compiler::lower::Binding;
use trainspec_compiler::typed::{Feature, Model};

use crate::program::{FeedDict, InputView};
use crate::{DataError, Error};

/// The binding of the feeds of the run before, with their shapes: a run with the same shapes has the same binding.
#[derive(Debug, Default)]
pub(super) struct BindingCache {
    shapes: Vec<(DType, Vec<usize>)>,
    sizes: Binding,
}

impl BindingCache {
    /// The binding of these feeds.
    pub(super) fn bind(&mut self, model: &Model, feeds: &dyn FeedDict) -> Result<&Binding, Error> {
        let same = self.shapes.len() == model.inputs.len() && {
            let mut known = model.inputs.iter().zip(&self.shapes);
            known.all(|(input, (dtype, shape))| {
                feeds
                    .feed(&input.name)
                    .is_some_and(|fed| fed.dtype() == *dtype && fed.shape() == shape)
            })
        };
        if !same {
            self.shapes.clear();
            self.sizes = bind(model, feeds)?;
            let shape = |input: &Feature| {
                let fed = feeds.feed(&input.name).expect("it was just bound");
                (fed.dtype(), fed.shape().to_vec())
            };
            self.shapes.extend(model.inputs.iter().map(shape));
        }
        Ok(&self.sizes)
    }
}

/// Unifies the declared shapes of a model's inputs with the shapes of values: names are bound, all other dimensions must be equal.
pub(crate) fn bind(model: &Model, feeds: &dyn FeedDict) -> Result<Binding, Error> {
    let missing = |input: &&Feature| feeds.feed(&input.name).is_none();
    if let Some(input) = model.inputs.iter().find(missing) {
        let message = format!("the data has no `{}`", input.name);
        return Err(DataError::new(message).at(input.span).into());
    }
    bind_given(model, feeds)
}

/// As [`bind`], with those inputs alone that are fed.
pub(super) fn bind_given(model: &Model, feeds: &dyn FeedDict) -> Result<Binding, Error> {
    let mut sizes = Binding::new();
    let mut fed = Vec::new();
    for input in &model.inputs {
        let Some(value) = feeds.feed(&input.name) else {
            continue;
        };
        if value.dtype() != input.ty.dtype || value.shape().len() != input.ty.rank() {
            return Err(misfit(input, &value, &sizes));
        }
        for (dim, n) in input.ty.shape.0.iter().zip(value.shape()) {
            if let Some(name) = dim.size.as_name() {
                sizes.entry(name.to_owned()).or_insert(*n as i64);
            }
        }
        fed.push((input, value));
    }
    for (input, value) in fed {
        for (dim, n) in input.ty.shape.0.iter().zip(value.shape()) {
            let bound = dim
                .size
                .substitute(&|name| sizes.get(name).map(|n| Size::fixed(*n)));
            if bound.and_then(|s| s.value()) != Some(*n as i64) {
                return Err(misfit(input, &value, &sizes));
            }
        }
    }
    Ok(sizes)
}

fn misfit(input: &Feature, value: &InputView<'_>, sizes: &Binding) -> Error {
    let known: Vec<String> = sizes
        .iter()
        .map(|(name, n)| format!("{name} = {n}"))
        .collect();
    let known = match known.is_empty() {
        true => String::new(),
        false => format!(" with {}", known.join(", ")),
    };
    let message = format!(
        "the model takes `{}: {}`{known}, but the data gives `{}`",
        input.name,
        input.ty,
        value.ty()
    );
    DataError::new(message).at(input.span).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use trainspec_compiler::ir::Tensor;
    use trainspec_compiler::source::NoFiles;
    use trainspec_compiler::{Compilation, Options};

    use super::*;

    fn model(inputs: &str) -> Model {
        let text = format!("spec m; model ({inputs}) {{ output y = x; }}");
        let checked = Compilation::check("m", &text, &NoFiles, &Options::default());
        let spec = checked.spec.expect("it is fine");
        spec.model.clone().expect("it is there")
    }

    fn values(shapes: &[(&str, &[usize])]) -> BTreeMap<String, Tensor> {
        let tensor = |shape: &[usize]| Tensor::new(shape, vec![0.0_f32; shape.iter().product()]);
        shapes
            .iter()
            .map(|(name, shape)| ((*name).to_owned(), tensor(shape)))
            .collect()
    }

    #[test]
    fn names_take_the_sizes_of_the_values() {
        let model = model("x: f32[batch, 4], z: f32[2 * batch, n]");
        let sizes = bind(&model, &values(&[("x", &[3, 4]), ("z", &[6, 5])])).unwrap();
        assert_eq!(sizes, Binding::from([("batch".into(), 3), ("n".into(), 5)]));
    }

    #[test]
    fn sizes_that_disagree_are_reported_with_both_sides() {
        let model = model("x: f32[batch, 4], z: f32[2 * batch, n]");
        for shapes in [
            &[("x", &[3, 4][..]), ("z", &[7, 5])][..],
            &[("x", &[3, 5]), ("z", &[6, 5])],
            &[("x", &[3, 4, 1]), ("z", &[6, 5])],
        ] {
            let error = bind(&model, &values(shapes)).unwrap_err();
            assert!(
                error.to_string().contains("but the data gives `f32["),
                "{error}"
            );
        }
        let error = bind(&model, &values(&[("x", &[3, 4])])).unwrap_err();
        assert_eq!(error.to_string(), "the data has no `z`");
    }
}
