//! What a field of a table is by its characters: a date, a number as people write it, or what stands for a missing value.
//!
//! In: a field without the white space around it. Leaves alone: what other fields of its column are.

/// What stands for a missing value in a column of numbers, in lower case.
const MISSING_NUMBERS: [&str; 34] = [
    "na",
    "n/a",
    "n.a.",
    "n.a",
    "#n/a",
    "#na",
    "<na>",
    "nan",
    "-nan",
    "null",
    "(null)",
    "#null!",
    "none",
    "nil",
    "\\n",
    "?",
    "-",
    "--",
    "---",
    ".",
    "..",
    "...",
    "*",
    "inf",
    "+inf",
    "-inf",
    "infinity",
    "-infinity",
    "missing",
    "unknown",
    "undefined",
    "#value!",
    "#div/0!",
    "#ref!",
];

/// What stands for a missing value in a column of words.
const MISSING_WORDS: [&str; 12] = [
    "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "null", "NULL", "\\N", "?",
];

/// Whether a field stands for a missing number.
pub(super) fn is_missing_number(field: &str) -> bool {
    let is_short = field.len() <= 10;
    is_short && MISSING_NUMBERS.contains(&field.to_ascii_lowercase().as_str())
}

/// Whether a field stands for a missing word.
pub(super) fn is_missing_word(field: &str) -> bool {
    MISSING_WORDS.contains(&field)
}

/// How numbers are written that the data cannot be read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `1,5`
    DecimalComma,
    /// `4,165`
    Thousands,
    /// `5%`
    Percent,
    /// `$1,000.50`
    Currency,
}

/// The style of a field that is a number to people.
pub(super) fn style(field: &str) -> Option<Style> {
    const SIGNS: [char; 6] = ['$', '€', '£', '¥', '₹', '₽'];
    let number = field.strip_prefix(['-', '+']).unwrap_or(field).trim();
    if let Some(number) = number.strip_suffix('%') {
        return is_number(number.trim()).then_some(Style::Percent);
    }
    let bare = number.trim_matches(SIGNS);
    if bare.len() < number.len() {
        let bare = bare.trim().trim_start_matches(['-', '+']);
        return is_number(bare).then_some(Style::Currency);
    }
    grouped(number)
}

/// Whether people read it as a number.
fn is_number(text: &str) -> bool {
    let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_plain || grouped(text).is_some()
}

/// The style of digits with commas.
fn grouped(text: &str) -> Option<Style> {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let are_groups = |parts: &[&str]| match parts {
        [first, rest @ ..] => {
            is_digits(first)
                && first.len() <= 3
                && rest.iter().all(|part| is_digits(part) && part.len() == 3)
        }
        [] => false,
    };
    let (integer, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<&str> = integer.split(',').collect();
    if parts.len() > 1 && are_groups(&parts) && (decimals.is_empty() || is_digits(decimals)) {
        return Some(Style::Thousands);
    }
    let (integer, decimals) = text.split_once(',')?;
    let parts: Vec<&str> = integer.split('.').collect();
    let is_integer = is_digits(integer) || are_groups(&parts);
    (is_integer && is_digits(decimals)).then_some(Style::DecimalComma)
}

/// Whether a field is a date, a time of a day, or both.
pub(super) fn is_date(field: &str) -> bool {
    let Some(colon) = field.find(':') else {
        return is_day(field);
    };
    let hours = field[..colon]
        .bytes()
        .rev()
        .take_while(u8::is_ascii_digit)
        .count();
    let (day, time) = field.split_at(colon - hours);
    let (_, after) = time.split_at(hours + 1);
    let minutes = after.bytes().take_while(u8::is_ascii_digit).count();
    let is_time = (1..=2).contains(&hours)
        && minutes == 2
        && (after.chars()).all(|c| c.is_ascii_digit() || ":.,+- ZAPMUTCapm".contains(c));
    let day = day.trim_end_matches([' ', 'T', ',']);
    is_time && (day.is_empty() || is_day(day))
}

/// Whether a text is a day or a month of a year.
fn is_day(text: &str) -> bool {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    if text.len() > 30 {
        return false;
    }
    let separators = ['-', '/', '.', ' ', ','];
    let parts: Vec<&str> = text.split(separators).filter(|p| !p.is_empty()).collect();
    let number = |part: &str, sizes: std::ops::RangeInclusive<usize>, max: u32| {
        let is_sized = sizes.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        is_sized && part.parse().is_ok_and(|n: u32| n <= max)
    };
    let year = |part: &str| number(part, 4..=4, 2999);
    let short_year = |part: &str| year(part) || number(part, 2..=2, 99);
    let small = |part: &str, max: u32| number(part, 1..=2, max) && part != "0" && part != "00";
    let month = |part: &str| {
        let lower = part.to_lowercase();
        let is_word = lower.chars().all(|c| c.is_ascii_lowercase()) && lower.len() <= 9;
        is_word && MONTHS.iter().any(|month| lower.starts_with(month))
    };
    match parts[..] {
        [y, m] => text.contains(['-', '/']) && year(y) && small(m, 12),
        [y, m, d] if year(y) => (small(m, 12) || month(m)) && small(d, 31),
        [a, b, y] if short_year(y) => {
            (small(a, 12) && small(b, 31))
                || (small(a, 31) && small(b, 12))
                || (small(a, 31) && month(b))
                || (month(a) && small(b, 31))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_found_in_their_common_forms() {
        for date in [
            "2024-01-31",
            "2024/1/31",
            "2024-01",
            "2024-01-31T12:30:05.123Z",
            "2024-01-31 12:30",
            "2024-01-31T12:30:05+01:00",
            "31/01/2024",
            "1/31/24",
            "31.01.2024",
            "31.01.24 08:15",
            "12-Jan-2024",
            "Jan 12, 2024",
            "12 January 2024",
            "1/31/2024 9:05 PM",
            "23:59",
            "9:05:10",
        ] {
            assert!(is_date(date), "{date}");
        }
        for other in [
            "",
            "1.2.3",
            "2:1",
            "555-12-1234",
            "10-12",
            "3.14",
            "may",
            "a:b",
            "13/13/2024",
            "x 12:30",
            "192.168.0.1",
            "A-1-22",
            "1,5",
            ":30",
            "é:30",
        ] {
            assert!(!is_date(other), "{other}");
        }
    }

    #[test]
    fn numbers_as_people_write_them_have_a_style() {
        for (field, expected) in [
            ("1,5", Some(Style::DecimalComma)),
            ("-1.234,56", Some(Style::DecimalComma)),
            ("4,165", Some(Style::Thousands)),
            ("1,234,567.5", Some(Style::Thousands)),
            ("5%", Some(Style::Percent)),
            ("12.5 %", Some(Style::Percent)),
            ("$1,000.50", Some(Style::Currency)),
            ("-$3", Some(Style::Currency)),
            ("€ 3,50", Some(Style::Currency)),
            ("12 €", Some(Style::Currency)),
            ("", None),
            ("%", None),
            ("$", None),
            (",", None),
            ("a,b", None),
            ("1,2,3", None),
            ("12", None),
        ] {
            assert_eq!(style(field), expected, "{field}");
        }
    }
}
