//! Names of the language and of Rust that are like a text: letters, digits and `_`.

/// The words that a name cannot be, and those that mean something in a data set or a model.
const RESERVED: [&str; 30] = [
    "as",
    "batch",
    "cluster",
    "const",
    "data",
    "else",
    "export",
    "false",
    "filter",
    "fn",
    "for",
    "if",
    "in",
    "int",
    "let",
    "loss",
    "map",
    "metric",
    "none",
    "output",
    "param",
    "precision",
    "quantize",
    "scan",
    "state",
    "step",
    "training",
    "true",
    "use",
    "yield",
];

/// What neither a crate nor its modules can be called: keywords of Rust, its own crates, folders of a build, and what the program uses.
const RESERVED_OF_RUST: [&str; 62] = [
    "abstract",
    "alloc",
    "async",
    "await",
    "become",
    "bool",
    "box",
    "break",
    "build",
    "char",
    "clippy",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "enum",
    "examples",
    "extern",
    "f32",
    "f64",
    "final",
    "gen",
    "i32",
    "i64",
    "impl",
    "incremental",
    "loop",
    "macro",
    "main",
    "match",
    "mod",
    "move",
    "mut",
    "ndarray",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "str",
    "struct",
    "super",
    "test",
    "trainspec",
    "trait",
    "try",
    "type",
    "typeof",
    "u32",
    "u64",
    "unsafe",
    "unsized",
    "usize",
    "virtual",
    "where",
    "while",
];

/// A name of the language that is like a text; `None` where no character of it has a place in one.
pub(super) fn identifier(text: &str) -> Option<String> {
    let mut name = String::new();
    for c in text.trim().chars().flat_map(char::to_lowercase) {
        match c {
            _ if c.is_ascii_alphanumeric() => name.push(c),
            // A combining mark is no letter of its own.
            '\u{300}'..='\u{36f}' => {}
            _ if !latin(c).is_empty() => name.push_str(latin(c)),
            _ if name.ends_with('_') || name.is_empty() => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_').to_owned();
    let is_function = trainspec_compiler::ir::ops::TABLE
        .iter()
        .any(|op| op.name == name || op.aliases.contains(&name.as_str()));
    let first = name.chars().next()?;
    Some(match first.is_ascii_digit() {
        true => format!("c_{name}"),
        false if is_function || RESERVED.contains(&name.as_str()) => format!("{name}_value"),
        false => name,
    })
}

/// The plain letters of a Latin one with a mark (transliteration); nothing for another character.
fn latin(c: char) -> &'static str {
    match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => "a",
        'æ' => "ae",
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => "c",
        'ď' | 'đ' | 'ð' => "d",
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => "e",
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => "g",
        'ĥ' | 'ħ' => "h",
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' => "i",
        'ĵ' => "j",
        'ķ' => "k",
        'ĺ' | 'ļ' | 'ľ' | 'ł' => "l",
        'ñ' | 'ń' | 'ņ' | 'ň' => "n",
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' => "o",
        'œ' => "oe",
        'ŕ' | 'ŗ' | 'ř' => "r",
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => "s",
        'ß' => "ss",
        'ţ' | 'ť' | 'ŧ' | 'ț' => "t",
        'þ' => "th",
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' => "u",
        'ŵ' => "w",
        'ý' | 'ÿ' | 'ŷ' => "y",
        'ź' | 'ż' | 'ž' => "z",
        _ => "",
    }
}

/// A name that a crate and a module of Rust can have, like that of a spec.
pub(super) fn crate_name(spec: &str) -> String {
    match RESERVED_OF_RUST.contains(&spec) {
        true => format!("{spec}_model"),
        false => spec.to_owned(),
    }
}

/// A name that is not taken; it is from now on.
pub(super) fn unique(name: String, names: &mut std::collections::HashSet<String>) -> String {
    let mut candidates = (1..).map(|i| match i {
        1 => name.clone(),
        i => format!("{name}_{i}"),
    });
    let free = candidates
        .find(|one| !names.contains(one))
        .expect("numbers go on");
    names.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::{crate_name, identifier};

    #[test]
    fn names_keep_the_letters_of_a_text() {
        for (text, name) in [
            ("My Shapes", Some("my_shapes")),
            ("Ünïcode", Some("unicode")),
            ("u\u{308}ber", Some("uber")),
            ("Straße", Some("strasse")),
            ("2nd", Some("c_2nd")),
            ("loss", Some("loss_value")),
            (" (%) ", None),
            ("価格", None),
        ] {
            assert_eq!(identifier(text).as_deref(), name, "{text}");
        }
    }

    #[test]
    fn crates_are_called_by_no_word_of_rust() {
        assert_eq!(crate_name("async"), "async_model");
        assert_eq!(crate_name("std"), "std_model");
        assert_eq!(crate_name("online"), "online");
    }
}
