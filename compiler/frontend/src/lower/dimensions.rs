//! The symbolic dimensions of a spec, and their sizes in a data set.

use std::collections::BTreeSet;

use crate::lower::Binding;
use crate::typed::Spec;

/// The symbolic dimensions of the inputs of the model, which must be bound before it is lowered.
pub fn dimension_names(spec: &Spec) -> Vec<String> {
    let inputs = spec.model.iter().flat_map(|m| &m.inputs);
    let dims = inputs.flat_map(|f| &f.ty.shape.0);
    let names: BTreeSet<String> = dims
        .flat_map(|d| d.size.names())
        .map(|n| n.to_string())
        .collect();
    names.into_iter().collect()
}

/// The sizes of symbolic dimensions as determined by a data set, as far as its own are static.
pub fn dimensions_of_data(spec: &Spec, data: &str) -> Binding {
    let mut binding = Binding::new();
    let elements = spec
        .data
        .iter()
        .find(|d| d.name == data)
        .map(|d| &d.elements);
    for input in spec.model.iter().flat_map(|m| &m.inputs) {
        let Some(element) = elements.and_then(|e| e.get(&input.name)) else {
            continue;
        };
        for (own, given) in input.ty.shape.0.iter().zip(&element.shape.0) {
            if let (Some(name), Some(size)) = (own.size.as_name(), given.size.value()) {
                binding.entry(name.to_owned()).or_insert(size);
            }
        }
    }
    binding
}
