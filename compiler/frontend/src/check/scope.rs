//! Scopes: call frames, and the bindings of names in them.

use std::collections::HashMap;

use trainspec_ir::{DType, FileId, Span};

use crate::ast::Name;
use crate::check::Checker;
use crate::check::value::Value;
use crate::diag::{Code, Diagnostic};
use crate::typed::VarId;

/// The kind of item a frame belongs to, which decides the statements that are allowed in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Const,
    Data,
    Model,
    Fn,
    Block,
    Schedule,
    Init,
    Optimizer,
    Train,
}

impl FrameKind {
    /// `a model`, `an optimizer`.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            FrameKind::Const => "a constant",
            FrameKind::Data => "a data set",
            FrameKind::Model => "the model",
            FrameKind::Fn => "a `fn`",
            FrameKind::Block => "a `block`",
            FrameKind::Schedule => "a `schedule`",
            FrameKind::Init => "an `init`",
            FrameKind::Optimizer => "an `optimizer`",
            FrameKind::Train => "`train`",
        }
    }
}

/// The names of one expansion.
#[derive(Debug)]
pub(crate) struct Frame {
    pub kind: FrameKind,
    /// Innermost last.
    pub scopes: Vec<HashMap<String, Binding>>,
    /// The variable scope, without a slash at the end.
    pub path: String,
    /// The values collected by `yield` in the innermost loop.
    pub yields: Option<Yields>,
    /// The dtype that a number takes when it is bound to a parameter that is not `const`; `None` leaves it a number.
    pub arithmetic: Option<DType>,
}

/// The values that the iterations of a loop yield.
#[derive(Debug, Default)]
pub(crate) struct Yields {
    /// Whether they are those of a `scan`, which are tensors.
    pub of_scan: bool,
    /// The number of values this iteration has yielded.
    pub position: usize,
    /// One list for each `yield`, with a value of each iteration.
    pub lists: Vec<Vec<Value>>,
}

/// The binding of a name.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    pub value: Value,
    pub span: Span,
    /// Whether and how `<-` writes it.
    pub target: Target,
    /// The value at the start of the step, for `old`.
    pub old: Option<Value>,
}

/// Whether a name can be written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    /// No; with what it is.
    Fixed(&'static str),
    /// A variable that keeps state.
    State(VarId),
    /// The parameter or a slot of an optimizer.
    Slot,
}

impl Frame {
    pub(crate) fn new(kind: FrameKind, path: String) -> Frame {
        Frame {
            kind,
            scopes: vec![HashMap::new()],
            path,
            yields: None,
            arithmetic: None,
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Binding> {
        self.scopes.iter().rev().find_map(|s| s.get(name))
    }

    pub(crate) fn find_mut(&mut self, name: &str) -> Option<&mut Binding> {
        self.scopes.iter_mut().rev().find_map(|s| s.get_mut(name))
    }
}

impl Checker<'_> {
    pub(crate) fn frame(&self) -> &Frame {
        self.frames.last().expect("something is being checked")
    }

    pub(crate) fn frame_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("something is being checked")
    }

    /// Binds a name in the innermost scope; a `let` may shadow an older one.
    pub(crate) fn bind(&mut self, name: &Name, value: Value, what: &'static str) {
        self.bind_with(name, value, Target::Fixed(what));
        if what == "let" && !self.is_library_file(name.span.file) {
            self.declared.insert(name.span, ("let", name.text.clone()));
        }
    }

    pub(crate) fn bind_with(&mut self, name: &Name, value: Value, target: Target) {
        let binding = Binding {
            value: value.clone(),
            span: name.span,
            old: (!matches!(target, Target::Fixed(_))).then_some(value),
            target,
        };
        let scope = self
            .frame_mut()
            .scopes
            .last_mut()
            .expect("a frame has a scope");
        scope.insert(name.text.clone(), binding);
    }

    /// Binds a name that the user did not write here, such as `param` in an optimizer.
    pub(crate) fn bind_implicit(&mut self, name: &str, span: Span, value: Value, target: Target) {
        let name = Name {
            text: name.to_owned(),
            span,
        };
        self.bind_with(&name, value, target);
    }

    /// Rejects a second variable, layer or parameter of one name in one scope.
    pub(crate) fn reject_duplicate(&mut self, name: &Name, what: &str) {
        let scope = self.frame().scopes.last().expect("a frame has a scope");
        if let Some(older) = scope.get(&name.text) {
            let older_span = older.span;
            self.report(
                Diagnostic::new(
                    Code::DuplicateName,
                    name.span,
                    format!("the {what} `{}` is declared twice", name.text),
                )
                .note_at(older_span, "declared here first"),
            );
        }
    }

    pub(crate) fn is_library_file(&self, file: FileId) -> bool {
        self.sources.get(file).library
    }

    /// Runs with a scope of its own for names.
    pub(crate) fn scoped<R>(&mut self, run: impl FnOnce(&mut Self) -> R) -> R {
        self.frame_mut().scopes.push(HashMap::new());
        let result = run(self);
        self.frame_mut().scopes.pop();
        result
    }

    /// Runs in a frame of its own.
    pub(crate) fn framed<R>(&mut self, frame: Frame, run: impl FnOnce(&mut Self) -> R) -> R {
        self.frames.push(frame);
        let result = run(self);
        self.frames.pop();
        result
    }
}
