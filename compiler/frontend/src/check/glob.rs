//! Glob patterns over variable names: `*` stays within a scope, `**` crosses scopes, `?` is one character.

/// Why a pattern is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadGlob {
    Empty,
    Character(char),
}

pub(crate) fn check(pattern: &str) -> Result<(), BadGlob> {
    match pattern
        .chars()
        .find(|c| "[]{}\\!".contains(*c) || c.is_whitespace())
    {
        Some(c) => Err(BadGlob::Character(c)),
        None if pattern.is_empty() => Err(BadGlob::Empty),
        None => Ok(()),
    }
}

/// Whether a pattern over names of variables matches a name.
///
/// ```
/// use trainspec_frontend::check::matches;
///
/// assert!(matches("head/*", "head/kernel") && !matches("head/*", "head/a/kernel"));
/// assert!(matches("**/kernel", "head/a/kernel") && matches("**", "global_step"));
/// ```
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<Token> = tokens(pattern);
    let name: Vec<char> = name.chars().collect();
    // `reach[j]`: the tokens so far can match the first j characters.
    let mut reach = vec![false; name.len() + 1];
    reach[0] = true;
    for piece in pattern {
        let mut next = vec![false; name.len() + 1];
        let mut reached = false;
        for j in 0..=name.len() {
            let before = j.checked_sub(1).map(|i| (reach[i], name[i]));
            next[j] = match (piece, before) {
                (Token::Any, _) => reach[j] || (j > 0 && next[j - 1]),
                (Token::Star, Some((_, c))) => reach[j] || (c != '/' && next[j - 1]),
                (Token::Scopes, Some((_, c))) => reach[j] || (c == '/' && reached),
                (Token::Star | Token::Scopes, None) => reach[j],
                (Token::One, Some((reachable, c))) => reachable && c != '/',
                (Token::Char(expected), Some((reachable, c))) => reachable && c == expected,
                (Token::One | Token::Char(_), None) => false,
            };
            reached |= reach[j];
        }
        reach = next;
    }
    reach[name.len()]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// `**`
    Any,
    /// `**/`: any scopes, or none.
    Scopes,
    /// `*`
    Star,
    /// `?`
    One,
    Char(char),
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' if chars.next_if_eq(&'*').is_some() => match chars.next_if_eq(&'/') {
                Some(_) => Token::Scopes,
                None => Token::Any,
            },
            '*' => Token::Star,
            '?' => Token::One,
            c => Token::Char(c),
        });
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_in_a_scope_and_double_stars_cross() {
        assert!(matches("head/*", "head/kernel"));
        assert!(!matches("head/*", "head/a/kernel"));
        assert!(matches("head/**", "head/a/kernel"));
        assert!(matches("**/kernel", "a/b/kernel"));
        assert!(matches("**/kernel", "kernel"));
        assert!(!matches("**/kernel", "a/mykernel"));
        assert!(matches("**", "a/b"));
        assert!(!matches("*", "a/b"));
        assert!(matches("dense_?/bias", "dense_1/bias"));
        assert!(!matches("dense", "dense_1"));
    }

    #[test]
    fn brackets_are_no_part_of_a_pattern() {
        assert_eq!(check("a[0]"), Err(BadGlob::Character('[')));
        assert_eq!(check(""), Err(BadGlob::Empty));
        assert_eq!(check("a/**"), Ok(()));
    }
}
