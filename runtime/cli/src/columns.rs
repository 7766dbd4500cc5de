//! Human-readable tables, byte counts and numbers.

use std::borrow::Cow;
use std::io::IsTerminal;

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// The least width that names are truncated to, in characters.
const MIN_NAME_WIDTH: usize = 20;

/// The most characters of a cell; longer ones are truncated in the middle, so that one name of a megabyte does not widen every line.
const MAX_CELL_CHARS: usize = 256;

/// The lines of a table, its columns as wide as their cells, two spaces apart. On a narrower terminal the names in the first column are
/// truncated in the middle.
pub(crate) fn lines<'a>(
    columns: &'a [(&'a str, Align)],
    rows: &'a [Vec<String>],
) -> impl Iterator<Item = String> + 'a {
    let is_seen = std::io::stdout().is_terminal();
    let terminal = is_seen.then(terminal_size::terminal_size).flatten();
    let max_width = terminal.map_or(usize::MAX, |(width, _)| usize::from(width.0));
    within(max_width, columns, rows)
}

/// The lines of rows without a head, the cells of a column below each other.
pub(crate) fn aligned(rows: &[Vec<String>]) -> impl Iterator<Item = String> {
    let cells = rows.iter().map(Vec::len).max().unwrap_or(0);
    let head = vec![("", Align::Left); cells];
    let lines: Vec<String> = lines(&head, rows).skip(1).collect();
    lines.into_iter()
}

/// The lines of a table, at most `max_width` characters wide where truncating the first column suffices.
fn within<'a>(
    max_width: usize,
    columns: &'a [(&'a str, Align)],
    rows: &'a [Vec<String>],
) -> impl Iterator<Item = String> + 'a {
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].as_str());
        let cells = cells.chain([columns[i].0]);
        let widths = cells.map(|cell| cell.chars().take(MAX_CELL_CHARS).count());
        widths.max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let all = widths.iter().sum::<usize>() + 2 * columns.len().saturating_sub(1);
    if let Some(first) = widths.first_mut() {
        let cut = first.saturating_sub(all.saturating_sub(max_width));
        *first = cut.max(MIN_NAME_WIDTH.min(*first));
    }
    let line = move |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells
            .zip(&widths)
            .zip(columns)
            .map(|((cell, &width), (_, side))| {
                let cell = truncated(cell, width);
                let blank = " ".repeat(width.saturating_sub(cell.chars().count()));
                match side {
                    Align::Left => format!("{cell}{blank}"),
                    Align::Right => format!("{blank}{cell}"),
                }
            });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(&mut columns.iter().map(|(name, _)| *name));
    let body = rows
        .iter()
        .map(move |row| line(&mut row.iter().map(String::as_str)));
    std::iter::once(head).chain(body)
}

/// A name truncated in the middle to `max_width` characters.
pub(crate) fn truncated(name: &str, max_width: usize) -> Cow<'_, str> {
    let Some(cut) = name.chars().count().checked_sub(max_width + 1) else {
        return Cow::Borrowed(name);
    };
    let start = max_width.saturating_sub(1) / 2;
    let head = name.chars().take(start);
    let tail = name.chars().skip(start + cut + 2);
    Cow::Owned(head.chain(['…']).chain(tail).collect())
}

/// `48 B`, `1.2 KB`, `3.0 GB`: powers of a thousand, as `bench` has them.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KB", "MB", "GB"] {
        if value < 999.5 {
            return match unit {
                "B" => format!("{count} B"),
                _ => format!("{value:.1} {unit}"),
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// `12 `, `1.2 k`, `3.4 M`, `5.60 G`: a number before a unit.
pub(crate) fn scaled(n: f64) -> String {
    match n {
        n if n < 1e3 => format!("{n:.0} "),
        n if n < 1e6 => format!("{:.1} k", n / 1e3),
        n if n < 1e9 => format!("{:.1} M", n / 1e6),
        n => format!("{:.2} G", n / 1e9),
    }
}

/// Integers up to this magnitude are shown with all their digits; each is an `f64`.
const MAX_EXACT_INTEGER: f64 = 1e15;

/// A number with six significant digits: `0.25`, `1.23457e-7`; an integer, such as a step, with all of them.
pub(crate) fn number(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 || !x.is_finite() || (x.fract() == 0.0 && size <= MAX_EXACT_INTEGER) {
        return format!("{x}");
    }
    if !(1e-4..1e7).contains(&size) {
        let text = format!("{x:.5e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", short(digits));
    }
    let places = 5 - size.log10().floor() as i32;
    short(&format!("{x:.*}", places.clamp(0, 9) as usize)).to_owned()
}

/// A number with four significant digits, where it is read in passing: `0.8690`, `1.2e-6`.
pub(crate) fn short_number(x: f64) -> String {
    let size = x.abs();
    match (1e-4..1e4).contains(&size) {
        true => {
            let places = 3 - size.log10().floor() as i32;
            short(&format!("{x:.*}", places.clamp(0, 7) as usize)).to_owned()
        }
        false if x == 0.0 || !x.is_finite() => format!("{x}"),
        false => format!("{x:.1e}"),
    }
}

/// Digits without trailing zeros.
fn short(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_significant_digits_and_integers_all() {
        for (x, text) in [
            (0.25, "0.25"),
            (-1.0, "-1"),
            (1.0 / 3.0, "0.333333"),
            (123456.789, "123457"),
            (1.5e-7, "1.5e-7"),
            (f64::NAN, "NaN"),
            (0.0, "0"),
            (1e10, "10000000000"),
            (-12345678.0, "-12345678"),
            (12345678.5, "1.23457e7"),
            (1e16, "1e16"),
            (1234.5678, "1234.57"),
        ] {
            assert_eq!(number(x), text);
        }
    }

    #[test]
    fn bytes_change_their_unit_before_they_have_four_digits() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (123_456_789, "123.5 MB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [
            vec!["a".to_owned(), "10".to_owned()],
            vec!["long".to_owned(), "7".to_owned()],
        ];
        let head = [("name", Align::Left), ("n", Align::Right)];
        let table: Vec<String> = lines(&head, &rows).collect();
        assert_eq!(table, ["name   n", "a     10", "long   7"]);
    }

    #[test]
    fn long_names_are_truncated_in_the_middle_to_fit() {
        let name = format!("begin/{}/end", "x".repeat(100));
        let rows = [vec![name.clone(), "7".to_owned()]];
        let head = [("name", Align::Left), ("n", Align::Right)];
        let second = |max_width| within(max_width, &head, &rows).nth(1).unwrap();
        assert_eq!(second(30), "begin/xxxxxxx…xxxxxxxxx/end  7");
        assert_eq!(second(30).chars().count(), 30);
        assert_eq!(second(5).chars().count(), 23);
        assert_eq!(second(usize::MAX), format!("{name}  7"));
    }

    #[test]
    fn cells_of_any_length_are_truncated() {
        let rows = [vec!["é".repeat(100_000), "x".repeat(70_000)]];
        let head = [("name", Align::Left), ("n", Align::Right)];
        let line = within(usize::MAX, &head, &rows).nth(1).unwrap();
        assert_eq!(line.chars().count(), 2 * MAX_CELL_CHARS + 2);
        assert_eq!(line.matches('…').count(), 2);
    }
}
