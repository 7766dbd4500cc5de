//! Syntax error messages: what was expected and what was found.

use pest::Parser;
use pest::error::{Error, ErrorVariant, InputLocation};
use trainspec_grammar::{Grammar, Rule};
use trainspec_ir::{FileId, Span};

use crate::diag::{Code, Diagnostic};

/// Keywords reserved for later editions.
const FUTURE_KEYWORDS: [&str; 4] = ["cluster", "export", "precision", "quantize"];
/// Keywords, which no name may be.
const KEYWORDS: [&str; 13] = [
    "as", "const", "else", "false", "fn", "for", "if", "in", "let", "scan", "true", "use", "yield",
];

/// The diagnostic for the text at `span`, which does not parse as `rule`.
pub(super) fn bad(file: FileId, text: &str, span: Span, rule: Rule) -> Diagnostic {
    match Grammar::parse(rule, &text[span.range()]) {
        Err(error) => failure(file, text, span.start as usize, &error),
        // It parses alone, so something before it must be in the way.
        Ok(_) => Diagnostic::new(Code::Syntax, span, "this may not stand here"),
    }
}

/// The diagnostic of a failed parse that began at byte `offset`.
pub(super) fn failure(file: FileId, text: &str, offset: usize, error: &Error<Rule>) -> Diagnostic {
    let at = offset
        + match error.location {
            InputLocation::Pos(at) => at,
            InputLocation::Span((at, _)) => at,
        };
    let expected = match &error.variant {
        ErrorVariant::ParsingError { positives, .. } => positives.as_slice(),
        ErrorVariant::CustomError { .. } => &[],
    };
    let mut at = skip_space(text, at);
    if text[at..].starts_with('*') && text[..at].ends_with('*') {
        at -= 1;
    }
    let token = token_at(text, at);
    let span = Span::new(file, at, at + token.len());
    if FUTURE_KEYWORDS.contains(&token) {
        let message = format!("`{token}` is reserved: it will be part of the language later");
        return Diagnostic::new(Code::ReservedWord, span, message)
            .help("choose another name, or leave the item out");
    }
    let expects_name = expected.contains(&Rule::name);
    if KEYWORDS.contains(&token)
        && expects_name
        && !expected.contains(&Rule::expr)
        && !expected.contains(&Rule::paren)
    {
        let message = format!("`{token}` has a meaning of its own and cannot be a name");
        return Diagnostic::new(Code::ReservedWord, span, message)
            .help(format!("choose another name, such as `{token}_`"));
    }
    let before = text[..at].trim_end();
    let last_line = match token {
        "" | "}" => before[before.rfind('\n').map_or(0, |i| i + 1)..].trim_start(),
        _ => "",
    };
    if last_line.starts_with("///") {
        let start = before.len() - last_line.len();
        return Diagnostic::new(
            Code::Syntax,
            Span::new(file, start, before.len()),
            "this comment documents nothing",
        )
        .help("a doc comment stands before what it documents; other comments begin with `//`");
    }
    let after = skip_space(text, at + token.len());
    let name = token_at(text, after);
    if token == "spec" && KEYWORDS.iter().chain(&FUTURE_KEYWORDS).any(|w| *w == name) {
        let message = format!("`{name}` has a meaning of its own and cannot be a name");
        return Diagnostic::new(
            Code::ReservedWord,
            Span::new(file, after, after + name.len()),
            message,
        )
        .help(format!("choose another name, such as `{name}_`"));
    }
    if let Some(form) = form(token).filter(|_| at == skip_space(text, offset)) {
        let message = format!("this is not how `{token}` is written");
        return Diagnostic::new(Code::Syntax, span, message).help(format!("write `{form}`"));
    }
    let continues = [Rule::infix, Rule::semicolon];
    let expression_ended = expected.iter().any(|r| continues.contains(r));
    let new_line = text[before.len()..at].contains('\n');
    let next_setting =
        expected.contains(&Rule::settings) && token.starts_with(|c: char| c.is_ascii_alphabetic());
    let at_end = new_line || next_setting || token.is_empty() || token == "}";
    if expression_ended && at_end && !before.is_empty() {
        let insertion = Span::new(file, before.len(), before.len());
        return Diagnostic::new(Code::Syntax, insertion, "a `;` is missing here");
    }
    let found = match token {
        "" => "the end".to_owned(),
        token => format!("`{token}`"),
    };
    let message = match describe(expected) {
        Some(expected) => format!("expected {expected}, found {found}"),
        None => format!("{found} may not stand here"),
    };
    let word_before = before
        .rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .next()
        .unwrap_or_default();
    let help = advice(text, at, token).or_else(|| advice(text, at, word_before));
    Diagnostic::new(Code::Syntax, span, message).maybe_help(help)
}

/// The diagnostic of a statement that begins with a word of another language, where it is one.
pub(super) fn foreign_word(text: &str, span: Span) -> Option<Diagnostic> {
    let word = &text[span.range()];
    let help = advice(text, span.start as usize, word)?;
    Some(Diagnostic::new(Code::Syntax, span, format!("`{word}` begins no statement")).help(help))
}

/// The syntax of the item or statement that begins with this keyword.
fn form(word: &str) -> Option<&'static str> {
    Some(match word {
        "block" => "block name(x: f32[.., n]) { ... }",
        "const" => "const NAME = value;",
        "data" => "data name { ... }",
        "eval" => "eval { ... }",
        "fn" => "fn name(x) = value;",
        "hooks" => "hooks { ... }",
        "init" => "init name(scale = 1.0) = value;",
        "layer" => "layer name = dense(10);",
        "let" => "let name = value;",
        "loss" => "loss value;",
        "metric" => "metric name = value;",
        "model" => "model (x: f32[batch, 4]) { ... }",
        "output" => "output name = value;",
        "param" => "param name: f32[n] = zeros;",
        "scalar" => "scalar name = first then next;",
        "schedule" => "schedule name(rate) = value;",
        "slot" => "slot name = zeros;",
        "spec" => "spec name, edition 1;",
        "state" => "state name: f32[n] = zeros;",
        "train" => "train { ... }",
        "use" => "use \"file.trainspec\";",
        "warm_start" => "warm_start (checkpoint: \"runs/old\");",
        "yield" => "yield value;",
        _ => return None,
    })
}

fn skip_space(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start();
        at = text.len() - trimmed.len();
        match trimmed.strip_prefix("//") {
            Some(comment) if !comment.starts_with(['/', '!']) || comment.starts_with("//") => {
                at += trimmed.find('\n').unwrap_or(trimmed.len());
            }
            _ => return at,
        }
    }
}

/// The token that begins at `at`; empty at the end.
fn token_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    let word = rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(rest.len());
    if word > 0 {
        return &rest[..word];
    }
    let pairs = [
        "|>", "||", "&&", "==", "!=", "<=", ">=", "<-", "->", "=>", "..", "::", "+=", "-=", "*=",
        "/=", "**", "//",
    ];
    match pairs.iter().find(|p| rest.starts_with(*p)) {
        Some(pair) => &rest[..pair.len()],
        None => &rest[..rest.chars().next().map_or(0, char::len_utf8)],
    }
}

/// A description of the expected rules; `None` where that would not help.
fn describe(expected: &[Rule]) -> Option<String> {
    let has = |rule: Rule| expected.contains(&rule);
    let mut words: Vec<&str> = Vec::new();
    if has(Rule::item) || has(Rule::definition_kind) || has(Rule::const_item) {
        words.push("an item such as `const`, `data`, `model`, `train`");
    } else if has(Rule::statement) || has(Rule::let_statement) {
        words.push("a statement");
    } else if has(Rule::expr) || has(Rule::paren) {
        words.push("a value");
    } else if has(Rule::r#type) {
        words.push("a type such as `f32[batch, 3]`");
    } else if has(Rule::tuple_pattern) {
        words.push("a name or `(a, b)`");
    } else if has(Rule::param) || has(Rule::name) {
        words.push("a name");
    }
    if has(Rule::string) && words.is_empty() {
        words.push("a string in double quotes");
    }
    if has(Rule::number) && words.is_empty() {
        words.push("a number");
    }
    if has(Rule::body) {
        words.push("`{`");
    }
    if has(Rule::settings) {
        words.push("`{` or `;`");
    }
    if has(Rule::params) || (has(Rule::arguments) && words.is_empty() && !has(Rule::infix)) {
        words.push("`(`");
    }
    if has(Rule::kw_then) && !has(Rule::infix) {
        words.push("`then`");
    }
    if has(Rule::kw_in) && !has(Rule::infix) {
        words.push("`in`");
    }
    (!words.is_empty()).then(|| words.join(" or "))
}

/// Suggestions for syntax of other languages.
fn advice(text: &str, at: usize, token: &str) -> Option<String> {
    let advice = match token {
        "=" => "an argument is named with a colon: `f(x: 1)`; a comparison is written `==`",
        ":" => "a name before a colon is only possible in the parentheses of a call",
        "<-" => {
            "`<-` writes state, as a statement of its own; for a comparison put a space: `a < -b`"
        }
        "->" | "=>" => "results need no type: the compiler finds it",
        "::" => "members are written with a dot: `head.kernel`",
        "+=" | "-=" | "*=" | "/=" => "values do not change: use `let`, or `<-` for state",
        "**" => "powers are written `pow(x, y)`",
        "#" => "comments begin with `//`",
        "and" => "write `&&`",
        "or" => "write `||`",
        "not" => "the negation of a bool is written `!a`",
        "elif" => "write `else if`",
        "def" | "function" | "func" => "a function is written `fn name(x) = value;`",
        "class" | "struct" => "a part of a model with variables is a `block`",
        "import" | "include" => "other files come in with `use \"file.trainspec\";`",
        "while" => {
            "loops are `for i in 0..n, value = start { ... }` and `scan x in xs, value = start { ... }`"
        }
        "return" => "the last expression of a block, without `;`, is its value",
        "var" | "mut" => "values are bound with `let`; what changes is `state`",
        "." => "a number begins with a digit: `0.5`",
        "&" => "write `&&`",
        "|" => "write `||`, or `|>` to hand a value on",
        "!" => "`!=` compares, `!x` negates",
        _ if token.starts_with('/') && text[at..].starts_with("///") => {
            "a doc comment stands before what it documents; other comments begin with `//`"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}
