//! Type checker and inliner: AST to typed spec.
//!
//! In: the root text, a loader for `use`, overrides of constants. Out: the typed spec where there are no errors, and all
//! diagnostics.
//!
//! The checker is an abstract interpreter: it runs the spec on types instead of numbers. Every call of a definition is
//! inlined, so that shapes flow through it (shape inference), blocks find the sizes of their variables, and an error inside
//! can be reported at the call. The work is bounded: by the depth of inlining, the length of unrolled loops and the number
//! of evaluated expressions (fuel).

mod averages;
mod bound;
mod buckets;
mod builtins;
mod call;
mod checkpoint;
mod clips;
mod columns;
mod control;
mod data;
mod derived;
mod early_stop;
mod errors;
mod eval;
mod evals;
mod features;
mod fold;
mod glob;
mod groups;
mod hooks;
mod index;
mod items;
mod joined;
mod known;
mod library;
mod mention;
mod misplaced;
mod model;
mod operators;
mod ops;
mod optimizers;
mod scope;
mod settings;
mod source_features;
mod sources;
mod stages;
mod standalone;
mod state;
mod statements;
mod train;
mod types;
mod value;
mod variables;
mod warm_start;

pub use standalone::optimizer;

pub use glob::matches;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use trainspec_ir::{FileId, Span};

use crate::diag::{Code, Diagnostic};
use crate::source::{Loader, Sources};
use crate::{lower, typed};

use columns::Lifting;
pub(crate) use errors::code_of;
use items::Items;
use known::KnownScalar;
use scope::Frame;
use value::Tensor;
use variables::Store;

/// Options of a check.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--set NAME=VALUE`: values of constants.
    pub overrides: Vec<(String, String)>,
}

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// The typed spec, where there are no errors.
    pub spec: Option<typed::Spec>,
    /// What could be checked of a spec that has errors, for editors and macros: it is not to be run.
    pub partial: Option<typed::Spec>,
    /// Errors and warnings, in source order.
    pub diagnostics: Vec<Diagnostic>,
}

/// The number of expressions that may be evaluated in one check.
const FUEL: u64 = 5_000_000;
/// The number of nodes a spec may expand to.
const MAX_NODES: u64 = 1_000_000;
/// The number of errors, and of warnings, that are reported at most.
pub const MAX_REPORTED: usize = 100;
/// The depth to which inlined calls and expressions may nest together.
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
    let mut checker = Checker::new(sources);
    let spec = checker.spec(root, loader, options);
    let mut diagnostics = checker.errors;
    if let Some(spec) = &spec
        && !diagnostics.iter().any(Diagnostic::is_error)
    {
        diagnostics.extend(lower::lazy_errors(spec).unwrap_or_else(|error| vec![error]));
    }
    diagnostics.sort_by_key(|d| (d.span.map(|s| (s.file, s.start, s.end)), d.code));
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    let (spec, partial) = match failed {
        true => (None, spec),
        false => (spec, None),
    };
    Checked {
        spec,
        partial,
        diagnostics,
    }
}

/// The state of a check.
pub(crate) struct Checker<'a> {
    sources: &'a mut Sources,
    errors: Vec<Diagnostic>,
    seen: HashSet<(Code, Option<Span>, String)>,
    items: Items,
    /// The call frames; names are looked up in the innermost one.
    frames: Vec<Frame>,
    /// The calls being inlined (the call stack).
    calls: Vec<CallSite>,
    /// The program being built.
    program: typed::Program,
    store: Store,
    /// The mode.
    training: bool,
    /// Whether `<-` writes, or only gives a name a new value.
    writes: bool,
    /// Whether `step` counts the update that is being made.
    step_after: bool,
    /// Whether a definition is checked on its own, with symbolic sizes.
    generic: bool,
    scan_depth: usize,
    fuel: u64,
    nodes: u64,
    depth: usize,
    exhausted: bool,
    /// Whether the definition being inlined has reached a `fail`; errors in the rest of it are suppressed.
    gave_up: bool,
    /// Whether a file could not be read; it may declare the names that others lack.
    names_hidden: bool,
    /// Declarations that give a warning if they are never used: span, kind, name.
    declared: BTreeMap<Span, (&'static str, String)>,
    used: HashSet<Span>,
    /// The definitions that were inlined at least once, by the span of their name.
    expanded: BTreeSet<Span>,
    /// Data sets that take their records from one another.
    circular_data: BTreeSet<String>,
    counts: u64,
    /// The run-time counts of the program, by the operation and operands that determine them.
    counted: BTreeMap<String, String>,
    /// Values of the program that are narrowing conversions of other values.
    shortened: BTreeMap<typed::ValueId, Tensor>,
    /// Inputs of the program with declared bounds, `in low..high`.
    ranges: BTreeMap<typed::ValueId, (i64, i64)>,
    /// The operations on columns of the expression over features that is being checked.
    lifting: Option<Lifting>,
    /// Scalars of the program whose numbers are known: arguments of an optimizer, and what is computed from them alone.
    known: BTreeMap<typed::ValueId, KnownScalar>,
}

/// A call that is being inlined.
#[derive(Debug, Clone)]
pub(crate) struct CallSite {
    pub span: Span,
    pub def: Arc<value::Def>,
    /// Of each parameter that has one, the span of its argument.
    pub arguments: Vec<Option<Span>>,
}

impl CallSite {
    /// The call of a definition whose parameters have the arguments at `slots`.
    pub(crate) fn new(
        span: Span,
        def: &Arc<value::Def>,
        slots: &[Option<usize>],
        given: &[value::ArgValue],
    ) -> CallSite {
        let arguments = slots.iter().map(|slot| slot.map(|i| given[i].span));
        CallSite {
            span,
            def: def.clone(),
            arguments: arguments.collect(),
        }
    }

    /// The span of the argument of a parameter.
    fn argument(&self, param: &str) -> Option<Span> {
        let index = self
            .def
            .ast
            .params
            .iter()
            .position(|p| p.name.text == param)?;
        *self.arguments.get(index)?
    }
}

impl<'a> Checker<'a> {
    fn new(sources: &'a mut Sources) -> Checker<'a> {
        Checker {
            sources,
            errors: Vec::new(),
            seen: HashSet::new(),
            items: Items::default(),
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
            circular_data: BTreeSet::new(),
            counts: 0,
            counted: BTreeMap::new(),
            shortened: BTreeMap::new(),
            ranges: BTreeMap::new(),
            lifting: None,
            known: BTreeMap::new(),
        }
    }
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
        self.reject_shared_state(train.as_ref());
        let evals = self.evals(model.as_ref(), train.as_ref(), &data);
        let (hooks, hooks_off) = self.hooks(model.as_ref(), train.as_ref(), &evals);
        let warm_start = self.warm_start(train.as_ref());
        if let Some(train) = &train {
            self.warn_endless(train, &data, &hooks);
        }
        self.check_unexpanded();
        self.warn_unused();
        Some(typed::Spec {
            name: header.0,
            edition: header.1,
            text: self.sources.get(root).text.clone(),
            constants: self.printed_constants(),
            data,
            model,
            variables: std::mem::take(&mut self.store.variables),
            train,
            warm_start,
            evals,
            hooks,
            hooks_off,
        })
    }

    /// Runs `build` with an empty program; gives its result and the program it built.
    fn in_program<R>(&mut self, build: impl FnOnce(&mut Self) -> R) -> (R, typed::Program) {
        let outer = std::mem::take(&mut self.program);
        let counted = std::mem::take(&mut self.counted);
        let shortened = std::mem::take(&mut self.shortened);
        let ranges = std::mem::take(&mut self.ranges);
        let known = std::mem::take(&mut self.known);
        let result = build(self);
        self.counted = counted;
        self.shortened = shortened;
        self.ranges = ranges;
        self.known = known;
        let program = std::mem::replace(&mut self.program, outer);
        (result, program)
    }

    /// Warns of unused declarations.
    fn warn_unused(&mut self) {
        if self.has_errors() {
            // Code that was skipped because of an error may use it.
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

    /// Consumes one unit of fuel; false where the spec has become too large to go on.
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

    /// Consumes fuel for the elements to be visited or copied.
    fn spend(&mut self, elements: usize, at: Span) -> bool {
        self.fuel = self
            .fuel
            .saturating_sub(elements as u64 - elements.min(8) as u64);
        self.step(at)
    }
}
