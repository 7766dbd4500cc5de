//! Variables: their names and scopes, their initializers, layers and their blocks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use trainspec_ir::{Size, Span, TensorType};

use crate::ast::{self, DefinitionKind, Expr, ExprKind, Name, PostfixKind, VariableKind};
use crate::check::call::assign;
use crate::check::items::plain;
use crate::check::scope::{FrameKind, Target};
use crate::check::types::{self, Bounds};
use crate::check::value::{ArgValue, Callable, Def, InitValue, Value};
use crate::check::{Checker, MAX_EXPANSION_DEPTH, statements};
use crate::diag::{Code, Diagnostic, nearest, one_of};
use crate::typed::{self, NodeKind, Role, ValueId, VarId};

/// The store: the state that a model or an update accumulates besides its program.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub variables: Vec<typed::Variable>,
    by_name: HashMap<String, VarId>,
    /// Names taken in each scope.
    children: BTreeMap<String, ScopeNames>,
    /// The number of random operations in each scope.
    sites: BTreeMap<String, usize>,
    /// Values of the model that are ids of words: the input whose vocabulary they are of, and the span of `words_of`.
    pub word_ids: BTreeMap<ValueId, (String, Span)>,
    instances: Vec<Instance>,
    /// The members of a scope, for `head.kernel`.
    members: HashMap<String, BTreeMap<String, Member>>,
    pub mode: typed::Mode,
    /// Whether a loss, metric or output has an error.
    pub broken_results: bool,
    /// The types of the values of `Train::rates`, the program of schedules and of scalars in settings.
    pub rates: Vec<TensorType>,
    /// The update being expanded, where there is one.
    pub update: Update,
}

/// The names taken in a scope.
#[derive(Debug, Default)]
struct ScopeNames {
    names: HashSet<String>,
    /// The next suffix of a name.
    next: HashMap<String, usize>,
}

/// The result of inlining an optimizer for one variable.
#[derive(Debug, Default)]
pub(crate) struct Update {
    /// The optimizer and its arguments; `None` for a definition that is checked on its own.
    pub optimizer: Option<(Arc<Def>, Vec<ArgValue>, Span)>,
    /// The name of the variable.
    pub variable: String,
    /// The name of the optimizer, where the setting gives it one.
    pub name: Option<String>,
    /// The type of `param`.
    pub param: Option<TensorType>,
    pub slots: Vec<typed::Slot>,
    pub scalars: Vec<typed::Scalar>,
    pub writes: Vec<(String, ValueId)>,
}

/// A `layer`: a block with its arguments, called later, perhaps more than once.
#[derive(Debug)]
struct Instance {
    def: Arc<Def>,
    given: Vec<ArgValue>,
    path: String,
    name: Name,
    called: bool,
}

/// What a name in a scope means.
#[derive(Debug, Clone, Copy)]
enum Member {
    Variable(VarId),
    Layer(usize),
}

impl Store {
    /// Resets what belongs to one pass over the model; variables stay.
    pub(crate) fn start_mode(&mut self) {
        self.children.clear();
        self.sites.clear();
        self.instances.clear();
        self.members.clear();
        self.word_ids.clear();
        self.mode = typed::Mode::default();
    }

    /// Numbers the random operations of a scope from the beginning.
    pub(crate) fn restart_sites(&mut self, path: &str) {
        self.sites.remove(path);
    }

    /// Makes a name unique in its scope, and reserves it.
    fn unique(&mut self, parent: &str, base: &str) -> String {
        let scope = self.children.entry(parent.to_owned()).or_default();
        if scope.names.insert(base.to_owned()) {
            return base.to_owned();
        }
        // The suffix goes on from the last one, so that many layers of one kind take linear time.
        let next = scope.next.entry(base.to_owned()).or_insert(1);
        loop {
            let name = format!("{base}_{next}");
            *next += 1;
            if scope.names.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Resets the names inside a scope, so that a second call of a layer gives equal ones.
    fn reopen(&mut self, path: &str) {
        let inside = format!("{path}/");
        self.children
            .retain(|p, _| p != path && !p.starts_with(&inside));
    }
}

/// `a/b`, or `b` at the root.
fn join(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        parent => format!("{parent}/{name}"),
    }
}

impl Checker<'_> {
    /// The site of a random operation: its scope and its number there.
    pub(crate) fn random_site(&mut self, op: &str) -> String {
        let path = self.frame().path.clone();
        let count = self.store.sites.entry(path.clone()).or_insert(0);
        let site = match *count {
            0 => join(&path, op),
            n => format!("{}_{n}", join(&path, op)),
        };
        *count += 1;
        site
    }

    /// `param`, `state` and `slot`.
    pub(crate) fn variable(&mut self, variable: &ast::Variable, span: Span) {
        let word = variable.kind.word();
        let (kinds, help): (&[FrameKind], &str) = match variable.kind {
            VariableKind::Slot => (
                &[FrameKind::Optimizer],
                "slots belong to optimizers; a block keeps `state`",
            ),
            _ => (
                &[FrameKind::Block, FrameKind::Model],
                "variables belong to blocks and models; a `fn` has none",
            ),
        };
        if !self.only_in(kinds, word, span, help) {
            self.bind_with(&variable.name, Value::Poison, Target::Fixed("variable"));
            return;
        }
        if self.scan_depth > 0 && self.frame().kind == FrameKind::Optimizer {
            self.report(Diagnostic::new(
                Code::MisplacedStatement,
                statements::head(span, word),
                "a slot cannot be declared inside a loop at run time",
            ));
        }
        self.reject_duplicate(&variable.name, word);
        match variable.kind {
            VariableKind::Slot => self.slot(variable),
            VariableKind::Param => self.model_variable(variable, Role::Param),
            VariableKind::State => self.model_variable(variable, Role::State),
        }
    }

    /// Declares a parameter or state variable, and binds its name to a read of it.
    fn model_variable(&mut self, variable: &ast::Variable, role: Role) {
        let value = self.declare(variable, role);
        let (value, target) = match value {
            Some((id, ty)) => {
                let read = self.emit_one(NodeKind::Read(id), ty, variable.name.span);
                let target = match role {
                    Role::Param => Target::Fixed("trained parameter"),
                    Role::State => Target::State(id),
                };
                (read, target)
            }
            None => (Value::Poison, Target::Fixed("variable")),
        };
        self.bind_with(&variable.name, value, target);
    }

    /// The variable of a declaration: a new one, or that of an earlier call of the same layer. `None` after an error.
    fn declare(&mut self, variable: &ast::Variable, role: Role) -> Option<(VarId, TensorType)> {
        let word = variable.kind.word();
        let Some(ty) = &variable.ty else {
            self.report(
                Diagnostic::new(
                    Code::Syntax,
                    variable.name.span,
                    format!("a `{word}` needs a type"),
                )
                .help(format!(
                    "write `{word} {}: f32[...] = ...;`",
                    variable.name.text
                )),
            );
            return None;
        };
        let declared = self.declared_type(ty, &Bounds::new(), false)?;
        self.known_shape(&declared, &variable.name.text, ty.span)?;
        if role == Role::Param && !declared.dtype.is_float() {
            self.report(
                Diagnostic::new(
                    Code::DtypeMismatch,
                    ty.span,
                    "a `param` is trained, so its elements must be floating-point",
                )
                .label(format!("this is `{declared}`"))
                .help("what is not trained is `state`"),
            );
            return None;
        }
        if let Some(called) = &variable.called {
            let message = format!(
                "`called` is for slots, and this is a `{}`",
                variable.kind.word()
            );
            let help = "the name that checkpoints know is said by `as`";
            self.report(Diagnostic::new(Code::Syntax, called.span, message).help(help));
            return None;
        }
        let path = self.frame().path.clone();
        let own = variable
            .alias
            .as_ref()
            .map_or(variable.name.text.as_str(), |a| a.value.as_str());
        let name = join(&path, own);
        let init = self.eval(&variable.init);
        if let Some(id) = self.store.by_name.get(&name).copied() {
            let older = &self.store.variables[id.0 as usize];
            if older.span != variable.name.span || older.ty != declared {
                let (older_span, older_ty) = (older.span, older.ty.clone());
                let is_same_declaration = older_span == variable.name.span;
                let mut error = Diagnostic::new(
                    Code::VariableConflict,
                    variable.name.span,
                    format!("the variable `{name}` exists already"),
                )
                .label(format!("here it is `{declared}`"));
                error = match is_same_declaration {
                    true => error
                        .note(format!("an earlier call of this layer made it `{older_ty}`"))
                        .help("a layer that is called twice must get inputs of the same size; make a second layer"),
                    false => error.note_at(older_span, format!("declared here as `{older_ty}`")),
                };
                self.report(error);
                return None;
            }
            self.add_member(&path, &variable.name.text, Member::Variable(id));
            return Some((id, declared));
        }
        let init = self.initializer(init, &declared, &name, variable.init.span)?;
        let id = VarId(self.store.variables.len() as u32);
        self.store.by_name.insert(name.clone(), id);
        self.store.variables.push(typed::Variable {
            name,
            role,
            ty: declared.clone(),
            init,
            span: variable.name.span,
        });
        self.add_member(&path, &variable.name.text, Member::Variable(id));
        Some((id, declared))
    }

    fn add_member(&mut self, path: &str, name: &str, member: Member) {
        let members = self.store.members.entry(path.to_owned()).or_default();
        members.insert(name.to_owned(), member);
    }

    /// Rejects a variable with a symbolic shape.
    fn known_shape(&mut self, ty: &TensorType, name: &str, span: Span) -> Option<()> {
        let unknown = ty
            .shape
            .0
            .iter()
            .find(|d| d.size.value().is_none() || d.count.is_some());
        match unknown {
            Some(dim) if !self.generic => {
                let names = dim.size.names();
                let which = names
                    .first()
                    .map_or_else(|| dim.to_string(), |n| n.to_string());
                self.report(
                    Diagnostic::new(
                        Code::UnknownSize,
                        span,
                        format!("the shape of the variable `{name}` must be known, but `{dim}` is not known until run time"),
                    )
                    .label(format!("this is `{ty}`"))
                    .help(format!("give `{which}` a number in the inputs of the model")),
                );
                None
            }
            _ => Some(()),
        }
    }

    /// The program of a variable's initial value.
    pub(crate) fn initializer(
        &mut self,
        value: Value,
        ty: &TensorType,
        name: &str,
        span: Span,
    ) -> Option<typed::Init> {
        let (title, source) = match &value {
            Value::Poison => return None,
            Value::Int(_) | Value::Float(_) => (plain(&value), Rc::new(InitValue::Fill(value))),
            Value::Init(init) => (init_title(init), init.clone()),
            Value::Callable(Callable::Def(def)) if def.ast.kind == DefinitionKind::Init => (
                def.name().to_owned(),
                Rc::new(InitValue::of(def.clone(), Vec::new())),
            ),
            other => {
                let help = "an initializer is a number or an `init` such as `zeros()` or `glorot_uniform()`";
                let message = format!("{} cannot begin a variable", other.describe());
                self.report(Diagnostic::new(Code::TypeMismatch, span, message).help(help));
                return None;
            }
        };
        if self.generic {
            // Sizes are symbolic here, so there is nothing to fill.
            return Some(typed::Init {
                name: title,
                program: typed::Program::default(),
                value: ValueId(0),
            });
        }
        let (result, program) = self.in_program(|c| {
            let mut value = Value::Init(source);
            // An initializer may evaluate to another one, up to a limit.
            let mut depth = 0;
            while let Value::Init(init) = value {
                depth += 1;
                value = match &*init {
                    InitValue::Fill(number) => number.clone(),
                    InitValue::Def(def, ..) if depth > MAX_EXPANSION_DEPTH => {
                        let message = format!(
                            "`{}` is made of another initializer, and so on without end",
                            def.name()
                        );
                        c.fail(Diagnostic::new(Code::Recursion, span, message))
                    }
                    InitValue::Def(def, given, _) => c.run_init(def, given.clone(), ty, name, span),
                };
            }
            c.filled(value, ty, span)
        });
        Some(typed::Init {
            name: title,
            program,
            value: result?,
        })
    }

    /// Expands an `init` definition, which sees `shape`, `fan_in`, `fan_out` and `T`.
    fn run_init(
        &mut self,
        def: &Arc<Def>,
        given: Vec<ArgValue>,
        ty: &TensorType,
        name: &str,
        span: Span,
    ) -> Value {
        let sizes: Vec<Size> = ty.shape.0.iter().map(|d| d.size.clone()).collect();
        let Some((fan_in, fan_out)) = fans(&sizes) else {
            return self.size_overflow(span);
        };
        let dtype = ty.dtype;
        let name_span = def.ast.name.span;
        let path = join(name, "init");
        self.expand_with(def, FrameKind::Init, given, span, Some(path), |c| {
            let implicit = Target::Fixed("part of every initializer");
            c.bind_implicit(
                "shape",
                name_span,
                Self::sizes_value(&sizes),
                implicit.clone(),
            );
            c.bind_implicit("fan_in", name_span, Value::Int(fan_in), implicit.clone());
            c.bind_implicit("fan_out", name_span, Value::Int(fan_out), implicit.clone());
            c.bind_implicit("T", name_span, Value::DType(dtype), implicit);
        })
    }

    /// The initial value as a tensor of the type of the variable: a scalar is broadcast, any other type is an error.
    fn filled(&mut self, value: Value, ty: &TensorType, span: Span) -> Option<ValueId> {
        let tensor = self.as_tensor(&value, ty.dtype, span)?;
        if *tensor.ty == *ty {
            return Some(tensor.id);
        }
        if tensor.ty.rank() == 0 && tensor.ty.dtype == ty.dtype {
            let op = trainspec_ir::ops::find("fill")?;
            let sizes: Vec<Size> = ty.shape.0.iter().map(|d| d.size.clone()).collect();
            let given = [Self::sizes_value(&sizes), Value::Tensor(tensor)].map(|value| ArgValue {
                name: None,
                value,
                span,
            });
            return match self.apply_op(op, given.to_vec(), span) {
                Value::Tensor(t) => Some(t.id),
                _ => None,
            };
        }
        let code = match tensor.ty.dtype == ty.dtype {
            true => Code::ShapeMismatch,
            false => Code::DtypeMismatch,
        };
        self.report(
            Diagnostic::new(
                code,
                span,
                "the initializer makes another type than the variable has",
            )
            .label(format!("`{}` for a variable of `{ty}`", tensor.ty)),
        );
        None
    }

    // ---- Blocks and layers ----

    /// A call without a name makes its own instance.
    pub(crate) fn call_block(&mut self, def: &Arc<Def>, given: Vec<ArgValue>, span: Span) -> Value {
        if !self.blocks_allowed(def, span) {
            return Value::Poison;
        }
        let base = def
            .ast
            .alias
            .as_ref()
            .map_or(def.name(), |a| a.value.as_str())
            .to_owned();
        let parent = self.frame().path.clone();
        let name = self.store.unique(&parent, &base);
        self.expand(
            def,
            FrameKind::Block,
            given,
            span,
            Some(join(&parent, &name)),
        )
    }

    /// Whether a block may be called here; reports it where not.
    fn blocks_allowed(&mut self, def: &Arc<Def>, span: Span) -> bool {
        let outside = self
            .frames
            .iter()
            .map(|f| f.kind)
            .find(|k| !matches!(k, FrameKind::Model | FrameKind::Block | FrameKind::Fn));
        match outside {
            None => true,
            Some(kind) => {
                let message = format!(
                    "the block `{}` has variables, and {} cannot",
                    def.name(),
                    kind.describe()
                );
                self.report(
                    Diagnostic::new(Code::MisplacedStatement, span, message)
                        .help("call blocks in the model or in other blocks"),
                );
                false
            }
        }
    }

    /// `layer NAME = block(...);`
    pub(crate) fn layer(&mut self, name: &Name, value: &Expr) {
        let is_allowed = self.only_in(
            &[FrameKind::Model, FrameKind::Block],
            "layer",
            value.span,
            "layers belong to models and blocks",
        );
        if !is_allowed {
            return;
        }
        let is_duplicate = self.frame().find(&name.text).is_some();
        self.reject_duplicate(name, "layer");
        let (callee, given) = match &value.kind {
            ExprKind::Postfix(base, ops) => match ops.split_last() {
                Some((last, [])) => match &last.kind {
                    PostfixKind::Call(arguments) => (self.eval(base), self.arguments(arguments)),
                    _ => (self.eval(value), Vec::new()),
                },
                _ => (self.eval(value), Vec::new()),
            },
            _ => (self.eval(value), Vec::new()),
        };
        let def = match callee {
            Value::Callable(Callable::Def(def)) if def.ast.kind == DefinitionKind::Block => def,
            Value::Poison => {
                self.bind_with(name, Value::Poison, Target::Fixed("layer"));
                return;
            }
            other => {
                let message = format!(
                    "a layer is made of a block, and this is {}",
                    other.describe()
                );
                self.report(
                    Diagnostic::new(Code::TypeMismatch, value.span, message)
                        .help("write `layer head = dense(10);`; for a value use `let`"),
                );
                self.bind_with(name, Value::Poison, Target::Fixed("layer"));
                return;
            }
        };
        let parent = self.frame().path.clone();
        let scope = self.store.unique(&parent, &name.text);
        if scope != name.text && !is_duplicate {
            self.report(
                Diagnostic::new(
                    Code::VariableConflict,
                    name.span,
                    format!(
                        "the scope `{}` is taken by an earlier layer",
                        join(&parent, &name.text)
                    ),
                )
                .help("choose another name for the layer"),
            );
        }
        let index = self.store.instances.len();
        self.store.instances.push(Instance {
            def,
            given,
            path: join(&parent, &scope),
            name: name.clone(),
            called: false,
        });
        self.add_member(&parent, &name.text, Member::Layer(index));
        let layer = Value::Callable(Callable::Instance(index));
        self.bind_with(name, layer, Target::Fixed("layer"));
        if !self.is_library_file(name.span.file) {
            self.declared
                .insert(name.span, ("layer", name.text.clone()));
        }
    }

    /// Calls a layer: its tensors come from here, the rest from its declaration.
    pub(crate) fn call_instance(
        &mut self,
        index: usize,
        given: Vec<ArgValue>,
        span: Span,
    ) -> Value {
        let instance = &mut self.store.instances[index];
        let first_call = !instance.called;
        instance.called = true;
        let (def, path) = (instance.def.clone(), instance.path.clone());
        let (declared, layer) = (instance.given.clone(), instance.name.text.clone());
        let bounds = types::bounds_of(self, &def.ast.bounds);
        let is_tensor = |p: &&ast::Param| {
            p.ty.as_ref()
                .is_some_and(|t| types::is_tensor_type(t, &bounds))
        };
        let tensors: Vec<&str> = def
            .ast
            .params
            .iter()
            .filter(is_tensor)
            .map(|p| p.name.text.as_str())
            .collect();
        let others: Vec<&str> = def
            .ast
            .params
            .iter()
            .filter(|p| !is_tensor(p))
            .map(|p| p.name.text.as_str())
            .collect();
        // Arguments of the call may be named, and the declaration may name tensors.
        let call_order: Vec<&str> = tensors.iter().chain(&others).copied().collect();
        let declaration_order: Vec<&str> = others.iter().chain(&tensors).copied().collect();
        let positional = given.iter().filter(|g| g.name.is_none()).count();
        if positional > tensors.len() {
            let message = format!(
                "the layer `{layer}` takes {} here",
                match tensors.len() {
                    1 => "1 tensor".to_owned(),
                    n => format!("{n} tensors"),
                }
            );
            return self.fail(
                Diagnostic::new(Code::TooManyArguments, span, message)
                    .help("everything but its tensors is given where the layer is declared"),
            );
        }
        let (Some(a), Some(b)) = (
            assign(self, &layer, &call_order, &given, span),
            assign(self, def.name(), &declaration_order, &declared, span),
        ) else {
            return Value::Poison;
        };
        let mut all = Vec::new();
        for (names, slots, list) in [(&declaration_order, b, &declared), (&call_order, a, &given)] {
            for (name, slot) in names.iter().zip(slots) {
                if let Some(i) = slot {
                    all.push(ArgValue {
                        name: Some(Name {
                            text: (*name).to_owned(),
                            span: list[i].span,
                        }),
                        ..list[i].clone()
                    });
                }
            }
        }
        if !first_call {
            self.store.reopen(&path);
        }
        self.expand(&def, FrameKind::Block, all, span, Some(path))
    }

    /// A variable or layer of a layer that was called: `head.kernel`.
    pub(crate) fn instance_member(&mut self, index: usize, member: &Name) -> Value {
        let instance = &self.store.instances[index];
        if !instance.called {
            let name = instance.name.clone();
            return self.fail(
                Diagnostic::new(
                    Code::NotCalled,
                    member.span,
                    format!(
                        "the layer `{}` was not called yet, so its variables have no shape",
                        name.text
                    ),
                )
                .note_at(name.span, "declared here")
                .help(format!(
                    "use `{}.{}` after the call `{}(...)`",
                    name.text, member.text, name.text
                )),
            );
        }
        let path = instance.path.clone();
        let layer = instance.name.text.clone();
        let members = self.store.members.get(&path).cloned().unwrap_or_default();
        match members.get(&member.text) {
            Some(Member::Layer(index)) => Value::Callable(Callable::Instance(*index)),
            Some(Member::Variable(id)) => {
                let ty = self.store.variables[id.0 as usize].ty.clone();
                self.emit_one(NodeKind::Read(*id), ty, member.span)
            }
            None => {
                let help = match nearest(&member.text, members.keys().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if members.is_empty() => "it has no variables".to_owned(),
                    None => format!(
                        "it has {}",
                        one_of(members.keys().map(String::as_str)).replace(" or ", " and ")
                    ),
                };
                let message = format!("the layer `{layer}` has no variable `{}`", member.text);
                self.fail(Diagnostic::new(Code::UnknownMember, member.span, message).help(help))
            }
        }
    }
}

/// Fan-in and fan-out of a kernel of shape `[field.., inputs, outputs]`, as TensorFlow counts them: the size of the receptive field
/// times inputs and outputs. `None` on overflow.
fn fans(sizes: &[Size]) -> Option<(Size, Size)> {
    match sizes {
        [] => Some((Size::fixed(1), Size::fixed(1))),
        [n] => Some((n.clone(), n.clone())),
        [field @ .., inputs, outputs] => {
            let mut area = Size::fixed(1);
            for n in field {
                area = area.mul(n)?;
            }
            Some((area.mul(inputs)?, area.mul(outputs)?))
        }
    }
}

/// An initializer as the typed spec names it: `constant(value: 2)`.
fn init_title(init: &InitValue) -> String {
    match init {
        InitValue::Fill(number) => plain(number),
        InitValue::Def(def, given, _) => {
            let arguments: Vec<String> = given
                .iter()
                .map(|g| match &g.name {
                    Some(name) => format!("{}: {}", name.text, plain(&g.value)),
                    None => plain(&g.value),
                })
                .collect();
            match arguments.as_slice() {
                [] => def.name().to_owned(),
                list => format!("{}({})", def.name(), list.join(", ")),
            }
        }
    }
}
