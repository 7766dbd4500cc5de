//! The standard library of the Trainspec language: its optimizers, schedules, layers, losses, functions.
//!
//! In: nothing. Out: the source files of the library, and the names that each of them defines. Leaves alone: their meaning, which the
//! front end decides.
//!
//! A definition begins at the start of a line, so that [`definitions`] finds it without parsing.

/// A source file of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// The path below the library's folder, with `/` between its components.
    pub path: &'static str,
    /// The source text.
    pub text: &'static str,
}

macro_rules! file {
    ($path:literal) => {
        File {
            path: $path,
            text: include_str!(concat!("../", $path)),
        }
    };
}

/// Every source file of the library, sorted by path.
pub const FILES: &[File] = &[
    file!("activations/elu.trainspec"),
    file!("activations/gelu.trainspec"),
    file!("activations/optional.trainspec"),
    file!("activations/relu.trainspec"),
    file!("activations/silu.trainspec"),
    file!("activations/softmax.trainspec"),
    file!("activations/squash.trainspec"),
    file!("arrays/band.trainspec"),
    file!("arrays/in_top_k.trainspec"),
    file!("arrays/one_hot.trainspec"),
    file!("arrays/positions.trainspec"),
    file!("arrays/segments.trainspec"),
    file!("arrays/shape.trainspec"),
    file!("arrays/space_depth.trainspec"),
    file!("augmentation/color.trainspec"),
    file!("augmentation/crop.trainspec"),
    file!("augmentation/cutout.trainspec"),
    file!("augmentation/draws.trainspec"),
    file!("augmentation/flip.trainspec"),
    file!("augmentation/mixup.trainspec"),
    file!("averages/moving_average.trainspec"),
    file!("clipping/global_norm.trainspec"),
    file!("clipping/norm.trainspec"),
    file!("clipping/value.trainspec"),
    file!("features/bucketize.trainspec"),
    file!("features/multi_hot.trainspec"),
    file!("initializers/constant.trainspec"),
    file!("initializers/orthogonal.trainspec"),
    file!("initializers/random.trainspec"),
    file!("initializers/variance_scaling.trainspec"),
    file!("layers/attention.trainspec"),
    file!("layers/batch_norm.trainspec"),
    file!("layers/bias.trainspec"),
    file!("layers/conv1d.trainspec"),
    file!("layers/conv2d.trainspec"),
    file!("layers/conv2d_transpose.trainspec"),
    file!("layers/dense.trainspec"),
    file!("layers/depthwise_conv2d.trainspec"),
    file!("layers/dropout.trainspec"),
    file!("layers/embedding.trainspec"),
    file!("layers/flatten.trainspec"),
    file!("layers/gru.trainspec"),
    file!("layers/layer_norm.trainspec"),
    file!("layers/lstm.trainspec"),
    file!("layers/pool.trainspec"),
    file!("layers/separable_conv2d.trainspec"),
    file!("layers/standardized.trainspec"),
    file!("losses/binary.trainspec"),
    file!("losses/divergence.trainspec"),
    file!("losses/reduction.trainspec"),
    file!("losses/regression.trainspec"),
    file!("losses/regularization.trainspec"),
    file!("losses/softmax.trainspec"),
    file!("math/constants.trainspec"),
    file!("math/guarded.trainspec"),
    file!("math/logic.trainspec"),
    file!("math/optional.trainspec"),
    file!("math/powers.trainspec"),
    file!("math/rounding.trainspec"),
    file!("math/shrink.trainspec"),
    file!("metrics/accuracy.trainspec"),
    file!("metrics/error.trainspec"),
    file!("optimizers/adadelta.trainspec"),
    file!("optimizers/adafactor.trainspec"),
    file!("optimizers/adagrad.trainspec"),
    file!("optimizers/adagrad_da.trainspec"),
    file!("optimizers/adam.trainspec"),
    file!("optimizers/adamax.trainspec"),
    file!("optimizers/adamw.trainspec"),
    file!("optimizers/ftrl.trainspec"),
    file!("optimizers/gradient_descent.trainspec"),
    file!("optimizers/lamb.trainspec"),
    file!("optimizers/lion.trainspec"),
    file!("optimizers/moments.trainspec"),
    file!("optimizers/momentum.trainspec"),
    file!("optimizers/nadam.trainspec"),
    file!("optimizers/proximal.trainspec"),
    file!("optimizers/radam.trainspec"),
    file!("optimizers/rmsprop.trainspec"),
    file!("optimizers/sgdw.trainspec"),
    file!("optimizers/yogi.trainspec"),
    file!("reductions/logsumexp.trainspec"),
    file!("reductions/moments.trainspec"),
    file!("reductions/norm.trainspec"),
    file!("reductions/zero_fraction.trainspec"),
    file!("schedules/arguments.trainspec"),
    file!("schedules/cosine_decay.trainspec"),
    file!("schedules/exponential_decay.trainspec"),
    file!("schedules/linear_cosine_decay.trainspec"),
    file!("schedules/one_cycle.trainspec"),
    file!("schedules/piecewise_constant.trainspec"),
    file!("schedules/polynomial_decay.trainspec"),
    file!("schedules/warmup.trainspec"),
    file!("sparse/embedding_lookup.trainspec"),
    file!("sparse/matmul.trainspec"),
    file!("sparse/to_dense.trainspec"),
];

/// The keywords that begin a definition.
const KINDS: [&str; 5] = ["block", "fn", "init", "optimizer", "schedule"];

/// The definitions of a source file of the library, as kind and name, in their order.
///
/// Only the beginnings of lines are examined: a definition is a line that begins with its kind, a space, its name and `(`.
///
/// ```
/// let text = "/// x x.\nfn square(x) = x * x;\n\nblock scale(\n    x, by = 2\n) = x * by;\n";
/// let found: Vec<_> = trainspec_std::definitions(text).collect();
/// assert_eq!(found, [("fn", "square"), ("block", "scale")]);
/// ```
pub fn definitions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (kind, rest) = line.split_once(' ')?;
        let (name, _) = rest.split_once('(')?;
        (KINDS.contains(&kind) && is_name(name)).then_some((kind, name))
    })
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn files_are_those_of_the_folder_in_order() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = Vec::new();
        for folder in std::fs::read_dir(root).unwrap() {
            let folder = folder.unwrap();
            if !folder.file_type().unwrap().is_dir() {
                continue;
            }
            for file in std::fs::read_dir(folder.path()).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                if name.ends_with(".trainspec") {
                    found.push(format!("{}/{name}", folder.file_name().to_str().unwrap()));
                }
            }
        }
        found.sort();
        let listed: Vec<_> = FILES.iter().map(|file| file.path).collect();
        assert_eq!(listed, found);
    }

    #[test]
    fn every_file_defines_something_and_no_name_twice() {
        let mut seen = BTreeSet::new();
        for file in FILES {
            assert!(definitions(file.text).next().is_some(), "{}", file.path);
            for definition in definitions(file.text) {
                assert!(seen.insert(definition), "{}: {definition:?}", file.path);
            }
        }
    }

    #[test]
    fn every_definition_is_documented() {
        for file in FILES {
            let mut before = "";
            for line in file.text.lines() {
                if definitions(line).next().is_some() {
                    assert!(before.starts_with("///"), "{}: {line}", file.path);
                }
                before = line;
            }
        }
    }

    #[test]
    fn lines_inside_a_definition_define_nothing() {
        let text = "block a(\n    x\n) {\n    fn b(x)\n}\nfn of words (no)\n// fn c(x)\nlet d(x)\n";
        assert_eq!(definitions(text).collect::<Vec<_>>(), [("block", "a")]);
    }
}
