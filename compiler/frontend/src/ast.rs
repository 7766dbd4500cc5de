//! The abstract syntax tree (AST): the source text as a tree, with a span on every node and no meaning.

pub use trainspec_ir::Span;

/// A file.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// The `//!` lines at the top.
    pub docs: Vec<Doc>,
    /// `spec NAME, edition N;`
    pub header: Option<Header>,
    /// Everything below it, in order.
    pub items: Vec<Item>,
}

/// One line of documentation, without its slashes.
#[derive(Debug, Clone, PartialEq)]
pub struct Doc {
    /// The text after `///` or `//!`, as written.
    pub text: String,
    /// The comment, slashes included.
    pub span: Span,
}

/// `spec NAME, edition N;`
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The name of the spec.
    pub name: Name,
    /// The edition, where one is given.
    pub edition: Option<Number>,
    /// All of it.
    pub span: Span,
}

/// An identifier.
#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    /// The identifier.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A numeric literal as written; its type and value are decided by the checker.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    /// The digits, underscores included.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A string literal.
#[derive(Debug, Clone, PartialEq)]
pub struct StrLit {
    /// The characters it stands for.
    pub value: String,
    /// The literal with its quotes.
    pub span: Span,
}

/// A top-level item.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The `///` lines above.
    pub docs: Vec<Doc>,
    /// What it is.
    pub kind: ItemKind,
    /// All of it but the docs.
    pub span: Span,
}

/// The kinds of items.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemKind {
    /// `const NAME = value;`
    Const(Const),
    /// `use "file";`
    Use(StrLit),
    /// `warm_start (...);`
    WarmStart(Vec<Argument>),
    /// `model (...) { ... }`
    Model(Model),
    /// `data`, `train`, `eval`, `hooks`
    Section(Section),
    /// `block`, `fn`, `optimizer`, `schedule`, `init`
    Definition(Definition),
    /// Something that does not parse; the names are what it seems to declare.
    Bad(Vec<Name>),
}

/// `const NAME = value;`
#[derive(Debug, Clone, PartialEq)]
pub struct Const {
    /// The name.
    pub name: Name,
    /// The value.
    pub value: Expr,
}

/// `model (inputs) { ... }`
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The inputs, bound to features by name.
    pub params: Vec<Param>,
    /// The statements.
    pub body: Body,
}

/// Which list of settings a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // named after their keywords
pub enum SectionKind {
    Data,
    Train,
    Eval,
    Hooks,
}

impl SectionKind {
    /// The keyword.
    pub fn word(self) -> &'static str {
        match self {
            SectionKind::Data => "data",
            SectionKind::Train => "train",
            SectionKind::Eval => "eval",
            SectionKind::Hooks => "hooks",
        }
    }
}

/// `data NAME { ... }` and its kin.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Which.
    pub kind: SectionKind,
    /// The keyword.
    pub keyword: Span,
    /// The name, where it has one.
    pub name: Option<Name>,
    /// What stands between the braces.
    pub settings: Vec<Setting>,
}

/// One line of a section.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The `///` lines above.
    pub docs: Vec<Doc>,
    /// The leading word; empty for one that does not parse.
    pub word: Name,
    /// What follows it.
    pub value: SettingValue,
    /// `for "glob"`, `minimizing NAME`.
    pub clauses: Vec<Clause>,
    /// Nested settings in braces.
    pub body: Option<Vec<Setting>>,
    /// All of it but the docs.
    pub span: Span,
}

/// What follows a setting's word.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingValue {
    /// Nothing.
    None,
    /// `NAME: TYPE as "key" in bound = default`
    Declaration(Box<Declaration>),
    /// `NAME = value`, `(NAME, NAME) = value`
    Assignment(Pattern, Expr),
    /// `(name: value, ...)`
    Arguments(Vec<Argument>),
    /// A value.
    Value(Expr),
    /// Something that does not parse; the names are what it seems to declare.
    Bad(Vec<Name>),
}

/// `NAME: TYPE as "key" in bound = default`, `NAME: TYPE as ["a", "b"]`
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// The name.
    pub name: Name,
    /// The type.
    pub ty: Type,
    /// The name it has elsewhere.
    pub alias: Option<StrLit>,
    /// The columns it is made of.
    pub columns: Option<Vec<StrLit>>,
    /// The range of its values.
    pub bound: Option<Expr>,
    /// What it is where missing.
    pub default: Option<Expr>,
}

/// A clause at the end of a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Clause {
    /// `for "glob"`
    For(Expr),
    /// `minimizing NAME`
    Minimizing(Name),
}

/// The kinds of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // named after their keywords
pub enum DefinitionKind {
    Block,
    Fn,
    Optimizer,
    Schedule,
    Init,
}

impl DefinitionKind {
    /// The keyword.
    pub fn word(self) -> &'static str {
        match self {
            DefinitionKind::Block => "block",
            DefinitionKind::Fn => "fn",
            DefinitionKind::Optimizer => "optimizer",
            DefinitionKind::Schedule => "schedule",
            DefinitionKind::Init => "init",
        }
    }
}

/// `block NAME(params) as "x" where T: float { ... }` and its kin.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Which.
    pub kind: DefinitionKind,
    /// The name.
    pub name: Name,
    /// The parameters.
    pub params: Vec<Param>,
    /// The name that checkpoints know.
    pub alias: Option<StrLit>,
    /// Bounds of dtype variables.
    pub bounds: Vec<Bound>,
    /// `{ ... }` or `= value;`
    pub body: DefinitionBody,
}

/// The two forms of a definition's body.
#[derive(Debug, Clone, PartialEq)]
pub enum DefinitionBody {
    /// `{ ... }`
    Body(Body),
    /// `= value;`
    Value(Expr),
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// The `///` lines above.
    pub docs: Vec<Doc>,
    /// Whether it says `const`.
    pub is_const: bool,
    /// The name.
    pub name: Name,
    /// The type.
    pub ty: Option<Type>,
    /// The range of its values.
    pub bound: Option<Expr>,
    /// What it is where left out.
    pub default: Option<Expr>,
    /// All of it but the docs.
    pub span: Span,
}

/// `T: float`
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The dtype variable.
    pub name: Name,
    /// The class.
    pub class: Name,
}

/// `f32[batch, 3]`
#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// The dtype, the dtype variable, or a kind such as `int`.
    pub name: Name,
    /// The dimensions, where brackets stand.
    pub dims: Option<Vec<DimExpr>>,
    /// All of it.
    pub span: Span,
}

/// One dimension of a type.
#[derive(Debug, Clone, PartialEq)]
pub struct DimExpr {
    /// What it is.
    pub kind: DimKind,
    /// Where it stands.
    pub span: Span,
}

/// The forms of a dimension.
#[derive(Debug, Clone, PartialEq)]
pub enum DimKind {
    /// `..`
    Rest,
    /// `<=n`
    Capacity(Expr),
    /// A size.
    Size(Expr),
}

/// Statements in braces.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// The statements.
    pub statements: Vec<Statement>,
    /// The value at the end, without `;`.
    pub value: Option<Box<Expr>>,
    /// The braces and what is between them.
    pub span: Span,
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The `///` lines above.
    pub docs: Vec<Doc>,
    /// What it is.
    pub kind: StatementKind,
    /// All of it but the docs.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Debug, Clone, PartialEq)]
pub enum StatementKind {
    /// `let pattern: type = value;`
    Let {
        /// What is bound.
        pattern: Pattern,
        /// The type it must have.
        ty: Option<Type>,
        /// The value.
        value: Expr,
    },
    /// `param`, `state`, `slot`
    Variable(Variable),
    /// `scalar NAME = start then next;`
    Scalar {
        /// The name.
        name: Name,
        /// The name that checkpoints know.
        alias: Option<StrLit>,
        /// The first value.
        start: Expr,
        /// The value after a step.
        next: Expr,
    },
    /// `layer NAME = block(...);`
    Layer {
        /// The name.
        name: Name,
        /// The block and its arguments.
        value: Expr,
    },
    /// `loss value;`, `loss NAME = value;`
    Loss {
        /// The name, where it has one.
        name: Option<Name>,
        /// The value.
        value: Expr,
    },
    /// `metric NAME = value;`
    Metric {
        /// The name.
        name: Name,
        /// The value.
        value: Expr,
    },
    /// `output NAME = value;`
    Output {
        /// The name.
        name: Name,
        /// The value.
        value: Expr,
    },
    /// `yield value;`
    Yield(Expr),
    /// `NAME <- value;`
    Write {
        /// The state that is written.
        target: Name,
        /// Its new value.
        value: Expr,
    },
    /// An expression whose value is not used.
    Expr {
        /// The expression.
        value: Expr,
        /// Whether a `;` follows (an `if` or a loop needs none).
        semicolon: bool,
    },
    /// Something that does not parse; the names are what it seems to declare.
    Bad(Vec<Name>),
}

/// Which kind of variable a statement declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // named after their keywords
pub enum VariableKind {
    Param,
    State,
    Slot,
}

impl VariableKind {
    /// The keyword.
    pub fn word(self) -> &'static str {
        match self {
            VariableKind::Param => "param",
            VariableKind::State => "state",
            VariableKind::Slot => "slot",
        }
    }
}

/// `param NAME: type as "x" = init;`
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Which.
    pub kind: VariableKind,
    /// The name.
    pub name: Name,
    /// What `get_slot` calls a slot.
    pub called: Option<StrLit>,
    /// The type; a slot without one is like its parameter.
    pub ty: Option<Type>,
    /// The name that checkpoints know.
    pub alias: Option<StrLit>,
    /// The initializer.
    pub init: Expr,
}

/// What a `let` or a loop binds.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// A name.
    Name(Name),
    /// `_`
    Wildcard(Span),
    /// `(a, b)`
    Tuple(Vec<Pattern>, Span),
}

impl Pattern {
    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            Pattern::Name(name) => name.span,
            Pattern::Wildcard(span) | Pattern::Tuple(_, span) => *span,
        }
    }
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
}

/// The kinds of expressions. Chains of operators are flat lists, so that a long one does not nest.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// `1`, `1e-3`
    Number(Number),
    /// `500 steps`
    Quantity(Number, Unit),
    /// `"string"`
    Str(String),
    /// `true`, `false`
    Bool(bool),
    /// A name.
    Name(String),
    /// `(a)`
    Paren(Box<Expr>),
    /// `()`, `(a,)`, `(a, b)`
    Tuple(Vec<Expr>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `-a`, `!a`, outermost first
    Prefix(Vec<PrefixOp>, Box<Expr>),
    /// `a + b - c`: operators of one precedence, applied from the left
    Infix(Box<Expr>, Vec<(InfixOp, Expr)>),
    /// `a(...)[...].b`, applied from the left
    Postfix(Box<Expr>, Vec<Postfix>),
    /// `a..b`; the end may be missing in a subscript
    Range(Box<Expr>, Option<Box<Expr>>),
    /// `if a { } else if b { } else { }`
    If(Vec<(Expr, Body)>, Option<Body>),
    /// `for` and `scan`
    Loop(Box<Loop>),
}

/// The unit of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // named after their words
pub enum Unit {
    Steps,
    Epochs,
    Milliseconds,
    Seconds,
    Minutes,
    Hours,
    Days,
}

impl Unit {
    /// The unit a word names.
    pub fn from_word(word: &str) -> Option<Unit> {
        Some(match word {
            "step" | "steps" => Unit::Steps,
            "epoch" | "epochs" => Unit::Epochs,
            "ms" => Unit::Milliseconds,
            "s" => Unit::Seconds,
            "min" => Unit::Minutes,
            "h" => Unit::Hours,
            "d" => Unit::Days,
            _ => return None,
        })
    }

    /// The word in its usual form.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Steps => "steps",
            Unit::Epochs => "epochs",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
            Unit::Minutes => "min",
            Unit::Hours => "h",
            Unit::Days => "d",
        }
    }

    /// How many seconds one of it is, for units of time.
    pub fn seconds(self) -> Option<f64> {
        match self {
            Unit::Steps | Unit::Epochs => None,
            Unit::Milliseconds => Some(1e-3),
            Unit::Seconds => Some(1.0),
            Unit::Minutes => Some(60.0),
            Unit::Hours => Some(3600.0),
            Unit::Days => Some(86400.0),
        }
    }
}

/// An operator before its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixOp {
    /// `-`
    Negate,
    /// `!`
    Not,
}

impl PrefixOp {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            PrefixOp::Negate => "-",
            PrefixOp::Not => "!",
        }
    }
}

/// An operator between its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the symbol says it
pub enum InfixOp {
    Pipe,
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Matmul,
}

impl InfixOp {
    /// All of them.
    pub const ALL: [InfixOp; 15] = [
        InfixOp::Pipe,
        InfixOp::Or,
        InfixOp::And,
        InfixOp::Equal,
        InfixOp::NotEqual,
        InfixOp::Less,
        InfixOp::LessEqual,
        InfixOp::Greater,
        InfixOp::GreaterEqual,
        InfixOp::Add,
        InfixOp::Subtract,
        InfixOp::Multiply,
        InfixOp::Divide,
        InfixOp::Modulo,
        InfixOp::Matmul,
    ];

    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            InfixOp::Pipe => "|>",
            InfixOp::Or => "||",
            InfixOp::And => "&&",
            InfixOp::Equal => "==",
            InfixOp::NotEqual => "!=",
            InfixOp::Less => "<",
            InfixOp::LessEqual => "<=",
            InfixOp::Greater => ">",
            InfixOp::GreaterEqual => ">=",
            InfixOp::Add => "+",
            InfixOp::Subtract => "-",
            InfixOp::Multiply => "*",
            InfixOp::Divide => "/",
            InfixOp::Modulo => "%",
            InfixOp::Matmul => "@",
        }
    }

    /// The operator of that symbol.
    pub fn from_symbol(symbol: &str) -> Option<InfixOp> {
        InfixOp::ALL.into_iter().find(|op| op.symbol() == symbol)
    }

    /// The precedence: 0 binds loosest.
    pub fn precedence(self) -> usize {
        match self {
            InfixOp::Pipe => 0,
            InfixOp::Or => 1,
            InfixOp::And => 2,
            InfixOp::Equal
            | InfixOp::NotEqual
            | InfixOp::Less
            | InfixOp::LessEqual
            | InfixOp::Greater
            | InfixOp::GreaterEqual => InfixOp::COMPARE,
            InfixOp::Add | InfixOp::Subtract => 4,
            InfixOp::Multiply | InfixOp::Divide | InfixOp::Modulo | InfixOp::Matmul => {
                InfixOp::TIGHTEST
            }
        }
    }

    /// The precedence of comparisons, which do not chain.
    pub const COMPARE: usize = 3;
    /// The highest precedence.
    pub const TIGHTEST: usize = 5;
}

/// A postfix operation: a call, an index or a member access.
#[derive(Debug, Clone, PartialEq)]
pub struct Postfix {
    /// What it is.
    pub kind: PostfixKind,
    /// The postfix operation without its operand.
    pub span: Span,
}

/// The kinds of postfix operations.
#[derive(Debug, Clone, PartialEq)]
pub enum PostfixKind {
    /// `(...)`
    Call(Vec<Argument>),
    /// `[...]`
    Index(Vec<Subscript>),
    /// `.name`
    Member(Name),
}

/// An argument, with its name where it has one.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// The name before the colon.
    pub name: Option<Name>,
    /// The value.
    pub value: Expr,
}

/// One subscript of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscript {
    /// What it is.
    pub kind: SubscriptKind,
    /// Where it stands.
    pub span: Span,
}

/// The forms of a subscript.
#[derive(Debug, Clone, PartialEq)]
pub enum SubscriptKind {
    /// `..`: the remaining dimensions (an ellipsis)
    Rest,
    /// `_`: the full dimension
    Full,
    /// A position, which drops the dimension.
    At(Expr),
    /// `a..b by s`
    Slice {
        /// The start, inclusive.
        start: Option<Expr>,
        /// The end, exclusive.
        end: Option<Expr>,
        /// The stride.
        step: Option<Expr>,
    },
}

/// Which loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKind {
    /// Unrolled at compile time, over a range or a list.
    For,
    /// One loop at run time, over the leading dimension of tensors.
    Scan,
}

/// `for pattern in over, name = start { ... }`
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    /// Which loop.
    pub kind: LoopKind,
    /// What an iteration binds.
    pub pattern: Pattern,
    /// The range, list or tensors that are iterated over.
    pub over: Expr,
    /// The loop-carried values and their initial values.
    pub carries: Vec<(Name, Expr)>,
    /// The loop body.
    pub body: Body,
}
