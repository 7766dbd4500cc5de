//! Syntax error messages: what was expected and what was found.

use pest::Parser;
use pest::error::{Error, ErrorVariant, InputLocation};
use trainspec_grammar::{Grammar, Rule};
use trainspec_ir::{FileId, Span};

use crate::diag::{Code, Diagnostic, foreign, nearest};

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
    if let Some(error) = typical_mistake(file, text, at, token, expected) {
        return error;
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
    let word_before = last_word(before);
    let help = advice(text, at, token).or_else(|| advice(text, at, word_before));
    Diagnostic::new(Code::Syntax, span, message).maybe_help(help)
}

/// How far back a bracket that is open is looked for, in characters.
const MAX_STATEMENT_LENGTH: usize = 2_000;

/// The units of quantities.
const UNITS: [&str; 9] = [
    "step", "steps", "epoch", "epochs", "ms", "s", "min", "h", "d",
];

/// The words that begin items.
const ITEMS: [&str; 13] = [
    "use",
    "const",
    "data",
    "model",
    "train",
    "eval",
    "hooks",
    "warm_start",
    "fn",
    "block",
    "init",
    "schedule",
    "optimizer",
];

/// The words that begin statements.
const STATEMENTS: [&str; 10] = [
    "let", "layer", "loss", "metric", "output", "param", "scalar", "slot", "state", "yield",
];

/// The word of an item that is near to a word at the beginning of one.
pub(super) fn near_item(word: &str) -> Option<&'static str> {
    nearest(word, ITEMS)
}

/// The name or number that a text ends in.
fn last_word(text: &str) -> &str {
    let word = text.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    word.into_iter().next().unwrap_or_default()
}

/// The diagnostic of a mistake that is known by what stands before and after the token, which no list of expected tokens explains.
fn typical_mistake(
    file: FileId,
    text: &str,
    at: usize,
    token: &str,
    expected: &[Rule],
) -> Option<Diagnostic> {
    let before = text[..at].trim_end();
    let previous = last_word(before);
    let span = Span::new(file, at, at + token.len());
    let is_word = |word: &str| word.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let error = |message: String, help: String| {
        Some(Diagnostic::new(Code::Syntax, span, message).help(help))
    };
    // Where the statement, setting or item begins, and its first word.
    let begin = before.rfind([';', '{', '}']).map_or(0, |i| i + 1);
    let first = token_at(text, skip_space(text, begin.min(at)));
    if is_number(previous)
        && is_word(token)
        && before.ends_with(previous)
        && !text[before.len()..at].contains('\n')
    {
        let units = crate::diag::one_of(UNITS).replace(" or ", " and ");
        let help = match nearest(token, UNITS) {
            Some(unit) => format!("write `{previous} {unit}`; the units are {units}"),
            None => format!("the units are {units}"),
        };
        return error(format!("`{token}` is no unit"), help);
    }
    let after = token_at(text, skip_space(text, at + token.len()));
    if token == "," && is_number(previous) && after.len() == 3 && is_number(after) {
        let help = format!("digits are grouped with `_`: `{previous}_{after}`");
        return error("`,` may not stand inside a number".to_owned(), help);
    }
    if before.ends_with('%') && is_number(last_word(before[..before.len() - 1].trim_end())) {
        let help =
            "`%` is the remainder of a division and needs two operands; ten percent are `0.1`";
        return error("there are no percentages".to_owned(), help.to_owned());
    }
    let in_settings = expected.contains(&Rule::settings);
    if matches!(token, ":" | "=") && in_settings && is_word(previous) && previous == first {
        let rest = if is_number(after) { "" } else { "(...)" };
        let help = format!("a setting is followed by its value: `{first} {after}{rest};`");
        return error(format!("a setting takes no `{token}`"), help);
    }
    if token == "=" && previous == first && is_word(first) {
        return match form(first) {
            Some(form) => error(
                format!("this is not how `{first}` is written"),
                format!("write `{form}`"),
            ),
            None => error(
                "a statement cannot begin like this".to_owned(),
                format!("a value is bound with `let`: `let {first} = ...;`"),
            ),
        };
    }
    // `foo h = 3;`
    if token == "="
        && is_word(first)
        && is_word(previous)
        && form(first).is_none()
        && !KEYWORDS.contains(&first)
        && text[skip_space(text, begin.min(at))..before.len()]
            .split_whitespace()
            .eq([first, previous])
    {
        let help = match nearest(first, STATEMENTS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("a value is bound with `let`: `let {previous} = ...;`"),
        };
        return error(format!("`{first}` begins no statement"), help);
    }
    if first != token && before.ends_with(first) && matches!(first, "metric" | "output") {
        let form = form(first).unwrap_or_default();
        return error(
            format!("this is not how `{first}` is written"),
            format!("write `{form}`"),
        );
    }
    if first == "model" && before.ends_with("model") && is_word(token) {
        return error(
            "a model has no name: it is the model of its spec".to_owned(),
            format!("write `{}`", form("model").unwrap_or_default()),
        );
    }
    if token == "if" && !expected.contains(&Rule::expr) {
        let help = "a choice is written `if a { b } else { c }`, or `where(a, b, c)` for tensors";
        return error("`if` may not stand here".to_owned(), help.to_owned());
    }
    let opened = innermost_bracket(before);
    if token == "(" && expected.contains(&Rule::kw_in) && is_word(previous) {
        let help = format!("a shape stands in brackets: `{previous}[batch, 4]`");
        return error("`(` may not stand here".to_owned(), help);
    }
    if opened == Some('[') && token == ":" {
        let help = "`_` stands for a whole dimension and `1..3` for a part of it: `x[_, 1..3]`";
        return error("`:` may not stand in an index".to_owned(), help.to_owned());
    }
    if opened == Some('[') && token == "." && before.ends_with("..") {
        let help = "`..` stands for any number of whole dimensions: `x[.., 0]`";
        return error("there are two dots in `..`".to_owned(), help.to_owned());
    }
    if opened == Some('[') && is_number(token) && previous == "by" {
        let help = "a step follows a range with a start or an end: `x[_, 0.. by 2]`";
        return error("a step needs a range".to_owned(), help.to_owned());
    }
    if token == ">" && before.ends_with('-') {
        return error(
            "`->` hands nothing on".to_owned(),
            "write `|>`, as in `x |> dense(3)`".to_owned(),
        );
    }
    if begin == 0 || before.ends_with([';', '}']) || before.is_empty() {
        if expected.contains(&Rule::item) || expected.contains(&Rule::const_item) {
            let items = "expected an item such as `const`, `data`, `model`, `train`";
            if token == "let" {
                let help = "outside of a model a value is a constant: `const NAME = value;`";
                return error(format!("{items}, found `let`"), help.to_owned());
            }
            let near = nearest(token, ITEMS).filter(|_| foreign::word(token).is_none())?;
            return error(
                format!("{items}, found `{token}`"),
                format!("did you mean `{near}`?"),
            );
        }
        return None;
    }
    let ends_value = before.ends_with([')', ']', '"']) || is_word(previous) || is_number(previous);
    if matches!(opened, Some('(' | '['))
        && ends_value
        && (is_number(token) || is_word(token) || token == "\"")
        && expected.contains(&Rule::infix)
        && foreign::word(token).is_none()
        && foreign::word(previous).is_none()
    {
        return error(
            format!("`{token}` may not stand here"),
            "a `,` or an operator is missing before it".to_owned(),
        );
    }
    None
}

/// The bracket that is open at the end of a text, within its last statement.
fn innermost_bracket(text: &str) -> Option<char> {
    let mut closed = 0;
    for c in text.chars().rev().take(MAX_STATEMENT_LENGTH) {
        match c {
            ';' if closed == 0 => return None,
            ')' | ']' | '}' => closed += 1,
            '(' | '[' | '{' if closed == 0 => return Some(c),
            '(' | '[' | '{' => closed -= 1,
            _ => {}
        }
    }
    None
}

/// The diagnostic of a statement that begins with a word of another language, or a misspelt word of ours.
pub(super) fn unknown_word(text: &str, span: Span) -> Option<Diagnostic> {
    let word = &text[span.range()];
    let near = || nearest(word, STATEMENTS).map(|near| format!("did you mean `{near}`?"));
    let help = advice(text, span.start as usize, word).or_else(near)?;
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
        "." => "a number begins with a digit: `0.5`",
        "&" => "write `&&`",
        "|" => "write `||`, or `|>` to hand a value on",
        "!" => "`!=` compares, `!x` negates",
        _ if token.starts_with('/') && text[at..].starts_with("///") => {
            "a doc comment stands before what it documents; other comments begin with `//`"
        }
        _ => return foreign::word(token).map(str::to_owned),
    };
    Some(advice.to_owned())
}
