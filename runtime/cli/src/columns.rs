//! Human-readable tables, byte counts and numbers.

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

/// The lines of a table, its columns as wide as their cells, two spaces apart. On a narrower terminal the names in the first column are
/// truncated in the middle.
pub(crate) fn lines(columns: &[(&str, Align)], rows: &[Vec<String>]) -> Vec<String> {
    let is_seen = std::io::stdout().is_terminal();
    let terminal = is_seen.then(terminal_size::terminal_size).flatten();
    match terminal {
        Some((width, _)) => within(usize::from(width.0), columns, rows),
        None => within(usize::MAX, columns, rows),
    }
}

/// The lines of a table, at most `max_width` characters wide where truncating the first column suffices.
fn within(max_width: usize, columns: &[(&str, Align)], rows: &[Vec<String>]) -> Vec<String> {
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells
            .chain([columns[i].0.chars().count()])
            .max()
            .unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let all = widths.iter().sum::<usize>() + 2 * columns.len().saturating_sub(1);
    if let Some(first) = widths.first_mut() {
        let cut = first.saturating_sub(all.saturating_sub(max_width));
        *first = cut.max(MIN_NAME_WIDTH.min(*first));
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells
            .zip(&widths)
            .zip(columns)
            .map(|((cell, width), (_, side))| match side {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(&mut columns.iter().map(|(name, _)| *name));
    let body = rows.iter().map(|row| match row.split_first() {
        Some((name, rest)) => {
            let name = truncated(name, widths[0]);
            line(&mut std::iter::once(name.as_str()).chain(rest.iter().map(String::as_str)))
        }
        None => String::new(),
    });
    std::iter::once(head).chain(body).collect()
}

/// A name truncated in the middle to `max_width` characters.
fn truncated(name: &str, max_width: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= max_width {
        return name.to_owned();
    }
    let start = max_width.saturating_sub(1) / 2;
    let end = letters.len() - max_width.saturating_sub(1 + start);
    letters[..start]
        .iter()
        .chain(&['…'])
        .chain(&letters[end..])
        .collect()
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

/// A number with six significant digits: `0.25`, `1.23457e-7`.
pub(crate) fn number(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 || !x.is_finite() {
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
    fn numbers_have_six_significant_digits() {
        for (x, text) in [
            (0.25, "0.25"),
            (-1.0, "-1"),
            (1.0 / 3.0, "0.333333"),
            (123456.789, "123457"),
            (1.5e-7, "1.5e-7"),
            (f64::NAN, "NaN"),
            (0.0, "0"),
            (1e10, "1e10"),
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
        let table = lines(&[("name", Align::Left), ("n", Align::Right)], &rows);
        assert_eq!(table, ["name   n", "a     10", "long   7"]);
    }

    #[test]
    fn long_names_are_truncated_in_the_middle_to_fit() {
        let name = format!("begin/{}/end", "x".repeat(100));
        let rows = [vec![name.clone(), "7".to_owned()]];
        let head = [("name", Align::Left), ("n", Align::Right)];
        let table = within(30, &head, &rows);
        assert_eq!(table[1], "begin/xxxxxxx…xxxxxxxxx/end  7");
        assert_eq!(table[1].chars().count(), 30);
        assert!(within(5, &head, &rows)[1].chars().count() == 23);
        assert_eq!(within(usize::MAX, &head, &rows)[1], format!("{name}  7"));
    }
}
