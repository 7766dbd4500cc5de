//! Syntax tree to typed spec.
//!
//! In: the root text, a loader for `use`, overrides of constants. Out: the typed spec where there are no errors, and all
//! diagnostics.
//!
//! The checker runs the spec on types instead of numbers: every call of a definition is expanded where it stands, so that
//! shapes flow through it, blocks find the sizes of their variables, and an error inside can be told at the call. The work
//! is bounded: by the depth of expansion, the length of loops and the number of evaluated expressions.

mod averages;
mod builtins;
mod call;
mod clips;
mod control;
mod data;
mod errors;
mod eval;
mod evals;
mod fold;
mod glob;
mod groups;
mod hooks;
mod index;
mod items;
mod mention;
mod model;
mod operators;
mod ops;
mod optimizers;
mod scope;
mod settings;
mod state;
mod statements;
mod train;
mod types;
mod value;
mod variables;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

use trainspec_ir::{FileId, Span};

use crate::diag::{Code, Diagnostic};
use crate::source::{Loader, Sources};
use crate::{lower, typed};

pub(crate) use errors::code_of;
use items::{Items, Library};
use scope::Frame;
use value::Tensor;
use variables::Store;

/// What steers a check from outside.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--set NAME=VALUE`: values of constants.
    pub overrides: Vec<(String, String)>,
}

/// What a check gives.
#[derive(Debug)]
pub struct Checked {
    /// The typed spec, where there are no errors.
    pub spec: Option<typed::Spec>,
    /// Errors and warnings, in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
}

/// How often an expression may be evaluated in one check.
const FUEL: u64 = 5_000_000;
/// How many nodes a spec may expand to.
const MAX_NODES: u64 = 1_000_000;
/// How many mistakes, and how many warnings, are told at once.
pub const MAX_REPORTED: usize = 100;
/// How deep expansions and expressions may nest together.
const MAX_EXPANSION_DEPTH: usize = 220;

/// Checks the spec whose root text is `root`.
///
/// ```
/// use trainspec_frontend::check::{Options, check};
/// use trainspec_frontend::source::{NoFiles, Sources};
///
/// let mut sources = Sources::default();
/// let root = sources.add("tiny.trainspec", "spec tiny; model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }");
/// let checked = check(&mut sources, root, &NoFiles, &Options::default());
/// assert!(checked.diagnostics.is_empty());
/// assert_eq!(checked.spec.unwrap().variables[0].name, "dense/kernel");
/// ```
pub fn check(
    sources: &mut Sources,
    root: FileId,
    loader: &dyn Loader,
    options: &Options,
) -> Checked {
    let mut checker = Checker {
        sources,
        errors: Vec::new(),
        seen: HashSet::new(),
        items: Items::default(),
        library: Library::default(),
        frames: Vec::new(),
        calls: Vec::new(),
        program: typed::Program::default(),
        store: Store::default(),
        training: true,
        writes: true,
        step_after: false,
        generic: false,
        scan_depth: 0,
        fuel: FUEL,
        nodes: 0,
        depth: 0,
        exhausted: false,
        gave_up: false,
        names_hidden: false,
        declared: BTreeMap::new(),
        used: HashSet::new(),
        expanded: BTreeSet::new(),
        counts: 0,
        counted: BTreeMap::new(),
        shortened: BTreeMap::new(),
    };
    let spec = checker.spec(root, loader, options);
    let mut diagnostics = checker.errors;
    if let Some(spec) = &spec
        && !diagnostics.iter().any(Diagnostic::is_error)
    {
        diagnostics.extend(lower::lazy_errors(spec).unwrap_or_else(|error| vec![error]));
    }
    diagnostics.sort_by_key(|d| (d.span.map(|s| (s.file, s.start, s.end)), d.code));
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    Checked {
        spec: spec.filter(|_| !failed),
        diagnostics,
    }
}

/// The state of a check.
pub(crate) struct Checker<'a> {
    sources: &'a mut Sources,
    errors: Vec<Diagnostic>,
    seen: HashSet<(Code, Option<Span>, String)>,
    items: Items,
    library: Library,
    /// The innermost frame is the one whose names are in sight.
    frames: Vec<Frame>,
    /// The calls being expanded.
    calls: Vec<CallSite>,
    /// What is being built.
    program: typed::Program,
    store: Store,
    /// The mode.
    training: bool,
    /// Whether `<-` writes, or only gives a name a new value.
    writes: bool,
    /// Whether `step` counts the update that is being made.
    step_after: bool,
    /// Whether a definition is checked on its own, with sizes that stay names.
    generic: bool,
    scan_depth: usize,
    fuel: u64,
    nodes: u64,
    depth: usize,
    exhausted: bool,
    /// Whether the definition being expanded has reached a `fail`: what is left of it says nothing new.
    gave_up: bool,
    /// Whether a file could not be read that may declare what others miss.
    names_hidden: bool,
    /// What was declared and would be odd if never used: where, which kind of thing, its name.
    declared: BTreeMap<Span, (&'static str, String)>,
    used: HashSet<Span>,
    /// The definitions that were expanded at least once, by the place of their name.
    expanded: BTreeSet<Span>,
    counts: u64,
    /// The counts of the program, by what decides them.
    counted: BTreeMap<String, String>,
    /// Values of the program that are other values in a shorter type.
    shortened: BTreeMap<typed::ValueId, Tensor>,
}

/// A call that is being expanded.
#[derive(Debug, Clone)]
pub(crate) struct CallSite {
    pub span: Span,
    pub def: Rc<value::Def>,
}

impl Checker<'_> {
    fn spec(
        &mut self,
        root: FileId,
        loader: &dyn Loader,
        options: &Options,
    ) -> Option<typed::Spec> {
        let header = self.collect(root, loader)?;
        self.apply_overrides(options);
        self.evaluate_constants();
        let data = self.data_sets();
        let model = self.model(&data);
        let train = self.train(model.as_ref(), &data);
        self.refuse_shared_state(train.as_ref());
        let evals = self.evals(model.as_ref(), train.as_ref(), &data);
        let hooks = self.hooks(model.as_ref(), train.as_ref());
        let warm_start = self.warm_start();
        self.check_unexpanded();
        self.warn_unused();
        Some(typed::Spec {
            name: header.0,
            edition: header.1,
            constants: self.printed_constants(),
            data,
            model,
            variables: std::mem::take(&mut self.store.variables),
            train,
            evals,
            hooks,
            warm_start,
        })
    }

    /// Builds a program of its own.
    fn in_program<R>(&mut self, build: impl FnOnce(&mut Self) -> R) -> (R, typed::Program) {
        let outer = std::mem::take(&mut self.program);
        let counted = std::mem::take(&mut self.counted);
        let shortened = std::mem::take(&mut self.shortened);
        let result = build(self);
        self.counted = counted;
        self.shortened = shortened;
        let program = std::mem::replace(&mut self.program, outer);
        (result, program)
    }

    /// Warns of what was declared and never used.
    fn warn_unused(&mut self) {
        if self.has_errors() {
            // What was not looked at because of a mistake may use it.
            return;
        }
        let declared = std::mem::take(&mut self.declared);
        for (span, (kind, name)) in declared {
            if self.used.contains(&span) || name.starts_with('_') {
                continue;
            }
            let shown = if kind == "let" { "value" } else { kind };
            let message = format!("the {shown} `{name}` is never used");
            let help = match kind {
                "let" => format!("remove it, or call it `_{name}` if that is on purpose"),
                _ => "remove it".to_owned(),
            };
            self.report(Diagnostic::new(Code::Unused, span, message).help(help));
        }
    }

    /// Marks a name as used.
    fn mark_used(&mut self, declared_at: Span) {
        self.used.insert(declared_at);
    }

    /// Takes a step; false where the spec has become too large to go on.
    fn step(&mut self, at: Span) -> bool {
        if self.exhausted {
            return false;
        }
        if self.fuel == 0 || self.nodes > MAX_NODES {
            self.exhausted = true;
            self.report(
                Diagnostic::new(
                    Code::SpecTooLarge,
                    at,
                    "the spec expands to more than can be compiled",
                )
                .help("make loops shorter, or use `scan`, which is one loop at run time"),
            );
            return false;
        }
        self.fuel -= 1;
        true
    }

    /// Takes as many steps as there are elements to walk through or to copy.
    fn spend(&mut self, elements: usize, at: Span) -> bool {
        self.fuel = self
            .fuel
            .saturating_sub(elements as u64 - elements.min(8) as u64);
        self.step(at)
    }
}
