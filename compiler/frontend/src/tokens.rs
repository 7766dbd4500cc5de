//! Rust tokens as the text of a spec, with a source map back to the tokens, for macros.
//!
//! In: the tokens between the braces of a macro. Out: a text that parses as they would, and for each byte of it the
//! token it came from. Comments are gone by then, and documentation has become `#[doc]` attributes.

use std::cmp::Ordering;
use std::ops::Range;

use proc_macro2::{Delimiter, LineColumn, Spacing, Span, TokenStream, TokenTree};

/// The text of some tokens, and the source map to their spans.
#[derive(Debug, Clone)]
pub struct TokenText {
    /// The text.
    pub text: String,
    /// The bytes of every token, in order, and its span in the Rust source.
    table: Vec<(usize, usize, Span)>,
    /// The position after the text: line from 1, column in characters from 0.
    at: LineColumn,
    /// Whether the next token must not touch the last one, where the layout of the source is not known.
    separate: bool,
}

/// Writes tokens as text. Each stands in the line and column that it has in the Rust source, so that errors of the text point there;
/// where tokens go backwards, as those of another macro do, they follow each other.
///
/// ```
/// use trainspec_frontend::tokens::text_of;
///
/// let text = text_of("const N = 3;\n  fn f(x) = x |> relu;".parse().unwrap());
/// assert_eq!(text.text, "const N = 3;\n  fn f(x) = x |> relu;\n");
/// ```
pub fn text_of(stream: TokenStream) -> TokenText {
    let mut text = TokenText {
        text: String::new(),
        table: Vec::new(),
        at: LineColumn { line: 1, column: 0 },
        separate: false,
    };
    text.stream(stream);
    text.text.push('\n');
    text
}

/// The most lines and columns that are skipped for one token: positions of other files cannot make the text large.
const MAX_SKIPPED: usize = 1 << 16;

impl TokenText {
    /// The span of the token that the range begins in. An empty range after a token belongs to that token, and a range
    /// that begins between two tokens to the second. `None` if there are no tokens.
    pub fn span_at(&self, range: Range<usize>) -> Option<Span> {
        self.index_at(range).map(|i| self.table[i].2)
    }

    /// The spans of the first and of the last token of a range.
    pub fn spans_at(&self, range: Range<usize>) -> Option<(Span, Span)> {
        let first = self.index_at(range.clone())?;
        let after = (self.table).partition_point(|(start, _, _)| *start < range.end);
        let last = after.saturating_sub(1).max(first);
        Some((self.table[first].2, self.table[last].2))
    }

    fn index_at(&self, range: Range<usize>) -> Option<usize> {
        let after = self
            .table
            .partition_point(|(start, _, _)| *start <= range.start);
        let covering = after
            .checked_sub(1)
            .filter(|i| range.start < self.table[*i].1);
        if range.is_empty()
            && covering.is_none_or(|i| self.table[i].0 == range.start)
            && let Ok(i) = self
                .table
                .binary_search_by(|(_, end, _)| end.cmp(&range.start))
        {
            return Some(i);
        }
        let found = covering.or((after < self.table.len()).then_some(after));
        found.or(self.table.len().checked_sub(1))
    }

    fn stream(&mut self, stream: TokenStream) {
        for tree in stream {
            match tree {
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::None => ("", ""),
                    };
                    self.push(open, group.span_open(), true);
                    self.stream(group.stream());
                    self.push(close, group.span_close(), true);
                }
                TokenTree::Punct(punct) => {
                    let alone = punct.spacing() == Spacing::Alone;
                    self.push(&punct.as_char().to_string(), punct.span(), alone);
                }
                TokenTree::Ident(ident) => self.push(&ident.to_string(), ident.span(), true),
                TokenTree::Literal(literal) => {
                    self.push(&literal.to_string(), literal.span(), true);
                }
            }
        }
    }

    /// Writes a token; `separate` where the next one does not belong to it.
    fn push(&mut self, token: &str, span: Span, separate: bool) {
        if token.is_empty() {
            return;
        }
        let to = span.start();
        let (lines, columns) = match to.line.cmp(&self.at.line) {
            Ordering::Greater => (to.line - self.at.line, Some(to.column)),
            Ordering::Equal => (0, to.column.checked_sub(self.at.column)),
            Ordering::Less => (0, None),
        };
        match columns {
            Some(columns) if lines.max(columns) <= MAX_SKIPPED => {
                self.text.extend(std::iter::repeat_n('\n', lines));
                self.text.extend(std::iter::repeat_n(' ', columns));
                self.at = to;
            }
            _ if self.separate => {
                self.text.push(' ');
                self.at.column += 1;
            }
            _ => {}
        }
        self.separate = separate;
        let start = self.text.len();
        self.text.push_str(token);
        self.table.push((start, self.text.len(), span));
        match token.rfind('\n') {
            Some(last) => {
                self.at.line += token.matches('\n').count();
                self.at.column = token[last + 1..].chars().count();
            }
            None => self.at.column += token.chars().count(),
        }
    }
}
