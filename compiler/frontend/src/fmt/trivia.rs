//! Trivia: the comments, documentation and empty lines between two tokens.

use crate::syntax::string;

/// A comment or a line of documentation on its way to the next place where a line may end.
pub(super) struct Trivia {
    /// The line, slashes included.
    pub text: String,
    /// Whether it stands on the line of the token before it.
    pub trailing: bool,
    /// The number of line ends before it.
    pub line_ends: usize,
    /// Whether it documents what follows.
    pub doc: bool,
}

/// Reads the space between tokens.
pub(super) struct TriviaReader<'a> {
    pub text: &'a str,
    /// The offset of the next token, once the trivia before it are read.
    pub at: usize,
    /// Line ends since the last token or comment.
    pub line_ends: usize,
}

impl<'a> TriviaReader<'a> {
    pub(super) fn new(text: &'a str) -> TriviaReader<'a> {
        TriviaReader {
            text,
            at: 0,
            // So that a comment at the top stands on a line of its own.
            line_ends: 1,
        }
    }

    /// Moves to the next token and adds the trivia before it to `trivia`.
    pub(super) fn read(&mut self, trivia: &mut Vec<Trivia>) {
        while let Some(c) = self.text[self.at..].chars().next() {
            let rest = &self.text[self.at..];
            match c {
                '\n' => {
                    self.line_ends += 1;
                    self.at += 1;
                }
                ' ' | '\t' | '\r' | '\u{feff}' => self.at += c.len_utf8(),
                '/' if rest.starts_with("//") => {
                    let line = rest.split('\n').next().unwrap_or(rest);
                    self.at += line.len();
                    let doc = line.starts_with("///") && !line.starts_with("////");
                    self.note(line, doc, trivia);
                }
                '#' => self.attribute(trivia),
                _ => return,
            }
        }
    }

    fn note(&mut self, line: &str, doc: bool, trivia: &mut Vec<Trivia>) {
        trivia.push(Trivia {
            text: line.trim_end().replace('\r', " "),
            // Documentation stands on its own lines always.
            trailing: self.line_ends == 0 && !doc,
            line_ends: self.line_ends,
            doc,
        });
        self.line_ends = 0;
    }

    /// `#[doc = "..."]` and `#![doc = "..."]`; the syntax knows no other attribute.
    fn attribute(&mut self, trivia: &mut Vec<Trivia>) {
        let mut literal = "";
        let mut inner = false;
        while let Some(c) = self.text[self.at..].chars().next() {
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                self.read(trivia);
                continue;
            }
            if c == '"' || c == 'r' {
                literal = &rest[..literal_length(rest)];
                self.at += literal.len();
                continue;
            }
            inner |= c == '!';
            self.at += c.len_utf8();
            if c == ']' {
                break;
            }
        }
        let value = string::literal_value(literal);
        let slashes = if inner { "//!" } else { "///" };
        let writable = |line: &str| {
            let line_comment = !inner && line.starts_with('/');
            !line_comment && !line.contains(|c: char| c.is_control() && c != '\t' && c != '\r')
        };
        if value.split('\n').all(writable) {
            for line in value.split('\n') {
                self.note(&format!("{slashes}{line}"), !inner, trivia);
            }
        } else {
            let mark = if inner { "#!" } else { "#" };
            let line = format!("{mark}[doc = {}]", string::quote(&value));
            self.note(&line, true, trivia);
        }
    }
}

/// The length of the string literal that `text` begins with.
fn literal_length(text: &str) -> usize {
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let end = format!("\"{}", &raw[..hashes]);
        let inside = &raw[hashes + 1..];
        return 1 + hashes + 1 + inside.find(&end).map_or(inside.len(), |i| i + end.len());
    }
    let mut escaped = false;
    let end = text[1..].find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |i| i + 2)
}
