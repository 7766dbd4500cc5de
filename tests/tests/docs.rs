//! Runs the snippets of the documentation, and holds the reference to naming all there is.
//!
//! In: `docs/*.md` and `README.md`. A block in a fence that says `trainspec` is checked:
//!
//! - `trainspec`: as it is; it has a `spec` header
//! - `trainspec,items`: after a header
//! - `trainspec,model`: as the body of a model with the inputs `x`, `label` and `y`
//! - `trainspec,data`: as the stages of a data set; it gets a source with `image` and `label` if it has none
//! - `trainspec,train`: as the settings of a training, beside a model with the layers `body` and `head` and the data set
//!   `train_set`; it gets an optimizer if it has none
//! - `trainspec,eval` and `trainspec,hooks`: as the settings of an evaluation or of hooks, beside the same and a training; hooks also
//!   beside an evaluation `test`
//!
//! With `error CODE` at the end, as in `trainspec,model,error shape-mismatch`, a diagnostic must have that code; without
//! it there must be no errors. Warnings are fine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use trainspec_compiler::diag::{Code, Style, render};
use trainspec_compiler::{Compilation, Options, SETTINGS};
use trainspec_ir::ops::{Default, Elements, Kind, Op, TABLE};
use trainspec_tests::{files_below, root};

// ---- Snippets ----

/// A block of code in a document.
struct Snippet {
    /// `docs/language.md:12`
    location: String,
    /// What it is wrapped in.
    wrap: String,
    /// The code that it must give, or none.
    error: Option<String>,
    text: String,
}

#[test]
fn snippets_check() {
    let mut failures = Vec::new();
    let mut count = 0;
    for path in documents() {
        for snippet in snippets(&path) {
            count += 1;
            failures.extend(snippet.verify().err());
        }
    }
    println!("{count} snippets");
    assert!(
        failures.is_empty(),
        "{} snippets fail:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
    assert!(count > 0, "no document has a snippet");
}

/// Specs and items are laid out as `trainspec fmt` would; parts of a body have no layout of their own.
#[test]
fn snippets_are_laid_out_canonically() {
    let mut failures = Vec::new();
    for path in documents() {
        for snippet in snippets(&path) {
            if !matches!(snippet.wrap.as_str(), "" | "items") || snippet.error.is_some() {
                continue;
            }
            match trainspec_compiler::fmt::format(&snippet.text) {
                Ok(canonical) if canonical == snippet.text => {}
                Ok(canonical) => failures.push(format!("{}:\n{canonical}", snippet.location)),
                Err(_) => failures.push(format!("{} does not parse", snippet.location)),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn documents() -> Vec<PathBuf> {
    let mut found = files_below(&root().join("docs"), "md");
    found.push(root().join("README.md"));
    found.retain(|path| path.exists());
    found
}

fn read(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn snippets(path: &PathBuf) -> Vec<Snippet> {
    let name = path
        .strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string();
    let mut found = Vec::new();
    let mut open: Option<(Option<Snippet>, String)> = None;
    for (i, line) in read(path).lines().enumerate() {
        let line = line.trim_end();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, None) => {}
            (None, Some(info)) => {
                open = Some((snippet_of(info, format!("{name}:{}", i + 1)), String::new()))
            }
            (Some(_), Some("")) => {
                if let Some((Some(snippet), text)) = open.take() {
                    found.push(Snippet { text, ..snippet });
                }
                open = None;
            }
            (Some((_, text)), _) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "{name}: the last code block does not end");
    found
}

/// What the words after the fence say; `None` for code in another language.
fn snippet_of(info: &str, location: String) -> Option<Snippet> {
    let mut words = info.trim().split(',').map(str::trim);
    if words.next() != Some("trainspec") {
        return None;
    }
    let mut snippet = Snippet {
        location,
        wrap: String::new(),
        error: None,
        text: String::new(),
    };
    for word in words {
        match word.strip_prefix("error ") {
            Some(code) => {
                assert!(
                    Code::from_name(code).is_some(),
                    "{}: there is no code `{code}`",
                    snippet.location
                );
                snippet.error = Some(code.to_owned());
            }
            None => snippet.wrap = word.to_owned(),
        }
    }
    Some(snippet)
}

/// What `train`, `eval` and `hooks` stand beside.
const MODEL: &str = r#"
data train_set {
    source  tfrecord("train.tfrecord");
    feature x: f32[8];
    feature label: i64 in 0..10;
    repeat;
    batch   32;
}
data test_set {
    source  tfrecord("test.tfrecord");
    feature x: f32[8];
    feature label: i64 in 0..10;
    batch   (size: 32, remainder: keep);
}
model (x: f32[batch, 8], label: i64[batch] in 0..10) {
    layer body = dense(16);
    layer head = dense(10);
    let logits = x |> body |> relu |> head;
    loss   sparse_softmax_cross_entropy(labels: label, logits: logits);
    metric accuracy = sparse_categorical_accuracy(labels: label, predictions: logits);
    output probabilities = softmax(logits);
}
"#;
const TRAIN: &str = r#"
train {
    data      train_set;
    schedule  lr = cosine_decay(1e-3, decay_steps: 1_000);
    optimizer adam(learning_rate: lr);
    ema       (decay: 0.99);
    steps     1_000;
}
"#;

const EVAL: &str = r#"
eval test {
    data  test_set;
    every 100 steps;
}
"#;

impl Snippet {
    fn wrapped(&self) -> String {
        let text = &self.text;
        let has = |word: &str| text.lines().any(|l| l.trim_start().starts_with(word));
        match self.wrap.as_str() {
            "" => text.clone(),
            "items" => format!("spec snippet;\n{text}"),
            "model" => format!(
                "spec snippet;\nmodel (x: f32[batch, 8], label: i64[batch] in 0..10, y: f32[batch, 8]) {{\n{text}\noutput _x = x;\n}}\n"
            ),
            "data" => {
                let source = match has("source") {
                    true => "",
                    false => {
                        "source tfrecord(\"rows\"); feature image: u8[64]; feature label: i64;"
                    }
                };
                format!("spec snippet;\ndata snippet_set {{ {source}\n{text}}}\n")
            }
            "train" => {
                let optimizer = if has("optimizer") {
                    ""
                } else {
                    "optimizer gradient_descent(0.1);"
                };
                format!("spec snippet;\n{MODEL}\ntrain {{ {optimizer}\n{text}}}\n")
            }
            "eval" => format!("spec snippet;\n{MODEL}{TRAIN}\neval {{\n{text}}}\n"),
            "hooks" => format!("spec snippet;\n{MODEL}{TRAIN}{EVAL}\nhooks {{\n{text}}}\n"),
            other => panic!(
                "{}: a snippet cannot be wrapped in `{other}`",
                self.location
            ),
        }
    }

    fn verify(&self) -> Result<(), String> {
        let shared = read(&root().join("examples/shared_layers.trainspec"));
        let files = BTreeMap::from([("layers.trainspec".to_owned(), shared)]);
        let text = self.wrapped();
        let found = Compilation::check("snippet.trainspec", &text, &files, &Options::default());
        let fine = match &self.error {
            None => !found.failed(),
            Some(code) => found.diagnostics.iter().any(|d| d.code.name() == code),
        };
        if fine {
            return Ok(());
        }
        let drawn: Vec<String> = found
            .diagnostics
            .iter()
            .map(|d| render(&found.sources, d, Style::Plain))
            .collect();
        let expectation = match &self.error {
            None => "has errors".to_owned(),
            Some(code) => format!("does not give `{code}`"),
        };
        Err(format!(
            "{}: this snippet {expectation}:\n{}",
            self.location,
            drawn.join("\n\n")
        ))
    }
}

// ---- Completeness ----

/// The functions that the checker answers itself, and the names it knows besides definitions.
const BUILTINS: [&str; 9] = [
    "shape_of", "rank", "dtype_of", "len", "size_of", "old", "grad", "hessian", "fail",
];
const NAMES: [&str; 4] = ["step", "training", "none", "all_but_last"];

fn reference() -> String {
    read(&root().join("docs/language.md"))
}

/// All words of a document that stand in code.
fn code_words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut take = |code: &str| {
        let split = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.extend(split.map(str::to_owned));
    };
    let mut block = false;
    for line in text.lines() {
        if line.starts_with("```") {
            block = !block;
        } else if block {
            take(line);
        } else {
            line.split('`').skip(1).step_by(2).for_each(&mut take);
        }
    }
    words
}

#[test]
fn the_reference_names_every_setting_and_builtin() {
    let words = code_words(&reference());
    let settings = SETTINGS.iter().flat_map(|s| {
        let params = s.params.iter().map(|p| p.name);
        [s.section, s.word].into_iter().chain(params)
    });
    let all = settings.chain(BUILTINS).chain(NAMES);
    let missing: BTreeSet<&str> = all.filter(|name| !words.contains(*name)).collect();
    assert!(
        missing.is_empty(),
        "docs/language.md does not mention {missing:?}"
    );
}

#[test]
fn the_builtins_named_here_are_those_of_the_checker() {
    for name in BUILTINS.into_iter().chain(NAMES) {
        let text = format!("spec a; model (x: f32[2]) {{ let _a = {name}; output y = x; }}");
        let found = Compilation::check(
            "a",
            &text,
            &trainspec_compiler::source::NoFiles,
            &Options::default(),
        );
        assert!(!found.failed(), "nothing is called `{name}`");
    }
}

#[test]
fn the_reference_lists_every_operation_as_it_is() {
    let text = reference();
    let line = |op: &&Op| format!("`{}`", signature(op));
    let missing: Vec<String> = TABLE
        .iter()
        .filter(|op| !text.contains(&line(op)))
        .map(|op| format!("- {}: {}", line(op), op.doc))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/language.md lacks\n{}",
        missing.join("\n")
    );
    for alias in TABLE.iter().flat_map(|op| op.aliases) {
        assert!(
            text.contains(&format!("`{alias}`")),
            "docs/language.md lacks the alias `{alias}`"
        );
    }
}

#[test]
fn the_reference_lists_every_definition_of_the_library_as_it_is() {
    let text = reference();
    let mut missing = Vec::new();
    for file in trainspec_std::FILES {
        for (kind, name) in trainspec_std::definitions(file.text) {
            let start = file
                .text
                .find(&format!("{kind} {name}("))
                .expect("a definition is in its file");
            // A list that breaks over lines ends in a comma, which says nothing here.
            let signature = declared(&file.text[start + kind.len() + 1..]).replace(",)", ")");
            let line = format!("`{signature}`");
            if !text.contains(&line) {
                missing.push(format!("- {line} ({kind})"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/language.md lacks\n{}",
        missing.join("\n")
    );
}

/// A name and its parameters on one line, as they are declared.
fn declared(text: &str) -> String {
    let mut depth = 0;
    let mut end = text.len();
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            end = i + 1;
            break;
        }
    }
    let words: Vec<&str> = text[..end].split_whitespace().collect();
    words.join(" ").replace("( ", "(").replace(" )", ")")
}

/// An operation, written as a `fn` would be.
fn signature(op: &Op) -> String {
    let mut class = None;
    let mut elements = |e: Elements| match e {
        Elements::Only(dtype) => format!("{dtype}[..]"),
        Elements::Of(class) => format!("{}[..]", class.name()),
        Elements::Same(name, of) => {
            class = Some(format!(" where {name}: {}", of.name()));
            format!("{name}[..]")
        }
    };
    let mut params = Vec::new();
    for param in op.params {
        let kind = match param.kind {
            Kind::Tensor(e) => elements(e),
            Kind::Tensors(e) => format!("list of {}", elements(e)),
            Kind::Int => "int".to_owned(),
            Kind::Ints => "ints".to_owned(),
            Kind::Pairs => "pairs".to_owned(),
            Kind::Float => "float".to_owned(),
            Kind::Number => "number".to_owned(),
            Kind::Bool => "bool".to_owned(),
            Kind::Word(words) => words
                .iter()
                .map(|w| format!("{w:?}"))
                .collect::<Vec<_>>()
                .join(" or "),
            Kind::String => "string".to_owned(),
            Kind::DType => "dtype".to_owned(),
        };
        let default = match param.default {
            Default::Required => String::new(),
            Default::Absent => " = none".to_owned(),
            Default::Int(n) => format!(" = {n}"),
            Default::Float(x) => format!(" = {x:?}"),
            Default::Bool(b) => format!(" = {b}"),
            Default::Word(w) => format!(" = {w:?}"),
            Default::DType(d) => format!(" = {d}"),
        };
        params.push(format!("{}: {kind}{default}", param.name));
    }
    format!(
        "{}({}){}",
        op.name,
        params.join(", "),
        class.unwrap_or_default()
    )
}
