//! The golden runner: input and expectation in one file.
//!
//! A golden begins with `// golden: KIND`; lines that start with `//>` are the expected output, all others are the author's
//! input. The kinds:
//!
//! - `parse`: the syntax tree
//! - `fmt`: the canonical layout
//! - `check`: the typed spec
//! - `graph`, `grad`, `step`: the model as a graph, with its gradients, and the training step
//! - `fused`, `kernels`, `plan`: the step as groups, as loops, and where its buffers lie and what it costs
//! - `clif`, `asm`: its loops as Cranelift is given them, and as code of one certain machine
//! - `pass NAME`: a graph after one pass; the input is a graph, in a file that ends in `.graph`
//! - `error CODE`: the diagnostics, at least one of which has the code
//! - `mistake`: the diagnostics of a typical mistake, or `accepted`
//!
//! Lines below the first may steer the run: `// set: NAME=VALUE` overrides a constant, `// dim: NAME=SIZE` gives a dimension,
//! `// stage: NAME` lets an error come from a stage after the check, `// input: "text" * 3 + "more"`
//! replaces the input by another text (for what an editor would not keep), `// bytes: 73 ff` by bytes. `use` finds the
//! files of the folder `used/` beside the golden.
//!
//! [`oracle`] runs reference cases with numbers.

pub mod oracle;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainspec_compiler::codegen::listing::{Target, can_list};
use trainspec_compiler::diag::{Diagnostic, Style, render};
use trainspec_compiler::ir::graph::verify as verify_graph;
use trainspec_compiler::ir::passes;
use trainspec_compiler::ir::text::parse as parse_graph;
use trainspec_compiler::source::{Sources, decode};
use trainspec_compiler::{Compilation, EmitOptions, Options, Stage, fmt};

pub use trainspec_testing::folders::root;

/// The outcome of a mistake that goes unnoticed.
pub const ACCEPTED: &str = "accepted";

/// One golden.
#[derive(Debug, Clone)]
pub struct Golden {
    /// The file.
    pub path: PathBuf,
    /// `error`, `check`, …
    pub kind: String,
    /// What follows the kind.
    pub argument: String,
    /// The author's lines.
    pub input: String,
    /// The lines after `//>`, without it.
    pub expected: String,
}

/// The folder of all goldens.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// All files below a folder with that ending, by name; folders called `used`, `target` and hidden ones are left out.
pub fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "used" && name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// All goldens.
pub fn goldens() -> Vec<Golden> {
    let mut files = files_below(&folder(), "trainspec");
    files.extend(files_below(&folder(), "graph"));
    files.into_iter().map(|path| Golden::read(&path)).collect()
}

impl Golden {
    /// Reads a golden; a file that is none is a mistake of the author's.
    pub fn read(path: &Path) -> Golden {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (mut input, mut expected) = (String::new(), String::new());
        for line in text.lines() {
            match line.strip_prefix("//>") {
                Some(output) => {
                    expected.push_str(output.strip_prefix(' ').unwrap_or(output));
                    expected.push('\n');
                }
                None => {
                    input.push_str(line);
                    input.push('\n');
                }
            }
        }
        let header = input.lines().next().unwrap_or_default();
        let words = header.strip_prefix("// golden: ").unwrap_or_else(|| {
            panic!(
                "{}: the first line must be `// golden: KIND`",
                path.display()
            )
        });
        let (kind, argument) = words.split_once(' ').unwrap_or((words, ""));
        Golden {
            path: path.to_owned(),
            kind: kind.to_owned(),
            argument: argument.trim().to_owned(),
            input,
            expected,
        }
    }

    /// The value of a steering line.
    fn directive(&self, name: &str) -> Option<&str> {
        let prefix = format!("// {name}: ");
        self.input.lines().find_map(|l| l.strip_prefix(&prefix))
    }

    /// What is fed to the compiler.
    pub fn bytes(&self) -> Vec<u8> {
        if let Some(text) = self.directive("input") {
            return expand(text).into_bytes();
        }
        if let Some(bytes) = self.directive("bytes") {
            let parse = |b: &str| {
                u8::from_str_radix(b, 16)
                    .unwrap_or_else(|e| panic!("{}: {b}: {e}", self.path.display()))
            };
            return bytes.split_whitespace().map(parse).collect();
        }
        self.input.clone().into_bytes()
    }

    fn name(&self) -> String {
        self.path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        for line in self.input.lines() {
            if let Some((name, value)) = line
                .strip_prefix("// set: ")
                .and_then(|l| l.split_once('='))
            {
                options.overrides.push((name.to_owned(), value.to_owned()));
            }
        }
        options
    }

    fn choices(&self) -> EmitOptions {
        // Code of one certain machine, so that it is the same everywhere.
        let mut choices = EmitOptions {
            target: Target::Haswell,
            ..EmitOptions::default()
        };
        for line in self.input.lines() {
            if let Some((name, size)) = line
                .strip_prefix("// dim: ")
                .and_then(|l| l.split_once('='))
            {
                let size = size.trim().parse().expect("a size is a number");
                choices.dims.insert(name.to_owned(), size);
            }
        }
        choices
    }

    fn loader(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let folder = self.path.with_file_name("used");
        for path in files_below(&folder, "trainspec") {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            files.insert(name, std::fs::read_to_string(&path).unwrap_or_default());
        }
        files
    }

    /// Runs the golden; what it prints.
    pub fn run(&self) -> Result<String, String> {
        let name = self.name();
        let text = match decode(&name, self.bytes()) {
            Ok(text) => text,
            Err(diagnostic) => return self.errors(&Sources::default(), &[diagnostic]),
        };
        let loader = self.loader();
        match self.kind.as_str() {
            "parse" | "check" | "graph" | "grad" | "step" | "fused" | "kernels" | "plan"
            | "clif" | "asm" => {
                let stage = match self.kind.as_str() {
                    "parse" => Stage::Ast,
                    "check" => Stage::Typed,
                    kind => Stage::ALL
                        .into_iter()
                        .find(|stage| stage.name() == kind)
                        .ok_or("there is no such stage")?,
                };
                stage
                    .emit(&name, &text, &loader, &self.options(), &self.choices())
                    .map_err(|c| drawn(&c.sources, &c.diagnostics))
            }
            "pass" => {
                let graph = parse_graph(&text).map_err(|e| e.to_string())?;
                let pass = passes::find(&self.argument)
                    .ok_or_else(|| format!("there is no pass `{}`", self.argument))?;
                let graph = (pass.run)(graph);
                verify_graph(&graph).map_err(|e| e.to_string())?;
                Ok(graph.to_string())
            }
            "fmt" => fmt::format(&text).map_err(|list| {
                let mut sources = Sources::default();
                sources.add(&name, &text);
                drawn(&sources, &list)
            }),
            "error" => {
                let compilation = Compilation::check(&name, &text, &loader, &self.options());
                if let (false, Some(stage)) = (compilation.failed(), self.directive("stage")) {
                    let stage = Stage::ALL.into_iter().find(|s| s.name() == stage);
                    let stage = stage.ok_or("there is no such stage")?;
                    return match stage.emit(&name, &text, &loader, &self.options(), &self.choices())
                    {
                        Ok(_) => Err("there is no error".to_owned()),
                        Err(c) => self.errors(&c.sources, &c.diagnostics),
                    };
                }
                self.errors(&compilation.sources, &compilation.diagnostics)
            }
            "mistake" => {
                let compilation = Compilation::check(&name, &text, &loader, &self.options());
                Ok(match &compilation.diagnostics[..] {
                    [] => ACCEPTED.to_owned(),
                    list => drawn(&compilation.sources, list),
                })
            }
            other => Err(format!("there is no kind of golden `{other}`")),
        }
    }

    fn errors(&self, sources: &Sources, list: &[Diagnostic]) -> Result<String, String> {
        let drawn = drawn(sources, list);
        if !list.iter().any(|d| d.code.name() == self.argument) {
            return Err(format!(
                "no diagnostic has the code `{}`:\n{drawn}",
                self.argument
            ));
        }
        Ok(drawn)
    }

    /// Compares, or rewrites the `//>` lines where `BLESS` is set. `Err` says what differs.
    pub fn verify(&self) -> Result<(), String> {
        let name = self
            .path
            .strip_prefix(folder())
            .unwrap_or(&self.path)
            .display()
            .to_string();
        if matches!(self.kind.as_str(), "clif" | "asm") && !can_list(Target::Haswell) {
            println!("skipped: {name} needs a compiler for x86-64");
            return Ok(());
        }
        let found = self.run().map_err(|e| format!("{name}:\n{e}"))?;
        if found.trim_end() == self.expected.trim_end() {
            return Ok(());
        }
        if std::env::var_os("BLESS").is_some() {
            let mut text = self.input.trim_end().to_owned();
            text.push('\n');
            for line in found.trim_end().lines() {
                text.push_str(format!("//> {line}").trim_end());
                text.push('\n');
            }
            return std::fs::write(&self.path, text).map_err(|e| format!("{name}: {e}"));
        }
        let diff = similar::TextDiff::from_lines(self.expected.trim_end(), found.trim_end());
        let diff = diff
            .unified_diff()
            .context_radius(3)
            .header("expected", "found")
            .to_string();
        Err(format!("{name} (BLESS=1 rewrites it):\n{diff}"))
    }
}

fn drawn(sources: &Sources, list: &[Diagnostic]) -> String {
    let drawn: Vec<String> = list
        .iter()
        .map(|d| render(sources, d, Style::Plain))
        .collect();
    drawn.join("\n\n")
}

/// `"text" * 3 + "more"`
fn expand(text: &str) -> String {
    let mut out = String::new();
    for part in text.split(" + ") {
        let (literal, times) = match part.rsplit_once(" * ") {
            Some((literal, n)) => (literal, n.trim().parse().unwrap_or(1)),
            None => (part, 1),
        };
        let literal = literal.trim().trim_start_matches('"').trim_end_matches('"');
        let literal = literal
            .replace("\\n", "\n")
            .replace("\\r", "\r")
            .replace("\\0", "\0")
            .replace("\\\"", "\"")
            .replace("\\u{feff}", "\u{feff}");
        out.push_str(&literal.repeat(times));
    }
    out
}

/// The Rust in the pages of documentation, run as the examples of items are.
#[cfg(doctest)]
#[doc = include_str!("../../docs/running.md")]
struct RunningPage;

/// As above.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
struct RustPage;

/// As above.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
