//! The goal of a metric, by its name: losses, errors and distances are minimized, accuracies and scores are maximized.

/// Parts of names of what is minimized.
const MINIMIZED: [&str; 8] = [
    "loss",
    "error",
    "entropy",
    "distance",
    "perplexity",
    "mse",
    "mae",
    "divergence",
];

/// Whole words of such names, which are too short to be looked for within others.
const MINIMIZED_WORDS: [&str; 5] = ["err", "nll", "ppl", "cost", "regret"];

/// Parts of names of what is maximized.
const MAXIMIZED: [&str; 9] = [
    "accuracy",
    "precision",
    "recall",
    "score",
    "correct",
    "likelihood",
    "similarity",
    "correlation",
    "reward",
];

const MAXIMIZED_WORDS: [&str; 12] = [
    "acc", "auc", "roc", "f1", "r2", "iou", "dice", "bleu", "rouge", "psnr", "ssim", "map",
];

/// Whether smaller values of a metric are better, by its name: it is a loss, an error or a distance.
///
/// ```
/// use trainspec_frontend::typed::is_minimized;
///
/// assert!(is_minimized("validation_loss") && is_minimized("MAE") && !is_minimized("accuracy"));
/// ```
pub fn is_minimized(tag: &str) -> bool {
    says(tag, &MINIMIZED, &MINIMIZED_WORDS)
}

/// Whether larger values of a metric are better, by its name: it is an accuracy or a score.
///
/// ```
/// use trainspec_frontend::typed::is_maximized;
///
/// assert!(is_maximized("top_5_accuracy") && is_maximized("auc") && !is_maximized("size"));
/// ```
pub fn is_maximized(tag: &str) -> bool {
    !is_minimized(tag) && says(tag, &MAXIMIZED, &MAXIMIZED_WORDS)
}

fn says(tag: &str, parts: &[&str], words: &[&str]) -> bool {
    let tag = tag.to_lowercase();
    let mut own = tag.split(|c: char| !c.is_alphanumeric());
    parts.iter().any(|part| tag.contains(part)) || own.any(|word| words.contains(&word))
}
