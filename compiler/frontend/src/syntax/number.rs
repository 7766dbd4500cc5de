//! Numeric literals and their values.

/// The value of an integer literal; `None` where it does not fit 64 bits, or is not an integer.
///
/// ```
/// use trainspec_frontend::syntax::int_value;
///
/// assert_eq!(int_value("2_000"), Some(2000));
/// assert_eq!(int_value("0xff"), Some(255));
/// assert_eq!(int_value("9223372036854775808"), None);
/// ```
pub fn int_value(text: &str) -> Option<i64> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// Whether the literal is an integer literal.
pub(crate) fn is_int(text: &str) -> bool {
    text.starts_with("0x") || !text.contains(['.', 'e', 'E'])
}

/// The value of any number; `None` where it does not fit.
pub fn float_value(text: &str) -> Option<f64> {
    if text.starts_with("0x") {
        return int_value(text).map(|n| n as f64);
    }
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    digits.parse().ok().filter(|x: &f64| x.is_finite())
}
