//! Lexical pre-scan: the pass over the characters before the grammar.
//!
//! In: a text. Out: its comments, lexical errors, and a text of the same length in which bad characters are
//! blanked out. The grammar may then trust that brackets balance, that strings end and that nesting is bounded, which
//! keeps its recursion within the stack.

use trainspec_ir::{FileId, Span};

use crate::diag::{Code, Diagnostic};
use crate::syntax::string;

/// The depth to which brackets may nest.
pub const MAX_BRACKET_DEPTH: usize = 100;
/// The number of bytes a string may have.
const MAX_STRING_BYTES: usize = 64 << 10;
/// The number of errors after which the scan stops.
const MAX_ERRORS: usize = 20;

/// A `//` comment that is not documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Comment {
    /// With its slashes, without the line end.
    pub text: String,
    /// Its span.
    pub span: Span,
    /// Whether nothing but space stands before it on its line.
    pub own_line: bool,
}

/// The result of the scan.
pub(crate) struct Scan {
    pub comments: Vec<Comment>,
    pub errors: Vec<Diagnostic>,
    /// The text to parse, where it differs from the one given.
    pub patched: Option<String>,
    /// Whether parsing makes no sense.
    pub stop: bool,
    /// The offset of each `;` inside one pair of brackets: the ends of statements in the bodies of items.
    pub ends: Vec<u32>,
    /// The insides of the bodies of models and definitions, which are parsed apart from the file.
    pub bodies: Vec<(usize, usize)>,
}

/// Scans a text. It may be parsed unless `stop` is set, even where there are errors.
pub(crate) fn scan(file: FileId, text: &str) -> Scan {
    let mut scanner = Scanner {
        file,
        text,
        at: 0,
        open: Vec::new(),
        blanks: Vec::new(),
        swaps: Vec::new(),
        suspect: None,
        out: Scan {
            comments: Vec::new(),
            errors: Vec::new(),
            patched: None,
            stop: false,
            ends: Vec::new(),
            bodies: Vec::new(),
        },
        item: Item::Start,
    };
    scanner.run();
    scanner.finish()
}

/// The state of the scan within an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    /// Before its first word.
    Start,
    /// In a model or a definition, before its body.
    Head,
    /// In something without a body of statements.
    Other,
}

struct Scanner<'a> {
    file: FileId,
    text: &'a str,
    at: usize,
    /// The brackets that are open, with their offsets.
    open: Vec<(char, usize)>,
    /// The state at the top level, outside of all brackets.
    item: Item,
    /// Byte ranges that the grammar must not see.
    blanks: Vec<(usize, usize)>,
    /// Bytes that the grammar sees as another one.
    swaps: Vec<(usize, u8)>,
    /// A `{` whose `}` stands further left than its line begins: the most likely one to lack its own.
    suspect: Option<usize>,
    out: Scan,
}

impl Scanner<'_> {
    fn run(&mut self) {
        if self.text.starts_with('\u{feff}') {
            self.at = 3;
            self.error(
                Code::ByteOrderMark,
                0,
                3,
                "the text begins with a byte order mark",
                "save it as plain UTF-8, or run `trainspec fmt`, which removes the mark",
            );
            self.blanks.push((0, 3));
        }
        while let Some(c) = self.peek() {
            if self.out.stop || self.out.errors.len() >= MAX_ERRORS {
                self.out.stop = true;
                return;
            }
            let start = self.at;
            match c {
                ' ' | '\t' | '\n' => self.at += 1,
                '\r' => {
                    self.at += 1;
                    self.blanks.push((start, self.at));
                }
                '/' if self.rest().starts_with("//") => self.line_comment(),
                '/' if self.rest().starts_with("/*") => self.block_comment(),
                '"' => self.string(),
                'r' if self.raw_string_begins() => self.raw_string(),
                '(' | '[' | '{' => self.open(c),
                ')' | ']' | '}' => self.close(c),
                '0'..='9' => self.number(),
                'a'..='z' | 'A'..='Z' | '_' => {
                    self.skip_while(is_name_char);
                    if self.open.is_empty() && self.item == Item::Start {
                        self.item = match &self.text[start..self.at] {
                            "model" | "block" | "fn" | "optimizer" | "schedule" | "init" => {
                                Item::Head
                            }
                            _ => Item::Other,
                        };
                    }
                }
                ';' => {
                    match self.open.len() {
                        0 => self.item = Item::Start,
                        1 => self.out.ends.push(start as u32),
                        _ => {}
                    }
                    self.at += 1;
                }
                '=' => {
                    // The value of a definition is no body, whatever braces it has.
                    if self.open.is_empty() {
                        self.item = Item::Other;
                    }
                    self.at += 1;
                }
                '+' | '-' | '*' | '/' | '%' | '@' | '<' | '>' | '!' | '&' | '|' | '.' | ','
                | ':' | '#' => self.at += 1,
                other => self.bad_character(other),
            }
        }
        if let Some((bracket, at)) = self.open.last().copied() {
            self.unbalanced(at, format!("this `{bracket}` is never closed"), None);
            if let Some(suspect) = self.suspect.filter(|s| *s > at)
                && let Some(error) = self.out.errors.pop()
            {
                let span = Span::new(self.file, suspect, suspect + 1);
                let message =
                    "perhaps because of this one: the `}` that closes it stands further left";
                self.out.errors.push(error.note_at(span, message));
            }
        }
    }

    fn finish(mut self) -> Scan {
        if !self.blanks.is_empty() || !self.swaps.is_empty() {
            let mut bytes = self.text.as_bytes().to_vec();
            for (start, end) in &self.blanks {
                for byte in &mut bytes[*start..*end] {
                    // Line feeds stay, so that lines keep their numbers.
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                }
            }
            for (at, byte) in &self.swaps {
                bytes[*at] = *byte;
            }
            // Only complete characters were replaced by ASCII, so this is still UTF-8.
            self.out.patched = String::from_utf8(bytes).ok();
        }
        self.out
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_while(&mut self, keep: fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !keep(c)).unwrap_or(rest.len());
    }

    fn error(&mut self, code: Code, start: usize, end: usize, message: &str, help: &str) {
        let span = Span::new(self.file, start, end);
        self.out
            .errors
            .push(Diagnostic::new(code, span, message).help(help));
    }

    fn line_comment(&mut self) {
        let start = self.at;
        let line = self.rest().split('\n').next().unwrap_or_default();
        // Carriage returns at its end belong to the end of the line.
        let line = line.trim_end_matches('\r').len();
        self.at += line;
        let text = &self.text[start..self.at];
        let is_doc =
            text.starts_with("//!") || text.starts_with("///") && !text.starts_with("////");
        if !is_doc {
            let line_start = self.text[..start].rfind('\n').map_or(0, |i| i + 1);
            let own_line = self.text[line_start..start].trim().is_empty();
            self.out.comments.push(Comment {
                text: text.trim_end().to_owned(),
                span: Span::new(self.file, start, start + text.trim_end().len()),
                own_line,
            });
        }
        if let Some(i) = text.find(|c: char| c.is_control() && c != '\t') {
            let c = text[i..].chars().next().unwrap_or_default();
            self.at = start + i;
            self.bad_character(c);
            self.at = start + line;
        }
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let length = self.rest().find("*/").map_or(self.rest().len(), |i| i + 2);
        self.at += length;
        self.blanks.push((start, self.at));
        self.error(
            Code::BlockComment,
            start,
            start + 2,
            "block comments are not part of the language",
            "begin every line of the comment with `//`",
        );
    }

    fn string(&mut self) {
        let start = self.at;
        let mut chars = self.text[start + 1..].char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + 1 + i + 1;
                    let body = self.text[start + 1..self.at - 1].to_owned();
                    self.check_string(start, &body);
                    return;
                }
                '\\' => {
                    chars.next();
                }
                '\n' => break,
                _ => {}
            }
        }
        self.out.stop = true;
        self.error(
            Code::UnclosedString,
            start,
            start + 1,
            "this string does not end on its line",
            "close it with `\"`; a line end inside a string is written `\\n`",
        );
    }

    fn check_string(&mut self, start: usize, body: &str) {
        if body.len() > MAX_STRING_BYTES {
            self.out.stop = true;
            let message = format!(
                "this string has {} bytes; the limit is {MAX_STRING_BYTES}",
                body.len()
            );
            self.error(
                Code::StringTooLong,
                start,
                start + 1,
                &message,
                "keep long strings in a file and name the file",
            );
            return;
        }
        if let Err(bad) = string::unescape(body) {
            self.error(
                Code::BadEscape,
                start + 1 + bad.start,
                start + 1 + bad.end,
                "this is not an escape that a string can hold",
                "the escapes are `\\\\`, `\\\"`, `\\n`, `\\r`, `\\t`, `\\0`, `\\xNN` and `\\u{...}`",
            );
        }
    }

    fn raw_string_begins(&self) -> bool {
        let rest = self.rest()[1..].trim_start_matches('#');
        rest.starts_with('"')
    }

    /// A raw string: only macros write these, in place of doc comments.
    fn raw_string(&mut self) {
        let start = self.at;
        let rest = &self.rest()[1..];
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        match rest[hashes + 1..].find(&end) {
            Some(i) => self.at = start + 1 + hashes + 1 + i + end.len(),
            None => {
                self.out.stop = true;
                self.error(
                    Code::UnclosedString,
                    start,
                    start + 1,
                    "this string does not end",
                    "close it with `\"` and as many `#` as it begins with",
                );
            }
        }
    }

    fn number(&mut self) {
        let start = self.at;
        if self.rest().starts_with("0x") {
            self.at += 2;
            self.skip_while(|c| c.is_ascii_hexdigit() || c == '_');
        } else {
            self.skip_while(|c| c.is_ascii_digit() || c == '_');
            let mut after = self.rest().chars();
            let fraction = after.next() == Some('.')
                && !after
                    .next()
                    .is_some_and(|c| c == '.' || c.is_ascii_alphabetic() || c == '_');
            if fraction {
                self.at += 1;
                self.skip_while(|c| c.is_ascii_digit() || c == '_');
            }
            let exponent = self.rest().strip_prefix(['e', 'E']).map(|r| {
                let digits = r.strip_prefix(['+', '-']).unwrap_or(r);
                (
                    digits.starts_with(|c: char| c.is_ascii_digit()),
                    r.len() - digits.len(),
                )
            });
            if let Some((true, sign)) = exponent {
                self.at += 1 + sign;
                self.skip_while(|c| c.is_ascii_digit() || c == '_');
            }
        }
        let suffix = self.at;
        self.skip_while(is_name_char);
        if self.at > suffix {
            self.blanks.push((suffix, self.at));
            let (number, unit) = (
                &self.text[start..suffix],
                &self.text[suffix..self.at.min(suffix + 24)],
            );
            let help = match crate::ast::Unit::from_word(unit) {
                Some(_) => {
                    format!("put a space between the number and its unit: `{number} {unit}`")
                }
                None => {
                    "numbers carry no suffix: they take on the type of what they meet".to_owned()
                }
            };
            let message = format!("`{unit}` may not stand right after a number");
            self.error(Code::NumberSuffix, suffix, self.at, &message, &help);
        }
    }

    fn bad_character(&mut self, c: char) {
        let start = self.at;
        self.at += c.len_utf8();
        if c == '\'' && self.single_quoted(start) {
            return;
        }
        match c.is_alphabetic() {
            // The grammar sees a name, and the rest of it is not reported again.
            true => self.foreign_name(start),
            false => self.blanks.push((start, self.at)),
        }
        let message = match c {
            '\0' => "a NUL byte is not part of the language".to_owned(),
            c if c.is_control() => format!(
                "the control character {} is not part of the language",
                c.escape_unicode()
            ),
            c => format!("the character `{c}` is not part of the language"),
        };
        let help = match c {
            '\'' | '“' | '”' | '‘' | '’' | '`' => {
                "strings are written in double quotes: \"text\""
            }
            '^' => "powers are written `pow(x, y)`",
            '~' => "`!x` is the negation of a bool, `-x` of a number",
            '−' | '–' | '—' => "the minus sign is `-`",
            '×' | '·' => "products are written `a * b`",
            '÷' => "quotients are written `a / b`",
            '?' if self.rest().starts_with([',', ']']) => {
                "a dimension whose size varies has a name: `f32[batch, 4]`"
            }
            '?' => "a choice is written `if a { b } else { c }`, or `where(a, b, c)` for tensors",
            '\u{a0}' | '\u{2003}' | '\u{3000}' => "this is a special space; use an ordinary one",
            c if c.is_alphabetic() => "names are made of the letters a to z, digits and `_`",
            _ => "remove it",
        };
        self.error(
            Code::BadCharacter,
            start,
            start + c.len_utf8(),
            &message,
            help,
        );
    }

    /// A string in single quotes is one error; the grammar sees it in double quotes.
    fn single_quoted(&mut self, start: usize) -> bool {
        let line = self.rest().lines().next().unwrap_or_default();
        let Some(length) = line
            .find('\'')
            .filter(|i| !line[..*i].contains(['"', '\\']))
        else {
            return false;
        };
        let help = format!("write \"{}\"", &line[..length]);
        self.at += length + 1;
        self.swaps.extend([(start, b'"'), (self.at - 1, b'"')]);
        let end = self.at;
        self.error(
            Code::BadCharacter,
            start,
            end,
            "strings are written in double quotes",
            &help,
        );
        true
    }

    /// Skips the name that a letter of another alphabet belongs to; the grammar sees `_` in its place.
    fn foreign_name(&mut self, start: usize) {
        let rest = &self.text[start..];
        let length = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        self.at = start + length;
        let foreign = rest[..length]
            .bytes()
            .enumerate()
            .filter(|(_, b)| !b.is_ascii());
        self.swaps.extend(foreign.map(|(i, _)| (start + i, b'_')));
    }

    fn open(&mut self, bracket: char) {
        if self.open.len() == MAX_BRACKET_DEPTH {
            self.out.stop = true;
            self.error(
                Code::TooDeep,
                self.at,
                self.at + 1,
                &format!("brackets nest more than {MAX_BRACKET_DEPTH} deep here"),
                "name subexpressions with `let`, or move them into a `fn` or `block`",
            );
            return;
        }
        self.open.push((bracket, self.at));
        self.at += 1;
    }

    fn close(&mut self, bracket: char) {
        let at = self.at;
        self.at += 1;
        match self.open.pop() {
            None => self.unbalanced(
                at,
                format!("nothing is open that this `{bracket}` could close"),
                None,
            ),
            Some((open, opened_at)) if closer(open) == bracket => {
                if open == '{' && self.suspect.is_none() && self.closed_further_left(opened_at, at)
                {
                    self.suspect = Some(opened_at);
                }
                if open == '{' && self.open.is_empty() {
                    if self.item == Item::Head {
                        self.out.bodies.push((opened_at + 1, at));
                    }
                    self.item = Item::Start;
                }
            }
            Some(_) if !self.open.iter().any(|(open, _)| closer(*open) == bracket) => {
                self.unbalanced(
                    at,
                    format!("nothing is open that this `{bracket}` could close"),
                    None,
                );
            }
            Some((open, opened_at)) => {
                let message =
                    format!("this `{bracket}` does not close the `{open}` that is open here");
                self.unbalanced(at, message, Some((open, opened_at)));
            }
        }
    }

    /// Whether a `}` begins its line, further left than the line of its `{` does.
    fn closed_further_left(&self, opened_at: usize, closed_at: usize) -> bool {
        let before = self.text[..closed_at].trim_end_matches([' ', '\t']);
        if !before.ends_with('\n') || before.len() <= opened_at {
            return false;
        }
        let line = self.text[..opened_at].rfind('\n').map_or(0, |i| i + 1);
        let indented = self.text[line..].trim_start_matches([' ', '\t']);
        closed_at - before.len() < self.text.len() - line - indented.len()
    }

    /// Reports a bracket, and stops: the grammar needs balanced brackets.
    fn unbalanced(&mut self, at: usize, message: String, opened: Option<(char, usize)>) {
        self.out.stop = true;
        let span = Span::new(self.file, at, at + 1);
        let error = Diagnostic::new(Code::UnbalancedBracket, span, message);
        self.out.errors.push(match opened {
            Some((open, opened_at)) => {
                let opened = Span::new(self.file, opened_at, opened_at + 1);
                error
                    .note_at(opened, "opened here")
                    .help(format!("close it with `{}` first", closer(open)))
            }
            None => error.help(match self.text.as_bytes()[at] {
                b'(' => "close it with `)`",
                b'[' => "close it with `]`",
                b'{' => "close it with `}`",
                _ => "remove it, or open a bracket before it",
            }),
        });
    }
}

/// A text without the bodies of its items, and the map of its offsets to the source text.
pub(crate) struct Outline {
    pub text: String,
    /// For each gap: where it is in the outline, and how many bytes are left out up to its end.
    gaps: Vec<(usize, usize)>,
}

impl Outline {
    pub(crate) fn new(text: &str, bodies: &[(usize, usize)]) -> Outline {
        let mut outline = String::with_capacity(text.len().min(64 << 10));
        let mut gaps = Vec::with_capacity(bodies.len());
        let (mut at, mut left_out) = (0, 0);
        for (start, end) in bodies {
            outline.push_str(&text[at..*start]);
            left_out += end - start;
            gaps.push((outline.len(), left_out));
            at = *end;
        }
        outline.push_str(&text[at..]);
        Outline {
            text: outline,
            gaps,
        }
    }

    /// The offset in the source text of a byte of the outline.
    pub(crate) fn source_offset(&self, at: usize) -> usize {
        match self.gaps.partition_point(|(gap, _)| *gap < at) {
            0 => at,
            n => at + self.gaps[n - 1].1,
        }
    }
}

fn closer(open: char) -> char {
    match open {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
