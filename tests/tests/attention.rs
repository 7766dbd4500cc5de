//! Attention of queries that see nothing, in every float dtype.

use std::collections::BTreeMap;

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::{DType, Tensor, interp};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Binding, Compilation, Options, ProgramKind, Trainable, pipeline};

#[test]
fn a_query_that_sees_nothing_weighs_all_values_alike() {
    for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
        let text = format!(
            "spec masked;
             model (x: {dtype}[3, 2], seen: bool[3, 3]) {{
                 output y = scaled_dot_product_attention(x, x, x, mask: seen);
                 output z = scaled_dot_product_attention(x, x, x, mask: seen, causal: true);
             }}"
        );
        let checked = Compilation::check("masked", &text, &NoFiles, &Options::default());
        let spec = checked.spec.expect("it is fine");
        let lowered = pipeline::lower(
            &Trainable::from(spec),
            ProgramKind::Predict,
            &Binding::new(),
        );
        let graph = lowered.expect("it has a graph").graph;
        let ty = Type::new(dtype, &[3, 2]);
        let x = Tensor::from_f64s(&ty, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        // The last query sees no key.
        let seen = (0..9).map(|i| i < 6).collect::<Vec<bool>>();
        let inputs = BTreeMap::from([
            ("x".to_owned(), x),
            ("seen".to_owned(), Tensor::new(&[3, 3], seen)),
        ]);
        let outcome = interp::run(&graph, &inputs, &[]).expect("it runs");
        for result in &outcome.results {
            let y = result.to_f64s();
            assert!(y.iter().all(|x| x.is_finite()), "{dtype}: {y:?}");
            // The mean of the values.
            for (found, mean) in y[4..].iter().zip([3.0, 4.0]) {
                assert!((found - mean).abs() <= 0.02 * mean, "{dtype}: {y:?}");
            }
        }
    }
}
