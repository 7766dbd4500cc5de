//! Rendering of diagnostics as text with carets.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use trainspec_ir::Span;

use crate::diag::{Diagnostic, Severity};
use crate::source::Sources;

/// The style of rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without colour.
    Plain,
    /// With colour.
    Colour,
}

/// The diagnostic as text, without a line end.
pub fn render(sources: &Sources, diagnostic: &Diagnostic, style: Style) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level
        .primary_title(diagnostic.message.as_str())
        .id(diagnostic.code.name());
    let mut main = Group::with_title(title);
    if let Some(span) = diagnostic.span {
        let mut annotation = AnnotationKind::Primary.span(caret(sources, span));
        if !diagnostic.label.is_empty() {
            annotation = annotation.label(&*diagnostic.label);
        }
        main = main.element(snippet(sources, span).annotation(annotation));
    }
    // Consecutive notes with a span become groups; notes without one stay with the title.
    let mut groups = Vec::new();
    for note in &diagnostic.notes {
        match note.span {
            None => main = main.element(Level::NOTE.message(note.message.as_str())),
            Some(span) => {
                let annotation = AnnotationKind::Primary.span(caret(sources, span));
                groups.push(
                    Group::with_title(Level::NOTE.secondary_title(note.message.as_str()))
                        .element(snippet(sources, span).annotation(annotation)),
                );
            }
        }
    }
    for help in &diagnostic.help {
        main = main.element(Level::HELP.message(help.as_str()));
    }
    groups.insert(0, main);
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Colour => Renderer::styled(),
    };
    renderer
        .decor_style(DecorStyle::Ascii)
        .render(&groups)
        .to_string()
}

fn snippet<'a>(sources: &'a Sources, span: Span) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let source = sources.get(span.file);
    // A window around the span is enough to draw it, and keeps a very long text from being searched line by line.
    let range = window(&source.text, span);
    let line = source.text[..range.start]
        .bytes()
        .filter(|b| *b == b'\n')
        .count()
        + 1;
    Snippet::source(&source.text[range])
        .line_start(line)
        .path(source.name.as_str())
}

/// The number of bytes of one span, and of the text before and after it, that are drawn.
const MAX_DRAWN_BYTES: usize = 4 << 10;

/// The lines of the span, or what is near of them where they are very long.
fn window(text: &str, span: Span) -> std::ops::Range<usize> {
    let drawn = drawn(text, span);
    let from = near(text, drawn.start.saturating_sub(MAX_DRAWN_BYTES));
    let to = near(text, drawn.end + MAX_DRAWN_BYTES);
    let start = text[from..drawn.start]
        .rfind('\n')
        .map_or(from, |i| from + i + 1);
    let end = text[drawn.end..to].find('\n').map_or(to, |i| drawn.end + i);
    start..end
}

/// The part of the span that is drawn.
fn drawn(text: &str, span: Span) -> std::ops::Range<usize> {
    let range = span.range();
    range.start..range.end.min(near(text, range.start + MAX_DRAWN_BYTES))
}

/// The last character boundary up to `at`.
fn near(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The span within its window.
fn caret(sources: &Sources, span: Span) -> std::ops::Range<usize> {
    let text = &sources.get(span.file).text;
    let start = window(text, span).start;
    let drawn = drawn(text, span);
    drawn.start - start..drawn.end - start
}
