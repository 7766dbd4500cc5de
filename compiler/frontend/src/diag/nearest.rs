//! "Did you mean": what another framework's name is called here, or the nearest name by edit distance (optimal string alignment).

use crate::diag::foreign;

/// Longer words are not compared: the edit distance takes quadratic time.
const MAX_WORD_LENGTH: usize = 100;

/// The candidate that `word` was most likely meant to be, where one is near enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_WORD_LENGTH {
        return None;
    }
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(own) = foreign::own_name(word, &candidates) {
        return Some(own);
    }
    let (plain, lower) = (foreign::plain(word), word.to_lowercase());
    // A single letter is near to every other.
    let limit = match word.chars().count() {
        0 | 1 => 0,
        n => (n / 3).clamp(1, 4),
    };
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate == word || candidate.len().abs_diff(word.len()) > limit.max(2) {
            continue;
        }
        let distance = match foreign::plain(candidate) == plain {
            true => 0,
            false => strsim::osa_distance(&lower, &candidate.to_lowercase()),
        };
        let better = match best {
            // A tie goes to the name that is first in the alphabet, whatever order they come in.
            Some((d, name)) => (distance, candidate) < (d, name),
            None => true,
        };
        if distance <= limit && better {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, name)| name)
}

/// `a`, `b` or `c`, for a help that lists what is possible.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|w| format!("`{w}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_a_transposition_and_rejects_unlike_words() {
        assert_eq!(nearest("dnese", ["dense", "conv2d"]), Some("dense"));
        assert_eq!(nearest("hidden", ["HIDDEN", "batch"]), Some("HIDDEN"));
        assert_eq!(nearest("x", ["yes", "softmax"]), None);
        assert_eq!(nearest("p", ["x", "y"]), None);
    }

    #[test]
    fn names_of_other_frameworks_are_found_where_ours_exists() {
        assert_eq!(
            nearest("sgd", ["sgdw", "gradient_descent"]),
            Some("gradient_descent")
        );
        assert_eq!(nearest("sgd", ["sgdw"]), Some("sgdw"));
        assert_eq!(nearest("AdamOptimizer", ["adam", "adamw"]), Some("adam"));
        assert_eq!(
            nearest("CrossEntropyLoss", ["sparse_softmax_cross_entropy"]),
            Some("sparse_softmax_cross_entropy")
        );
        assert_eq!(
            nearest("LeakyReLU", ["relu", "leaky_relu"]),
            Some("leaky_relu")
        );
    }
}
