//! "Did you mean": the nearest name by edit distance (optimal string alignment).

/// Longer words are not compared: the edit distance takes quadratic time.
const MAX_WORD_LENGTH: usize = 100;

/// The candidate that `word` was most likely meant to be, where one is near enough.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > MAX_WORD_LENGTH {
        return None;
    }
    let lower = word.to_lowercase();
    let limit = (word.chars().count() / 3).clamp(1, 4);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate == word || candidate.len().abs_diff(word.len()) > limit.max(2) {
            continue;
        }
        let distance = match candidate.to_lowercase() {
            c if c == lower => 0,
            c => strsim::osa_distance(&lower, &c),
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
    }
}
