//! The formatter: a spec in its canonical layout.
//!
//! In: a text without syntax errors. Out: its tokens and comments in the canonical layout. What decides is the tree, with
//! three exceptions that are the author's: an empty line between two statements stays, a comment stays on its line or on
//! one of its own, and a short body in braces stays on one line if no line ends after its `{`.
//!
//! The printer walks the tree and the text in step, token by token. So it knows what lies between any two tokens, and no
//! comment can get lost. A comment waits until a line may end; where none may, it ends one.

mod doc;
mod exprs;
mod items;
mod statements;
mod trivia;

use trainspec_ir::{FileId, Span};

use crate::diag::{Code, Diagnostic};
use crate::syntax;
use doc::{Doc, Nest};
use trivia::{Trivia, TriviaReader};

/// The text in its canonical layout, or what is wrong with it. A byte order mark and carriage returns are repaired.
///
/// ```
/// let text = trainspec_frontend::fmt::format("const A=1;const  B = 2 ;").unwrap();
/// assert_eq!(text, "const A = 1;\nconst B = 2;\n");
/// ```
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let (parsed, mut errors) = syntax::parse(FileId(0), text);
    errors.retain(|e| e.code != Code::ByteOrderMark);
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut printer = Printer {
        gap: TriviaReader::new(text),
        waiting: Vec::new(),
        out: Vec::new(),
    };
    printer.file(&parsed.file);
    Ok(doc::layout(&printer.out))
}

/// How many empty lines come before a statement or item.
#[derive(Clone, Copy)]
enum Blank {
    None,
    /// One if there is one or more.
    AsWritten,
    One,
}

impl Blank {
    /// Whether there is one, given the number of line ends in the text.
    fn holds(self, line_ends: usize) -> bool {
        match self {
            Blank::None => false,
            Blank::AsWritten => line_ends > 1,
            Blank::One => true,
        }
    }
}

struct Printer<'a> {
    gap: TriviaReader<'a>,
    /// Trivia (comments) that have been read and not yet written.
    waiting: Vec<Trivia>,
    out: Vec<Doc>,
}

impl Printer<'_> {
    // ---- Building documents ------------------------------------------------------------------------------------------

    fn push(&mut self, text: impl Into<String>) {
        self.out.push(Doc::Text(text.into()));
    }

    fn inside(&mut self, print: impl FnOnce(&mut Self)) -> Vec<Doc> {
        let outer = std::mem::take(&mut self.out);
        print(self);
        std::mem::replace(&mut self.out, outer)
    }

    fn group(&mut self, print: impl FnOnce(&mut Self)) {
        let docs = self.inside(print);
        self.out.push(Doc::Group(Nest::new(docs)));
    }

    fn group_with_braces(&mut self, print: impl FnOnce(&mut Self)) {
        let docs = self.inside(print);
        self.out.push(Doc::Group(Nest::with_braces(docs)));
    }

    fn indent(&mut self, print: impl FnOnce(&mut Self)) {
        let docs = self.inside(print);
        self.out.push(Doc::Indent(Nest::new(docs)));
    }

    // ---- Walking the text --------------------------------------------------------------------------------------------

    /// Moves to the next token; the comments before it wait.
    fn read_gap(&mut self) {
        self.gap.read(&mut self.waiting);
    }

    fn at(&mut self, token: &str) -> bool {
        self.read_gap();
        self.gap.text[self.gap.at..].starts_with(token)
    }

    /// Moves past a token without writing it.
    fn skip(&mut self, token: &str) {
        assert!(
            self.at(token),
            "fmt: the text has no `{token}` at byte {}, where the tree has",
            self.gap.at
        );
        self.gap.at += token.len();
        self.gap.line_ends = 0;
    }

    /// Writes a token as it is.
    fn token(&mut self, token: &str) {
        self.skip_to_token();
        self.skip(token);
        self.push(token);
    }

    /// Writes a token in another form than it has in the text.
    fn rewritten(&mut self, span: Span, token: String) {
        self.skip_to_token();
        let range = span.range();
        assert_eq!(
            self.gap.at, range.start,
            "fmt: tree and text are out of step"
        );
        self.gap.at = range.end;
        self.gap.line_ends = 0;
        self.push(token);
    }

    /// Moves to a token before which no line ends, unless a comment ends it.
    fn skip_to_token(&mut self) {
        self.read_gap();
        if self.flush() {
            let line = vec![Doc::Hard { blank: false }];
            self.out.push(Doc::Indent(Nest::new(line)));
        }
    }

    /// `,` and `;` go before the comments that stand before them.
    fn closing(&mut self, token: &'static str) {
        self.skip(token);
        self.push(token);
    }

    // ---- Writing comments --------------------------------------------------------------------------------------------

    /// Writes the waiting comments. Where there were any, a line must end after them.
    fn flush(&mut self) -> bool {
        let trivia = std::mem::take(&mut self.waiting);
        for (i, note) in trivia.iter().enumerate() {
            if i == 0 && note.trailing {
                self.out.push(Doc::Comment(note.text.clone()));
            } else {
                self.out.push(Doc::Hard { blank: false });
                self.push(note.text.as_str());
            }
        }
        !trivia.is_empty()
    }

    /// A place inside a statement where a line may end.
    fn line(&mut self, flat: &'static str) {
        self.read_gap();
        let line = match self.flush() {
            true => Doc::Hard { blank: false },
            false => Doc::Line(flat),
        };
        self.out.push(line);
    }

    /// The comments between two statements or items, and then the line end before the second: `line`, unless something
    /// calls for more.
    fn separate(&mut self, blank: Blank, line: Doc) {
        let (any, blank) = self.flush_between(blank);
        let blank = blank.holds(self.gap.line_ends);
        self.out.push(match any || blank {
            true => Doc::Hard { blank },
            false => line,
        });
    }

    /// Writes the comments before a statement or item: whether there were any, and what is to be said of empty lines
    /// after them.
    fn flush_between(&mut self, blank: Blank) -> (bool, Blank) {
        self.read_gap();
        let mut blank = blank;
        let trivia = std::mem::take(&mut self.waiting);
        let any = !trivia.is_empty();
        for (i, note) in trivia.into_iter().enumerate() {
            if i == 0 && note.trailing {
                self.out.push(Doc::Comment(note.text));
                continue;
            }
            let blank_here = blank.holds(note.line_ends);
            self.out.push(Doc::Hard { blank: blank_here });
            self.push(note.text);
            // Documentation stays with what it documents.
            blank = match note.doc {
                true => Blank::None,
                false => Blank::AsWritten,
            };
        }
        (any, blank)
    }
}
