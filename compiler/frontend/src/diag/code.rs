//! Error codes: stable names of all errors and warnings.

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The spec cannot be used.
    Error,
    /// The spec can be used, but is probably not as intended.
    Warning,
}

impl Severity {
    /// The word in messages.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

macro_rules! codes {
    ($($variant:ident $name:literal,)*) => {
        /// A stable error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)] // `Code::page` documents each
        pub enum Code { $($variant,)* }

        impl Code {
            /// All codes, in alphabetical order.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// The name, as it stands in `error[name]`.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// The page that explains the code, as Markdown.
            pub fn page(self) -> &'static str {
                match self { $(Code::$variant => include_str!(concat!("explain/", $name, ".md")),)* }
            }
        }
    };
}

codes! {
    AxisOutOfRange "axis-out-of-range",
    BadCharacter "bad-character",
    BadEscape "bad-escape",
    BadGlob "bad-glob",
    BadOverride "bad-override",
    BadValue "bad-value",
    BlockComment "block-comment",
    BoundMismatch "bound-mismatch",
    BroadcastWidens "broadcast-widens",
    ByteOrderMark "byte-order-mark",
    CarryMismatch "carry-mismatch",
    CountMismatch "count-mismatch",
    DtypeMismatch "dtype-mismatch",
    DuplicateArgument "duplicate-argument",
    DuplicateItem "duplicate-item",
    DuplicateName "duplicate-name",
    DuplicateSetting "duplicate-setting",
    EmptySpec "empty-spec",
    FeatureMismatch "feature-mismatch",
    GroupEmpty "group-empty",
    IndexOutOfRange "index-out-of-range",
    LoopTooLong "loop-too-long",
    LossType "loss-type",
    MisplacedStatement "misplaced-statement",
    MissingArgument "missing-argument",
    MissingItem "missing-item",
    MissingSetting "missing-setting",
    NegativeSize "negative-size",
    NoEffect "no-effect",
    NoOptimizer "no-optimizer",
    NotCallable "not-callable",
    NotCalled "not-called",
    NotConstant "not-constant",
    NotDifferentiable "not-differentiable",
    NotNormal "not-normal",
    NotUtf8 "not-utf8",
    NumberOverflow "number-overflow",
    NumberSuffix "number-suffix",
    PatternMismatch "pattern-mismatch",
    RankMismatch "rank-mismatch",
    Recursion "recursion",
    ReservedWord "reserved-word",
    ShapeMismatch "shape-mismatch",
    SizeOverflow "size-overflow",
    SpecTooLarge "spec-too-large",
    StageOrder "stage-order",
    StringTooLong "string-too-long",
    Syntax "syntax",
    TextTooLong "text-too-long",
    TooDeep "too-deep",
    TooManyArguments "too-many-arguments",
    TypeMismatch "type-mismatch",
    UnbalancedBracket "unbalanced-bracket",
    UnclosedString "unclosed-string",
    UnitMismatch "unit-mismatch",
    UnknownArgument "unknown-argument",
    UnknownEdition "unknown-edition",
    UnknownMember "unknown-member",
    UnknownName "unknown-name",
    UnknownSetting "unknown-setting",
    UnknownSize "unknown-size",
    UnknownType "unknown-type",
    Unused "unused",
    UseCycle "use-cycle",
    UseFailed "use-failed",
    VariableConflict "variable-conflict",
    WriteTarget "write-target",
}

impl Code {
    /// The code of that name.
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|c| c.name() == name)
    }

    /// The severity.
    pub fn severity(self) -> Severity {
        match self {
            Code::BroadcastWidens | Code::NoEffect | Code::NotNormal | Code::Unused => {
                Severity::Warning
            }
            _ => Severity::Error,
        }
    }
}
