//! Shape unification: binds a model's named dimensions to the sizes of the values it is fed.

use std::collections::BTreeMap;

use trainspec_compiler::ir::{Size, Tensor};
use trainspec_compiler::lower::Binding;
use trainspec_compiler::typed::{Feature, Model};

use crate::{DataError, Error};

/// Unifies the declared shapes of a model's inputs with the shapes of values: names are bound, all other dimensions must be equal.
pub(super) fn bind(model: &Model, values: &BTreeMap<String, Tensor>) -> Result<Binding, Error> {
    let mut sizes = Binding::new();
    let mut fed = Vec::new();
    for input in &model.inputs {
        let Some(value) = values.get(&input.name) else {
            let message = format!("the data has no `{}`", input.name);
            return Err(DataError::new(message).at(input.span).into());
        };
        if value.dtype() != input.ty.dtype || value.shape().len() != input.ty.rank() {
            return Err(misfit(input, value, &sizes));
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
                return Err(misfit(input, value, &sizes));
            }
        }
    }
    Ok(sizes)
}

fn misfit(input: &Feature, value: &Tensor, sizes: &Binding) -> Error {
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
