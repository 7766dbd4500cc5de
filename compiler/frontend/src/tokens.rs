//! Rust tokens as the text of a spec, with a source map back to the tokens, for macros.
//!
//! In: the tokens between the braces of a macro. Out: a text that parses as they would, and for each byte of it the
//! token it came from. Comments are gone by then, and documentation has become `#[doc]` attributes.

use std::ops::Range;

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};

/// The text of some tokens, and the source map to their spans.
#[derive(Debug, Clone)]
pub struct TokenText {
    /// The text.
    pub text: String,
    /// The bytes of every token, in order, and its span in the Rust source.
    table: Vec<(usize, usize, Span)>,
}

/// Writes tokens as text.
///
/// ```
/// use trainspec_frontend::tokens::text_of;
///
/// let text = text_of("const N = 3; fn f(x) = x |> relu;".parse().unwrap());
/// assert_eq!(text.text, "const N = 3 ;\nfn f ( x ) = x |> relu ;\n");
/// ```
pub fn text_of(stream: TokenStream) -> TokenText {
    let mut text = TokenText {
        text: String::new(),
        table: Vec::new(),
    };
    text.stream(stream);
    text
}

impl TokenText {
    /// The span of the token that the range begins in. An empty range after a token belongs to that token, and a range
    /// that begins between two tokens to the second. `None` if there are no tokens.
    pub fn span_at(&self, range: Range<usize>) -> Option<Span> {
        let after = self
            .table
            .partition_point(|(start, _, _)| *start <= range.start);
        if range.is_empty()
            && let Ok(i) = self
                .table
                .binary_search_by(|(_, end, _)| end.cmp(&range.start))
        {
            return Some(self.table[i].2);
        }
        let covering = after
            .checked_sub(1)
            .filter(|i| range.start < self.table[*i].1);
        let found = covering.or((after < self.table.len()).then_some(after));
        let found = found.map(|i| &self.table[i]).or(self.table.last());
        found.map(|(_, _, span)| *span)
    }

    fn stream(&mut self, stream: TokenStream) {
        for tree in stream {
            match tree {
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("( ", ") "),
                        Delimiter::Bracket => ("[ ", "] "),
                        Delimiter::Brace => ("{\n", "}\n"),
                        Delimiter::None => ("", ""),
                    };
                    self.push(open, group.span_open());
                    self.stream(group.stream());
                    self.push(close, group.span_close());
                }
                TokenTree::Punct(punct) => {
                    let space = match (punct.as_char(), punct.spacing()) {
                        (';', _) => "\n",
                        (_, Spacing::Joint) => "",
                        (_, Spacing::Alone) => " ",
                    };
                    self.push(&format!("{}{space}", punct.as_char()), punct.span());
                }
                TokenTree::Ident(ident) => self.push(&format!("{ident} "), ident.span()),
                TokenTree::Literal(literal) => self.push(&format!("{literal} "), literal.span()),
            }
        }
    }

    /// Writes a token and the space after it.
    fn push(&mut self, token: &str, span: Span) {
        let start = self.text.len();
        self.text.push_str(token);
        let end = start + token.trim_end().len();
        if end > start {
            self.table.push((start, end, span));
        }
    }
}
