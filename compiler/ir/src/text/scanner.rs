//! The lexer of the textual form of graphs, and its syntax errors.

use std::fmt;

/// A syntax or verification error, with line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError {
            line,
            column,
            message,
        } = self;
        write!(f, "line {line}, column {column}: {message}")
    }
}

impl std::error::Error for ParseError {}

/// An error at a byte offset of a text.
#[derive(Debug)]
pub(super) struct ErrorAt {
    /// The byte offset.
    pub(super) at: usize,
    pub(super) message: String,
}

impl ErrorAt {
    pub(super) fn new(at: usize, message: impl Into<String>) -> ErrorAt {
        ErrorAt {
            at,
            message: message.into(),
        }
    }

    /// Converts the byte offset to line and column.
    pub(super) fn within(self, text: &str) -> ParseError {
        let before = &text[..self.at.min(text.len())];
        let line = before.rfind('\n').map_or(0, |n| n + 1);
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before[line..].chars().count() + 1,
            message: self.message,
        }
    }
}

/// A cursor over a text. Between tokens, white space and comments are skipped.
#[derive(Debug)]
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Scanner<'t> {
        let mut scanner = Scanner { text, at: 0 };
        scanner.skip();
        scanner
    }

    /// The byte offset of the next token.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Whether the end of the text is reached.
    pub(super) fn is_done(&self) -> bool {
        self.rest().is_empty()
    }

    /// Takes this punctuation if it comes next.
    pub(super) fn take(&mut self, sign: &str) -> bool {
        let found = self.rest().starts_with(sign);
        if found {
            self.advance(sign.len());
        }
        found
    }

    /// Takes this punctuation, which must come next.
    pub(super) fn expect(&mut self, sign: &str) -> Result<(), ErrorAt> {
        match self.take(sign) {
            true => Ok(()),
            false => Err(self.expected(&format!("`{sign}`"))),
        }
    }

    /// Takes this keyword if it is the next token.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == word;
        if found {
            self.advance(word.len());
        }
        found
    }

    /// Takes this keyword, which must come next.
    pub(super) fn expect_word(&mut self, word: &str) -> Result<(), ErrorAt> {
        match self.take_word(word) {
            true => Ok(()),
            false => Err(self.expected(&format!("`{word}`"))),
        }
    }

    /// The letters, digits and `_` that come next.
    pub(super) fn peek_word(&self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    }

    /// Takes an identifier; `what` says of which kind.
    pub(super) fn word(&mut self, what: &str) -> Result<&'t str, ErrorAt> {
        let word = self.peek_word();
        if word.is_empty() {
            return Err(self.expected(what));
        }
        self.advance(word.len());
        Ok(word)
    }

    /// Whether a value comes next.
    pub(super) fn is_value(&self) -> bool {
        self.rest().starts_with('%')
    }

    /// Takes a value, such as `%7`, and gives its name after the `%`.
    pub(super) fn value(&mut self) -> Result<&'t str, ErrorAt> {
        let name = Scanner {
            text: self.text,
            at: self.at + 1,
        };
        match self.is_value().then(|| name.peek_word()) {
            Some(name) if !name.is_empty() => {
                self.advance(1 + name.len());
                Ok(name)
            }
            _ => Err(self.expected("a value such as `%0`")),
        }
    }

    /// Takes a number, or `inf` and `nan` with or without a sign, as text; `what` says of which kind.
    pub(super) fn number(&mut self, what: &str) -> Result<&'t str, ErrorAt> {
        let rest = self.rest();
        let unsigned = rest.strip_prefix('-').unwrap_or(rest);
        let mut before = ' ';
        // A sign inside belongs to an exponent.
        let end = unsigned.find(|c: char| {
            let inside = c.is_ascii_alphanumeric()
                || c == '.'
                || (matches!(c, '+' | '-') && matches!(before, 'e' | 'E'));
            before = c;
            !inside
        });
        let digits = &unsigned[..end.unwrap_or(unsigned.len())];
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit());
        if !is_number && digits != "inf" && digits != "nan" {
            return Err(self.expected(what));
        }
        let number = &rest[..rest.len() - unsigned.len() + digits.len()];
        self.advance(number.len());
        Ok(number)
    }

    /// Takes a quoted string, with the escapes of Rust's `{:?}`.
    pub(super) fn quoted(&mut self, what: &str) -> Result<String, ErrorAt> {
        let start = self.at;
        if !self.rest().starts_with('"') {
            return Err(self.expected(what));
        }
        let mut found = String::new();
        let mut chars = self.text[start + 1..].char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + 1 + i;
                    self.advance(1);
                    return Ok(found);
                }
                '\n' => break,
                '\\' => {
                    let escaped = escape(&mut chars);
                    let error = || ErrorAt::new(start + 1 + i, "this is no escape");
                    found.push(escaped.ok_or_else(error)?);
                }
                c => found.push(c),
            }
        }
        Err(ErrorAt::new(
            start,
            "the quotes are not closed on this line",
        ))
    }

    /// The error that another token was expected.
    pub(super) fn expected(&self, what: &str) -> ErrorAt {
        let rest = self.rest();
        let found = match (self.peek_word(), rest.chars().next()) {
            (_, None) => "the end of the text".to_owned(),
            ("", Some(c)) => format!("`{}`", c.escape_debug()),
            (word, Some(_)) => format!("`{}`", truncated(word)),
        };
        ErrorAt::new(self.at, format!("expected {what}, found {found}"))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn advance(&mut self, n: usize) {
        self.at += n;
        self.skip();
    }

    fn skip(&mut self) {
        loop {
            let rest = self.rest().trim_start();
            self.at = self.text.len() - rest.len();
            if !rest.starts_with("//") {
                return;
            }
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
    }
}

/// A word truncated to 40 characters, for messages.
pub(super) fn truncated(word: &str) -> String {
    match word.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}

/// The character of an escape sequence, after its backslash.
fn escape(chars: &mut std::str::CharIndices<'_>) -> Option<char> {
    match chars.next()?.1 {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        '0' => Some('\0'),
        c @ ('\\' | '"' | '\'') => Some(c),
        'u' => {
            if chars.next()?.1 != '{' {
                return None;
            }
            let mut code = 0_u32;
            loop {
                match chars.next()?.1 {
                    '}' => return char::from_u32(code),
                    c => code = code.checked_mul(16)?.checked_add(c.to_digit(16)?)?,
                }
            }
        }
        _ => None,
    }
}
