//! String literals and what they stand for.

use std::ops::Range;

/// The characters that the inside of a `"…"` stands for, or the position of an invalid escape.
pub(crate) fn unescape(body: &str) -> Result<String, Range<usize>> {
    let mut out = String::with_capacity(body.len());
    let mut at = 0;
    while at < body.len() {
        let rest = &body[at..];
        let Some(slash) = rest.find('\\') else {
            out.push_str(rest);
            break;
        };
        out.push_str(&rest[..slash]);
        let escape = &rest[slash..];
        let start = at + slash;
        let (c, length) = decode(escape).ok_or_else(|| {
            let length = escape.chars().take(2).map(char::len_utf8).sum::<usize>();
            start..start + length
        })?;
        out.push(c);
        at = start + length;
    }
    Ok(out)
}

/// The character of the escape that `text` begins with, and how many bytes it takes.
fn decode(text: &str) -> Option<(char, usize)> {
    match text[1..].chars().next()? {
        'n' => Some(('\n', 2)),
        'r' => Some(('\r', 2)),
        't' => Some(('\t', 2)),
        '0' => Some(('\0', 2)),
        '\\' => Some(('\\', 2)),
        '"' => Some(('"', 2)),
        '\'' => Some(('\'', 2)),
        'x' => {
            let digits = text.get(2..4)?;
            let value = u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii)?;
            Some((value.into(), 4))
        }
        'u' => {
            let inner = text[2..].strip_prefix('{')?;
            let digits = &inner[..inner.find('}').filter(|n| (1..=6).contains(n))?];
            let value = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            Some((value, 4 + digits.len()))
        }
        _ => None,
    }
}

/// The value of a literal with its quotes, `"…"`, `r"…"` or `r#"…"#`. A bad escape was reported by the scan; it stands for
/// itself here.
pub(crate) fn literal_value(literal: &str) -> String {
    if let Some(raw) = literal.strip_prefix('r') {
        // As many `#` and one quote at either end; any more belong to the value.
        let quotes = raw.len() - raw.trim_start_matches('#').len() + 1;
        return raw
            .get(quotes..raw.len() - quotes)
            .unwrap_or(raw)
            .to_owned();
    }
    let body = literal
        .strip_prefix('"')
        .and_then(|l| l.strip_suffix('"'))
        .unwrap_or(literal);
    unescape(body).unwrap_or_else(|_| body.to_owned())
}

/// The canonical literal of a string.
pub(crate) fn quote(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => out.push_str("\\0"),
            c if c.is_control() => out.push_str(&c.escape_unicode().to_string()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_and_unescaping_are_inverse() {
        for text in ["", "a", "\"\\\n\r\t\0", "ä\u{7f}\u{1}€"] {
            assert_eq!(literal_value(&quote(text)), text);
        }
    }

    #[test]
    fn raw_strings_keep_the_quotes_inside() {
        assert_eq!(literal_value("r\" a\""), " a");
        assert_eq!(literal_value("r##\"#\"a\"#\"##"), "#\"a\"#");
        assert_eq!(literal_value("r#\"\"#"), "");
    }

    #[test]
    fn unescape_points_at_the_bad_escape() {
        assert_eq!(unescape("ab\\q"), Err(2..4));
        assert_eq!(unescape("\\u{110000}"), Err(0..2));
        assert_eq!(unescape("\\x4"), Err(0..2));
        assert_eq!(unescape("\\"), Err(0..1));
        assert_eq!(unescape("\\u{41}\\x42"), Ok("AB".to_owned()));
    }
}
