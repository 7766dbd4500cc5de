//! The parser: source text to AST.
//!
//! In: a source text. Out: a tree with a span on every node, and all syntax errors. Error recovery: a statement that does
//! not parse becomes a `Bad` node, so that one error hides no other.

mod build;
mod number;
mod precedence;
mod report;
pub(crate) mod scan;
pub(crate) mod string;

pub(crate) use number::is_int;
pub use number::{float_value, int_value};
pub use scan::{Comment, MAX_BRACKET_DEPTH};
pub(crate) use string::quote;

use pest::Parser;
use trainspec_grammar::{Grammar, Rule};
use trainspec_ir::{FileId, Span};

use crate::ast;
use crate::diag::{Code, Diagnostic};
use crate::source::MAX_SOURCE_BYTES;

/// The number of errors of a text that are reported at most.
const MAX_REPORTED: usize = 100;

/// A parsed text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The tree.
    pub file: ast::File,
    /// The `//` comments, in order; doc comments are part of the tree.
    pub comments: Vec<Comment>,
}

/// Parses one text. There is always a tree; where there are errors it has gaps.
///
/// ```
/// use trainspec_frontend::syntax;
/// use trainspec_ir::FileId;
///
/// let (parsed, errors) = syntax::parse(FileId(0), "spec tiny;\nconst A = 1;\nconst B = ;\nconst C = 3;\n");
/// assert_eq!(parsed.file.items.len(), 3);
/// assert_eq!(errors.len(), 1);
/// ```
pub fn parse(file: FileId, text: &str) -> (Parsed, Vec<Diagnostic>) {
    let empty = || Parsed {
        file: ast::File {
            docs: Vec::new(),
            header: None,
            items: Vec::new(),
        },
        comments: Vec::new(),
    };
    if text.len() > MAX_SOURCE_BYTES {
        let message = format!(
            "this text has {} bytes; the limit is {MAX_SOURCE_BYTES}",
            text.len()
        );
        let file_start = Span::new(file, 0, 0);
        return (
            empty(),
            vec![Diagnostic::new(Code::TextTooLong, file_start, message)],
        );
    }
    let scan = scan::scan(file, text);
    if scan.stop {
        return (empty(), scan.errors);
    }
    let mut errors = scan.errors.clone();
    let text = scan.patched.as_deref().unwrap_or(text);
    let outline = scan::Outline::new(text, &scan.bodies);
    let file = match Grammar::parse(Rule::file, &outline.text) {
        Ok(mut pairs) => {
            let root = pairs.next().expect("a parse gives its root");
            build::file(file, text, &scan, &outline, root, &mut errors)
        }
        Err(error) => {
            errors.push(report::failure(file, &outline.text, 0, &error));
            empty().file
        }
    };
    // A statement from which bad characters were blanked out does not parse.
    let line = |at: usize| {
        let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
        start..=text[at..].find('\n').map_or(text.len(), |i| at + i)
    };
    let odd = errors
        .iter()
        .filter(|e| e.code == Code::BadCharacter)
        .filter_map(|e| e.span);
    let odd: Vec<_> = odd.map(|s| line(s.start as usize)).collect();
    let on_odd_line = |e: &Diagnostic| {
        e.span
            .is_some_and(|s| odd.iter().any(|l| l.contains(&(s.start as usize))))
    };
    errors.retain(|e| e.code != Code::Syntax || !on_odd_line(e));
    errors.sort_by_key(|e| e.span);
    errors.truncate(MAX_REPORTED);
    (
        Parsed {
            file,
            comments: scan.comments,
        },
        errors,
    )
}

/// Parses one expression, such as the call of an optimizer that a program gives.
///
/// ```
/// use trainspec_frontend::syntax;
/// use trainspec_ir::FileId;
///
/// assert!(syntax::parse_expr(FileId(0), "adam(learning_rate: 1e-3)").is_ok());
/// assert!(syntax::parse_expr(FileId(0), "adam(learning_rate: 1e-3); 1").is_err());
/// ```
pub fn parse_expr(file: FileId, text: &str) -> Result<ast::Expr, Vec<Diagnostic>> {
    let scan = scan::scan(file, text);
    if !scan.errors.is_empty() {
        return Err(scan.errors);
    }
    let mut errors = Vec::new();
    let expr = match Grammar::parse(Rule::lone_expr, text) {
        Ok(mut pairs) => {
            let root = pairs.next().expect("a parse gives its root");
            build::lone_expr(file, text, &scan, root, &mut errors)
        }
        Err(error) => return Err(vec![report::failure(file, text, 0, &error)]),
    };
    match errors.is_empty() {
        true => Ok(expr),
        false => Err(errors),
    }
}
