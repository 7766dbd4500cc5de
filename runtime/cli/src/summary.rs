//! `trainspec summary`: the layers of a model with their shapes and parameters, and the memory of its training.

use std::path::PathBuf;

use serde_json::{Value, json};
use trainspec_compiler::{
    Footprint, Layer, Layers, Parameters, StateSizes, pipeline, readable_bytes,
};

use crate::columns::{self, Align};
use crate::output::{diagnostics, print, say};
use crate::{BAD_INPUT, FINE, Format, files};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Functions are listed where an output or a later layer depends on them; what only losses and metrics need \
                  is left out. Memory is that of the training on this spec's data, besides the data itself."
)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The size of a named dimension that the training data does not fix
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = files::name_and_size)]
    dims: Vec<(String, i64)>,
    /// The levels of layers that are shown: 2 shows what blocks consist of
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let format = arguments.format;
    let compilation = match files::checked(&arguments.file, &arguments.set, format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    let given = arguments.dims.iter().cloned().collect();
    if let Err(unknown) = files::known_dimensions(spec, &arguments.dims) {
        diagnostics(&compilation.sources, &[unknown], format);
        return BAD_INPUT;
    }
    let Some(layers) = Layers::of(spec, arguments.depth.max(1)) else {
        diagnostics(&compilation.sources, &[files::no_model(spec)], format);
        return BAD_INPUT;
    };
    let dims = pipeline::dimensions(spec, &given).unwrap_or_else(|_| given.clone());
    let summary = Summary {
        name: &spec.name,
        inputs: (spec.model.iter())
            .flat_map(|model| &model.inputs)
            .map(|input| (input.name.clone(), input.ty.to_string()))
            .collect(),
        layers,
        dims: dims
            .iter()
            .map(|(name, size)| (name.clone(), *size))
            .collect(),
        footprint: Footprint::of(spec, &given),
        sizes: StateSizes::of(spec),
    };
    match format {
        Format::Text => summary.text(),
        Format::Json => print(summary.json()),
    }
    FINE
}

struct Summary<'a> {
    name: &'a str,
    /// Names and types.
    inputs: Vec<(String, String)>,
    layers: Layers,
    /// The sizes of named dimensions.
    dims: Vec<(String, i64)>,
    footprint: Option<Footprint>,
    sizes: Option<StateSizes>,
}

impl Summary<'_> {
    fn text(&self) {
        say(self.name);
        for (name, ty) in &self.inputs {
            say(format_args!("input {name}: {ty}"));
        }
        let head = [
            ("layer", Align::Left),
            ("kind", Align::Left),
            ("output", Align::Left),
            ("parameters", Align::Right),
        ];
        let mut rows: Vec<Vec<String>> = self.layers.layers.iter().map(row).collect();
        for own in &self.layers.own {
            let cells = [own.name.clone(), "variable".to_owned(), own.ty.to_string()];
            let number = thousands(own.parameters.all());
            rows.push(cells.into_iter().chain([number]).collect());
        }
        print("");
        columns::lines(&head, &rows).for_each(say);
        print("");
        say(format_args!("parameters: {}", total(self.layers.total)));
        if let Some(sizes) = self.sizes {
            let parts = [
                ("variables", sizes.variables),
                ("slots", sizes.slots),
                ("averages", sizes.averages),
                ("accumulated gradients", sizes.accumulators),
                ("scalars", sizes.scalars),
            ];
            let parts = parts.iter().filter(|(_, bytes)| *bytes > 0);
            let parts: Vec<String> = parts
                .map(|(name, bytes)| format!("{name} {}", readable_bytes(*bytes)))
                .collect();
            let all = self.footprint.map_or(0, |footprint| footprint.state);
            let all = readable_bytes(all);
            say(format_args!("state: {all} ({})", parts.join(", ")));
        }
        let step = self.footprint.and_then(|f| Some((f.step?, f.flops?)));
        if let Some((bytes, flops)) = step {
            let dims: Vec<String> = (self.dims.iter())
                .map(|(name, size)| format!("{name} = {size}"))
                .collect();
            let given = match dims.is_empty() {
                true => String::new(),
                false => format!(" with {}", dims.join(", ")),
            };
            say(format_args!(
                "step: {}, {}FLOP{given}",
                readable_bytes(bytes),
                columns::scaled(flops as f64)
            ));
        }
    }

    fn json(&self) -> Value {
        let layers = self.layers.layers.iter().map(|layer| {
            json!({
                "name": layer.name,
                "definition": layer.definition,
                "depth": layer.depth,
                "inputs": layer.inputs.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "outputs": layer.outputs.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "parameters": parameters_json(layer.parameters),
                "shared": layer.shared,
            })
        });
        let own = self.layers.own.iter().map(|own| {
            json!({ "name": own.name, "type": own.ty.to_string(), "parameters": parameters_json(own.parameters) })
        });
        let inputs = self.inputs.iter();
        let inputs = inputs.map(|(name, ty)| json!({ "name": name, "type": ty }));
        let dims = self
            .dims
            .iter()
            .map(|(name, size)| (name.clone(), json!(size)));
        json!({
            "spec": self.name,
            "inputs": inputs.collect::<Vec<_>>(),
            "layers": layers.collect::<Vec<_>>(),
            "variables": own.collect::<Vec<_>>(),
            "parameters": parameters_json(self.layers.total),
            "dimensions": dims.collect::<serde_json::Map<_, _>>(),
            "state_bytes": self.footprint.map(|f| f.state),
            "state": self.sizes.map(|sizes| json!({
                "variables": sizes.variables,
                "slots": sizes.slots,
                "averages": sizes.averages,
                "accumulators": sizes.accumulators,
                "scalars": sizes.scalars,
            })),
            "step_bytes": self.footprint.and_then(|f| f.step),
            "step_flops": self.footprint.and_then(|f| f.flops),
        })
    }
}

fn row(layer: &Layer) -> Vec<String> {
    let name = layer.name.as_str();
    // Inside of a block its scope is clear.
    let last = name.rsplit('/').next().unwrap_or(name);
    let shown = if layer.depth > 0 { last } else { name };
    let outputs: Vec<String> = layer.outputs.iter().map(ToString::to_string).collect();
    let parameters = match (layer.parameters.all(), layer.shared) {
        (0, _) => String::new(),
        (_, true) => "shared".to_owned(),
        (n, false) => thousands(n),
    };
    vec![
        format!("{}{shown}", "  ".repeat(layer.depth)),
        layer.definition.clone(),
        outputs.join(", "),
        parameters,
    ]
}

fn total(parameters: Parameters) -> String {
    let mut parts = vec![format!("{} trained", thousands(parameters.trained))];
    for (n, name) in [(parameters.frozen, "frozen"), (parameters.state, "state")] {
        if n > 0 {
            parts.push(format!("{} {name}", thousands(n)));
        }
    }
    match parts.len() {
        1 => thousands(parameters.trained),
        _ => format!("{} ({})", thousands(parameters.all()), parts.join(", ")),
    }
}

fn parameters_json(parameters: Parameters) -> Value {
    json!({
        "trained": parameters.trained,
        "frozen": parameters.frozen,
        "state": parameters.state,
    })
}

/// An integer with a comma between groups of three digits.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
        ] {
            assert_eq!(thousands(n), text);
        }
    }
}
