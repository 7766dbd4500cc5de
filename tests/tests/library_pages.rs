//! Holds `docs/optimizers.md` to what the library says: its doc comments, signatures and state.
//!
//! `BLESS=1` rewrites it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options, syntax};
use trainspec_frontend::ast::{
    Body, Definition, DefinitionBody, DefinitionKind, Doc, ExprKind, ItemKind, Param, Statement,
    StatementKind,
};
use trainspec_ir::{FileId, Span};
use trainspec_tests::root;

/// The optimizers of `tf.compat.v1.train`, by their names there without `Optimizer`, which ours have too.
const TENSORFLOW: [&str; 10] = [
    "Adadelta",
    "Adagrad",
    "AdagradDA",
    "Adam",
    "Ftrl",
    "GradientDescent",
    "Momentum",
    "ProximalAdagrad",
    "ProximalGradientDescent",
    "RMSProp",
];

/// The schedules of `tf.compat.v1.train`, which are called the same.
const TENSORFLOW_SCHEDULES: [&str; 10] = [
    "cosine_decay",
    "cosine_decay_restarts",
    "exponential_decay",
    "inverse_time_decay",
    "linear_cosine_decay",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
];

/// The functions with which an optimizer reduces over a variable.
const REDUCTIONS: [&str; 5] = ["max", "mean", "norm", "root_mean_square", "sum"];

const HEAD: &str = "\
# Optimizers and schedules

Generated from the doc comments of the standard library: the files in [compiler/std](../compiler/std) hold the definitions, in the language.
How they are used, and how to write others, is in [language.md](language.md#optimizer).

## How to read this

In formulas g is the gradient of the variable `param` and t counts updates from 1. A line assigns a new value to a name; names on
the right-hand side have their old value unless a line above assigned them.

**Arguments** are given by position or name. One that takes *a number or a schedule* may change from step to step; a *known* one is
a compile-time constant.

**State** is what a checkpoint holds beside the variables. There is a slot for each variable, under `VARIABLE/KEY`; there is a scalar
for each group of variables, under its own name, with the suffix `_1` for a second group that has the same.

**Sparse gradients** (IndexedSlices) are those of variables that are only read by `gather`. Every optimizer takes `lazy`. With
`lazy: true` the rows that were read are updated, and their slots; with `lazy: false` the others are updated too, with a gradient
of 0. The default is `true`, but `false` where a definition declares `const lazy = false`: there the moments of all rows decay, as
those of TensorFlow's Adam do. A definition that reduces over a variable always gets the dense gradient.

## Optimizers
";

const SCHEDULES: &str = "
## Schedules

`step` is the number of completed updates: the first update sees 0. All arguments but the known ones may be schedules themselves.
";

/// A definition of the library and the text it stands in.
struct Entry {
    text: &'static str,
    docs: Vec<Doc>,
    definition: Definition,
    span: Span,
}

impl Entry {
    fn source(&self, span: Span) -> &'static str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Whether its text calls one of these functions.
    fn calls(&self, names: &[&str]) -> bool {
        let text = self.source(self.span);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '(');
        let mut called = words.flat_map(|word| word.split_inclusive('('));
        called.any(|word| word.strip_suffix('(').is_some_and(|w| names.contains(&w)))
    }
}

/// All definitions of a kind, by name.
fn entries(kind: DefinitionKind) -> Vec<Entry> {
    let mut found = Vec::new();
    for file in trainspec_std::FILES {
        let (parsed, errors) = syntax::parse(FileId(0), file.text);
        assert!(errors.is_empty(), "{}", file.path);
        for item in parsed.file.items {
            match item.kind {
                ItemKind::Definition(definition) if definition.kind == kind => {
                    found.push(Entry {
                        text: file.text,
                        docs: item.docs,
                        definition,
                        span: item.span,
                    });
                }
                _ => {}
            }
        }
    }
    found.sort_by(|a, b| a.definition.name.text.cmp(&b.definition.name.text));
    found
}

/// The comment as it stands, which is Markdown.
fn documentation(page: &mut String, entry: &Entry) {
    for doc in &entry.docs {
        let line = doc.text.strip_prefix(' ').unwrap_or(&doc.text);
        let _ = writeln!(page, "{}", line.trim_end());
    }
}

fn arguments(page: &mut String, entry: &Entry) {
    page.push_str("\n| Argument | Default | Takes |\n| --- | --- | --- |\n");
    for param in &entry.definition.params {
        let default = match &param.default {
            Some(default) => format!("`{}`", entry.source(default.span)),
            None => "required".to_owned(),
        };
        let _ = writeln!(
            page,
            "| `{}` | {default} | {} |",
            param.name.text,
            takes(param)
        );
    }
}

fn takes(param: &Param) -> &'static str {
    let default = param.default.as_ref().map(|d| &d.kind);
    match (param.ty.is_some(), param.is_const, default) {
        (_, true, Some(ExprKind::Bool(_))) => "`true` or `false`, known",
        (_, true, None) => "known",
        (true, _, _) | (_, true, Some(_)) => "a known number",
        (false, false, _) => "a number or a schedule",
    }
}

/// The slots and scalars: what they are called in the definition, in checkpoints, and what they begin with.
fn state(page: &mut String, entry: &Entry) {
    let DefinitionBody::Body(body) = &entry.definition.body else {
        return;
    };
    let mut rows = Vec::new();
    collect(entry, body, "", &mut rows);
    if rows.is_empty() {
        page.push_str("\nIt keeps no state.\n");
        return;
    }
    page.push_str("\n| State | In checkpoints | Begins with |\n| --- | --- | --- |\n");
    for row in rows {
        let _ = writeln!(page, "| {row} |");
    }
}

fn collect(entry: &Entry, body: &Body, condition: &str, rows: &mut Vec<String>) {
    for statement in &body.statements {
        collect_from(entry, statement, condition, rows);
    }
    if let Some(value) = &body.value {
        collect_branches(entry, &value.kind, rows);
    }
}

fn collect_from(entry: &Entry, statement: &Statement, condition: &str, rows: &mut Vec<String>) {
    match &statement.kind {
        StatementKind::Variable(slot) => {
            let name = &slot.name.text;
            let key = slot.alias.as_ref().map_or(name, |alias| &alias.value);
            let ty = match &slot.ty {
                Some(ty) => format!(", `{}`", entry.source(ty.span)),
                None => String::new(),
            };
            let init = entry.source(slot.init.span);
            rows.push(format!(
                "slot `{name}`{ty}{condition} | `VARIABLE/{key}` | `{init}`"
            ));
        }
        StatementKind::Scalar {
            name, alias, start, ..
        } => {
            let key = alias.as_ref().map_or(&name.text, |alias| &alias.value);
            let start = entry.source(start.span);
            rows.push(format!(
                "scalar `{}`{condition} | `{key}` | `{start}`",
                name.text
            ));
        }
        StatementKind::Expr { value, .. } => collect_branches(entry, &value.kind, rows),
        _ => {}
    }
}

fn collect_branches(entry: &Entry, kind: &ExprKind, rows: &mut Vec<String>) {
    let ExprKind::If(branches, otherwise) = kind else {
        return;
    };
    for (test, body) in branches {
        let condition = format!(" if `{}`", entry.source(test.span));
        collect(entry, body, &condition, rows);
    }
    if let Some(body) = otherwise {
        collect(entry, body, " if not", rows);
    }
}

fn sparse(entry: &Entry) -> &'static str {
    let declares = entry
        .definition
        .params
        .iter()
        .any(|p| p.name.text == "lazy");
    match (declares, entry.calls(&REDUCTIONS)) {
        (_, true) => "all rows; `lazy: true` is refused",
        (true, false) => "all rows, or with `lazy: true` those that were read",
        (false, false) => "the rows that were read, or with `lazy: false` all",
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for entry in entries(DefinitionKind::Optimizer) {
        let alias = &entry
            .definition
            .alias
            .as_ref()
            .expect("it has a name")
            .value;
        let class = match TENSORFLOW.contains(&alias.as_str()) {
            true => format!("TensorFlow: `tf.compat.v1.train.{alias}Optimizer`"),
            false => "Beyond TensorFlow".to_owned(),
        };
        let _ = writeln!(page, "\n### {}\n", entry.definition.name.text);
        documentation(&mut page, &entry);
        arguments(&mut page, &entry);
        state(&mut page, &entry);
        let _ = writeln!(
            page,
            "\n- {class}\n- A sparse gradient updates {}",
            sparse(&entry)
        );
    }
    page.push_str(SCHEDULES);
    for entry in entries(DefinitionKind::Schedule) {
        let name = &entry.definition.name.text;
        let function = match TENSORFLOW_SCHEDULES.contains(&name.as_str()) {
            true => format!("TensorFlow: `tf.compat.v1.train.{name}`"),
            false => "Beyond TensorFlow".to_owned(),
        };
        let _ = writeln!(page, "\n### {name}\n");
        documentation(&mut page, &entry);
        arguments(&mut page, &entry);
        let _ = writeln!(page, "\n- {function}");
    }
    page
}

#[test]
fn the_page_of_optimizers_says_what_the_library_says() {
    let path = root().join("docs/optimizers.md");
    let found = page();
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if written == found {
        return;
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
        return;
    }
    let diff = similar::TextDiff::from_lines(&written, &found);
    let diff = diff.unified_diff().header("docs", "library").to_string();
    panic!("docs/optimizers.md is not what the library says (BLESS=1 rewrites it):\n{diff}");
}

#[test]
fn every_name_of_tensorflow_is_in_the_library() {
    let optimizers = entries(DefinitionKind::Optimizer);
    let names: BTreeSet<&str> = optimizers
        .iter()
        .map(|e| e.definition.alias.as_ref().unwrap().value.as_str())
        .collect();
    assert!(names.is_superset(&TENSORFLOW.into()));
    let schedules = entries(DefinitionKind::Schedule);
    let names: BTreeSet<&str> = schedules
        .iter()
        .map(|e| e.definition.name.text.as_str())
        .collect();
    assert!(names.is_superset(&TENSORFLOW_SCHEDULES.into()));
}

#[test]
fn declared_lazy_is_the_last_argument_and_needs_no_use() {
    let mut count = 0;
    for entry in entries(DefinitionKind::Optimizer) {
        let params = &entry.definition.params;
        let Some(position) = params.iter().position(|p| p.name.text == "lazy") else {
            continue;
        };
        assert_eq!(position, params.len() - 1);
        let text = format!(
            "spec lazy;
model (x: f32) {{ param w: f32 = 0.0; loss w * x; }}
train {{ optimizer {}(lazy: true); steps 1; }}
",
            entry.definition.name.text
        );
        let found = Compilation::check("lazy.trainspec", &text, &NoFiles, &Options::default());
        assert!(
            found.diagnostics.is_empty(),
            "{text}{:?}",
            found.diagnostics
        );
        count += 1;
    }
    assert_eq!(count, 6);
}

/// Without a formula and its source a definition cannot be judged.
#[test]
fn every_optimizer_has_a_formula_and_a_source() {
    for entry in entries(DefinitionKind::Optimizer) {
        let name = &entry.definition.name.text;
        let lines: Vec<&str> = entry.docs.iter().map(|d| d.text.as_str()).collect();
        assert!(
            lines.iter().any(|l| l.starts_with("     param = ")),
            "{name}"
        );
        let all = lines.join(" ");
        let year = |part: &str| part.len() >= 4 && part[..4].bytes().all(|b| b.is_ascii_digit());
        assert!(all.split(", ").skip(1).any(year), "{name}");
    }
}
