//! Protocol-buffer text format (`text_format`), as far as the `checkpoint` file needs it: fields with strings and numbers.
//!
//! In: text. Out: fields, each with its values; and strings and numbers as TensorFlow prints them. What is accepted is what Python's
//! parser accepts: comments, either kind of quotes, adjacent string literals, lists in brackets, a comma or a semicolon after a value.

/// What is wrong, and the byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParseError {
    pub(super) at: usize,
    pub(super) cause: String,
}

/// The type of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Number,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    String(String),
    Number(f64),
}

/// Parses all fields. `kind` says what a field holds and whether it is repeated; `None` if there is no such field.
pub(super) fn fields(
    text: &str,
    kind: impl Fn(&str) -> Option<(Kind, bool)>,
    mut each: impl FnMut(&str, Value),
) -> Result<(), ParseError> {
    let mut tokens = Tokens { text, at: 0 };
    loop {
        tokens.skip();
        if tokens.at == text.len() {
            return Ok(());
        }
        let start = tokens.at;
        let name = tokens.while_(|c| c.is_ascii_alphanumeric() || c == '_');
        let Some((kind, list)) = kind(name) else {
            return Err(ParseError {
                at: start,
                cause: match name.is_empty() {
                    true => "expected the name of a field".into(),
                    false => format!("there is no field `{name}`"),
                },
            });
        };
        if !tokens.eat(':') {
            return Err(tokens.wrong("expected `:`"));
        }
        if list && tokens.eat('[') {
            if !tokens.eat(']') {
                loop {
                    each(name, tokens.value(kind)?);
                    if tokens.eat(']') {
                        break;
                    }
                    if !tokens.eat(',') {
                        return Err(tokens.wrong("expected `,` or `]`"));
                    }
                }
            }
        } else {
            each(name, tokens.value(kind)?);
        }
        if !tokens.eat(',') {
            tokens.eat(';');
        }
    }
}

struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn wrong(&self, cause: impl Into<String>) -> ParseError {
        ParseError {
            at: self.at,
            cause: cause.into(),
        }
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            self.while_(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c'));
            if !self.rest().starts_with('#') {
                return;
            }
            self.while_(|c| c != '\n');
        }
    }

    fn while_(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip();
        let found = self.rest().starts_with(c);
        self.at += usize::from(found) * c.len_utf8();
        found
    }

    fn value(&mut self, kind: Kind) -> Result<Value, ParseError> {
        self.skip();
        match kind {
            Kind::String => self.string().map(Value::String),
            Kind::Number => {
                let start = self.at;
                let token = self
                    .while_(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '-'));
                number(token).map(Value::Number).ok_or_else(|| ParseError {
                    at: start,
                    cause: format!("`{token}` is no number"),
                })
            }
        }
    }

    /// One or more adjacent string literals.
    fn string(&mut self) -> Result<String, ParseError> {
        let start = self.at;
        let mut bytes = Vec::new();
        let mut pieces = 0;
        loop {
            self.skip();
            let Some(quote) = self
                .rest()
                .chars()
                .next()
                .filter(|c| matches!(c, '"' | '\''))
            else {
                break;
            };
            self.at += 1;
            self.piece(quote, &mut bytes)?;
            pieces += 1;
        }
        if pieces == 0 {
            return Err(self.wrong("expected a string in quotes"));
        }
        String::from_utf8(bytes).map_err(|_| ParseError {
            at: start,
            cause: "a string is not UTF-8".into(),
        })
    }

    fn piece(&mut self, quote: char, out: &mut Vec<u8>) -> Result<(), ParseError> {
        loop {
            let Some(c) = self.rest().chars().next().filter(|&c| c != '\n') else {
                return Err(self.wrong("a string has no end"));
            };
            match c {
                '\\' => self.escape(out)?,
                _ => {
                    self.at += c.len_utf8();
                    if c == quote {
                        return Ok(());
                    }
                    out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let start = self.at;
        let broken = |cause: &str| ParseError {
            at: start,
            cause: cause.into(),
        };
        let rest = &self.rest()[1..];
        let c = rest
            .chars()
            .next()
            .filter(|&c| c != '\n')
            .ok_or_else(|| broken("a string has no end"))?;
        self.at += 1 + c.len_utf8();
        let digits = |rest: &str, most: usize, radix: u32| -> usize {
            rest.chars()
                .take(most)
                .take_while(|c| c.is_digit(radix))
                .count()
        };
        match c {
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'a' => out.push(7),
            'b' => out.push(8),
            'v' => out.push(0x0b),
            'f' => out.push(0x0c),
            '\\' | '\'' | '"' => out.push(c as u8),
            '0'..='7' => {
                let count = digits(rest, 3, 8);
                let value = u8::from_str_radix(&rest[..count], 8);
                out.push(value.map_err(|_| broken("a byte above 255"))?);
                self.at = start + 1 + count;
            }
            'x' => {
                let count = digits(&rest[1..], 2, 16);
                let value = u8::from_str_radix(&rest[1..1 + count], 16);
                out.push(value.map_err(|_| broken("`\\x` without digits"))?);
                self.at = start + 2 + count;
            }
            'u' | 'U' => {
                let count = if c == 'u' { 4 } else { 8 };
                if digits(&rest[1..], count, 16) < count {
                    return Err(broken("a character with too few digits"));
                }
                let value = u32::from_str_radix(&rest[1..1 + count], 16).unwrap_or(u32::MAX);
                let c = char::from_u32(value).ok_or_else(|| broken("no such character"))?;
                out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
                self.at = start + 2 + count;
            }
            // An unknown escape sequence is kept literally.
            _ => {
                out.push(b'\\');
                out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        Ok(())
    }
}

/// A number as Python reads it: with `_` between digits, and with a suffix `f`.
fn number(token: &str) -> Option<f64> {
    let unsigned = token.strip_prefix('-').unwrap_or(token);
    let octal = unsigned.len() > 1
        && unsigned.starts_with('0')
        && unsigned.bytes().all(|b| b.is_ascii_digit());
    if octal {
        return None;
    }
    let bytes = token.as_bytes();
    let digit = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_digit);
    let between = |i: usize| digit(i.checked_sub(1)) && digit(i.checked_add(1));
    if (0..bytes.len()).any(|i| bytes[i] == b'_' && !between(i)) {
        return None;
    }
    let plain = token.replace('_', "");
    plain
        .parse()
        .ok()
        .or_else(|| plain.strip_suffix(['f', 'F'])?.parse().ok())
}

/// A quoted and escaped string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' | '\'' | '\\' => out.extend(['\\', c]),
            '\0'..='\x1f' | '\x7f' => out.push_str(&format!("\\{:03o}", c as u32)),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The shortest decimal form that round-trips, as Python prints it.
pub(super) fn printed(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let exact = format!("{value:e}");
    let (mantissa, exponent) = exact.split_once('e').unwrap_or((&exact, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match (-4..16).contains(&exponent) {
        true => format!("{value:?}"),
        false => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_python_does() {
        for (value, text) in [
            (1.5, "1.5"),
            (1_700_000_000.123_456, "1700000000.123456"),
            (1e300, "1e+300"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (1e-7, "1e-07"),
            (0.0001, "0.0001"),
            (0.000_012, "1.2e-05"),
            (5e-324, "5e-324"),
            (1e15, "1000000000000000.0"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(printed(value), text);
        }
    }
}
