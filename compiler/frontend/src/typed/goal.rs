//! The goal of a metric, by its name: losses, errors and distances are minimized, everything else is maximized.

/// Whether smaller values of a metric are better, by its name: it is a loss, an error or a distance.
///
/// ```
/// use trainspec_frontend::typed::is_minimized;
///
/// assert!(is_minimized("validation_loss") && !is_minimized("accuracy"));
/// ```
pub fn is_minimized(tag: &str) -> bool {
    let words = [
        "loss",
        "error",
        "entropy",
        "distance",
        "perplexity",
        "mse",
        "mae",
        "divergence",
    ];
    words.iter().any(|word| tag.contains(word))
}
