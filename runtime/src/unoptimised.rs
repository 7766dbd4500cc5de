//! The advice about builds without optimisation: machine code of specs is as fast in them, routines written in Rust are not.

use std::sync::atomic::{AtomicBool, Ordering};

use trainspec_compiler::codegen::IS_OPTIMIZED;
use trainspec_compiler::typed::{Node, NodeKind, Spec};

/// The advice, once in a process, where a spec has matrix products or convolutions and their routines were built without optimisation.
pub(crate) fn advice_once(spec: &Spec) -> Option<String> {
    static GIVEN: AtomicBool = AtomicBool::new(false);
    let advice = advice(IS_OPTIMIZED, spec)?;
    (!GIVEN.swap(true, Ordering::Relaxed)).then_some(advice)
}

fn advice(is_optimized: bool, spec: &Spec) -> Option<String> {
    let model = spec.model.as_ref().filter(|_| !is_optimized)?;
    let product = first_product(&model.train.program.nodes)?;
    Some(format!(
        "trainspec was compiled without optimisation, so `{product}` takes many times as long: \
         add `[profile.dev.package.\"*\"]` with `opt-level = 2` to Cargo.toml, or build with `--release`"
    ))
}

/// The first operation that is a matrix product or a convolution, also in a loop.
fn first_product(nodes: &[Node]) -> Option<&'static str> {
    nodes.iter().find_map(|node| match &node.kind {
        NodeKind::Op { op, .. } => {
            let is_product = op.name == "matmul" || op.name.contains("conv2d");
            is_product.then_some(op.name)
        }
        NodeKind::Scan(scan) => first_product(&scan.body),
        NodeKind::Input(_)
        | NodeKind::Const(_)
        | NodeKind::Step
        | NodeKind::Read(_)
        | NodeKind::Write(..)
        | NodeKind::Grad { .. }
        | NodeKind::Hessian { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_without_optimisation_are_worth_a_word() {
        let spec = |body: &str| {
            let text = format!(
                "spec s; model (x: f32[batch, 3]) {{ param a: f32 = ones(); {body} }} train {{ optimizer gradient_descent(0.1); }}"
            );
            crate::check("s", &text).unwrap()
        };
        let product = spec("loss a * mean(dense(x, 2));");
        let advice_of = advice(false, &product).unwrap();
        assert!(
            advice_of.contains("`matmul`") && advice_of.contains("opt-level"),
            "{advice_of}"
        );
        assert_eq!(advice(true, &product), None);
        let scan = "let end = scan row in x, h = fill([1, 3], 0.0) { tanh(h @ fill([3, 3], 0.5) + row) }; \
                    loss a * mean(end);";
        assert!(advice(false, &spec(scan)).is_some());
        assert_eq!(advice(false, &spec("loss a * mean(x);")), None);
    }
}
