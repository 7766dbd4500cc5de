//! Pretty printer: documents and their layout (after Wadler, "A prettier printer", and Lindig's strict version of it).
//!
//! In: text with possible line breaks. Out: lines of at most [`LINE_WIDTH`] columns where that is possible. A group is
//! set on one line if it fits, else its own lines end; groups inside it decide for themselves.

/// The columns of a line.
pub(super) const LINE_WIDTH: usize = 110;
/// The columns of one step of indentation.
const INDENT: usize = 4;

/// A document.
pub(super) enum Doc {
    /// Text without a line end.
    Text(String),
    /// A trailing comment. It ends the line, and its width does not count.
    Comment(String),
    /// A line end, or this text if the group is set on one line.
    Line(&'static str),
    /// A line end in any case, with an empty line before the next if `blank`.
    Hard { blank: bool },
    /// Text that is written only where the group is not set on one line.
    IfBroken(String),
    /// Its lines begin one step further right.
    Indent(Nest),
    /// A group: set on one line if it fits.
    Group(Nest),
    /// A value after `=`: after a space if it fits there, else on a line of its own if that is enough to set it on one
    /// line, else after the space with line breaks inside.
    Hang(Nest),
}

/// A sequence of documents, with properties computed before layout.
pub(super) struct Nest {
    docs: Vec<Doc>,
    /// Whether a line ends in them in any case.
    broken: bool,
    /// Whether they hold a body in braces.
    braces: bool,
}

impl Nest {
    pub(super) fn new(docs: Vec<Doc>) -> Nest {
        let mut nest = Nest {
            docs: Vec::new(),
            broken: false,
            braces: false,
        };
        for part in &docs {
            match part {
                Doc::Comment(_) | Doc::Hard { .. } => nest.broken = true,
                Doc::Indent(inner) | Doc::Group(inner) | Doc::Hang(inner) => {
                    nest.broken |= inner.broken;
                    nest.braces |= inner.braces;
                }
                Doc::Text(_) | Doc::Line(_) | Doc::IfBroken(_) => {}
            }
        }
        nest.docs = docs;
        nest
    }

    /// Pieces that hold a body in braces.
    pub(super) fn with_braces(docs: Vec<Doc>) -> Nest {
        Nest {
            braces: true,
            ..Nest::new(docs)
        }
    }
}

/// A document left to lay out, with its indentation and whether it is flat (on one line).
#[derive(Clone, Copy)]
struct Task<'a> {
    doc: &'a Doc,
    indent: usize,
    flat: bool,
}

/// The text of a document, ending in one line end unless it is empty.
pub(super) fn layout(document: &[Doc]) -> String {
    let mut page = Page::default();
    let mut tasks: Vec<Task<'_>> = Vec::new();
    push(&mut tasks, document, 0, false);
    while let Some(Task { doc, indent, flat }) = tasks.pop() {
        match doc {
            Doc::Text(text) => page.text(text),
            Doc::Comment(text) => page.comment(text),
            Doc::Line(text) if flat => page.text(text),
            Doc::Line(_) => page.line(indent, false),
            Doc::Hard { blank } => page.line(indent, *blank),
            Doc::IfBroken(text) => {
                if !flat {
                    page.text(text);
                }
            }
            Doc::Indent(nest) => push(&mut tasks, &nest.docs, indent + INDENT, flat),
            Doc::Group(nest) => {
                let width_left = LINE_WIDTH.saturating_sub(page.column());
                let flat = flat || !nest.broken && fits(width_left, &nest.docs, true, &tasks);
                push(&mut tasks, &nest.docs, indent, flat);
            }
            Doc::Hang(nest) if flat => {
                page.text(" ");
                push(&mut tasks, &nest.docs, indent, true);
            }
            Doc::Hang(nest) => {
                let here = LINE_WIDTH.saturating_sub(page.column() + 1);
                let below = LINE_WIDTH.saturating_sub(indent + INDENT);
                let one_line =
                    |width_left| !nest.broken && fits(width_left, &nest.docs, true, &tasks);
                let (flat, next_line) = if one_line(here) {
                    (true, false)
                } else if one_line(below) {
                    (true, true)
                } else {
                    (false, !fits(here, &nest.docs, false, &tasks))
                };
                if next_line {
                    page.line(indent + INDENT, false);
                    push(&mut tasks, &nest.docs, indent + INDENT, flat);
                } else {
                    page.text(" ");
                    push(&mut tasks, &nest.docs, indent, flat);
                }
            }
        }
    }
    page.finish()
}

fn push<'a>(tasks: &mut Vec<Task<'a>>, docs: &'a [Doc], indent: usize, flat: bool) {
    tasks.extend(docs.iter().rev().map(|doc| Task { doc, indent, flat }));
}

/// Whether `docs`, all on one line or up to their first line end, and what follows them up to its first line end fit in
/// `width_left` columns.
fn fits(width_left: usize, docs: &[Doc], flat: bool, rest: &[Task<'_>]) -> bool {
    let mut width_left = width_left;
    let mut work: Vec<(&Doc, bool)> = docs.iter().rev().map(|doc| (doc, flat)).collect();
    let mut rest = rest.iter().rev();
    let mut in_rest = false;
    loop {
        let (doc, flat_here) = match work.pop() {
            Some(next) => next,
            None => match rest.next() {
                Some(task) => {
                    in_rest = true;
                    (task.doc, task.flat)
                }
                None => return true,
            },
        };
        let width = match doc {
            Doc::Text(text) => text.chars().count(),
            Doc::Line(text) if flat_here => text.len(),
            Doc::IfBroken(text) if !flat_here => text.len(),
            Doc::IfBroken(_) => 0,
            Doc::Hang(_) if !flat_here => return true,
            Doc::Line(_) | Doc::Hard { .. } | Doc::Comment(_) => return true,
            Doc::Indent(nest) => {
                work.extend(nest.docs.iter().rev().map(|doc| (doc, flat_here)));
                0
            }
            Doc::Hang(nest) => {
                work.extend(nest.docs.iter().rev().map(|doc| (doc, true)));
                1
            }
            Doc::Group(nest) => {
                // Whether a body that follows is set on one line depends on how it was written, so nothing before it may
                // depend on that: else a second run could decide otherwise.
                let one_line = match in_rest {
                    true => flat_here || !nest.broken && !nest.braces,
                    false => flat_here,
                };
                work.extend(nest.docs.iter().rev().map(|doc| (doc, one_line)));
                0
            }
        };
        match width_left.checked_sub(width) {
            Some(left) => width_left = left,
            None => return false,
        }
    }
}

/// The lines so far.
#[derive(Default)]
struct Page {
    text: String,
    /// The indentation of the line, as long as nothing stands on it.
    pending: Option<usize>,
    /// The columns of the line.
    width: usize,
}

impl Page {
    fn column(&self) -> usize {
        self.pending.unwrap_or(self.width)
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(indent) = self.pending.take() {
            self.text.extend(std::iter::repeat_n(' ', indent));
            self.width = indent;
        }
        // `1.` before `..` would read as `1` before `...`.
        if self.text.ends_with('.') && text.starts_with('.') {
            self.text.push(' ');
            self.width += 1;
        }
        self.text.push_str(text);
        self.width += text.chars().count();
    }

    fn comment(&mut self, text: &str) {
        if self.pending.is_none() && !self.text.is_empty() {
            self.trim();
            self.text("  ");
        }
        self.text(text);
    }

    fn line(&mut self, indent: usize, blank: bool) {
        if self.text.is_empty() {
            return;
        }
        self.trim();
        if self.pending.is_none() {
            self.text.push('\n');
        }
        if blank && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        self.pending = Some(indent);
    }

    /// Removes trailing spaces; no token ends in one.
    fn trim(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
    }

    fn finish(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }
}
