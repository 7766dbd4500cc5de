//! Explanations of lexical, syntax and name errors, and of misplaced items and settings.

pub(super) const BAD_CHARACTER: &str = r#"The text holds a character that no part of the language uses. Names are made of the letters a to z in both cases,
digits and `_`; strings are written in double quotes; powers are `pow(x, y)`. Comments and strings may hold any
character. The language keeps to the tokens of Rust, so that the same text can stand inside a macro.

Wrong:

    const NAME = 'digits';

Right:

    const NAME = "digits";
"#;

pub(super) const BAD_ESCAPE: &str = r#"A string holds a backslash that begins no escape. The escapes are `\\`, `\"`, `\n`, `\r`, `\t`, `\0`, `\xNN` with
two hexadecimal digits up to 7f, and `\u{...}` with the number of a character. Paths are written with `/` on every
system.

Wrong:

    const PATH = "data\digits";

Right:

    const PATH = "data/digits";
"#;

pub(super) const BAD_OVERRIDE: &str = r#"A value that was set from outside does not fit the spec. `--set NAME=VALUE` replaces the value of a `const`, so the
constant must exist, the value must be written as in a spec (a string in quotes, for instance), and its kind must
stay: a number cannot become a string. An integer may be given where the constant is a float.
"#;

pub(super) const BLOCK_COMMENT: &str = r#"A comment was opened with `/*`. Only comments to the end of the line exist, `//`, and doc comments, `///` and `//!`.
So a comment never hides the end of another one, and any line can be read alone.

Wrong:

    /* The width of all layers. */
    const WIDTH = 64;

Right:

    // The width of all layers.
    const WIDTH = 64;
"#;

pub(super) const BYTE_ORDER_MARK: &str = r#"The text begins with a byte order mark. Some editors write these three bytes before UTF-8, where they have no
meaning; they make two equal specs differ. Save the file as plain UTF-8, or let `trainspec fmt` remove the mark.
"#;

pub(super) const CARRIAGE_RETURN: &str = r#"Lines of the text end in a carriage return. A line ends in a line feed alone, so that a spec has the same bytes on
every system. `trainspec fmt` rewrites the file; in an editor, choose "LF" as the line ending. It is reported once,
at the first such line.
"#;

pub(super) const DUPLICATE_ARGUMENT: &str = r#"One parameter was given two values in a call. Arguments come by position or by name; those by position fill the
parameters from the first on. Remove one of the two.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 8, units: 16));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, units: 16));
    }
"#;

pub(super) const DUPLICATE_ITEM: &str = r#"A part that a spec has once is there twice. A spec has one `model`, one `train`, one `hooks` and one `warm_start`;
there may be several `eval`, if each has its own name, and any number of data sets. Join the two, or keep each in a
spec of its own.

Wrong:

    model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }
    model (x: f32[batch, 4]) { loss sum(dense(x, 1)); }

Right:

    model (x: f32[batch, 4]) {
        loss first = mean(dense(x, 1));
        loss second = sum(dense(x, 1));
    }
"#;

pub(super) const DUPLICATE_NAME: &str = r#"Two things of one kind have the same name in the same place. Constants, definitions, data sets, features, layers,
parameters, metrics and outputs are found by name, so each name stands for one of them. A `let` is the exception: a
later one hides an earlier one of the same name.

Wrong:

    const WIDTH = 64;
    const WIDTH = 128;

Right:

    const WIDTH = 64;
    const HEIGHT = 128;
"#;

pub(super) const DUPLICATE_SETTING: &str = r#"A setting that has one value is set twice. Stages of a data set, optimizers, clips and hooks may repeat, since each
adds something; the seed, the number of steps or the batch size may not. `steps` and `epochs` of `train` both say
when to end, so only one of them can stand.

Wrong:

    model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }
    train {
        optimizer adam(1e-3);
        seed 1;
        seed 2;
    }

Right:

    model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }
    train {
        optimizer adam(1e-3);
        seed 1;
    }
"#;

pub(super) const EMPTY_SPEC: &str = r#"The text holds no spec at all. It is empty, or made of comments only. A spec begins with `spec NAME, edition 1;` and
goes on with a model, data and a training; a file that others `use` may leave the first line out, but not
everything.
"#;

pub(super) const MISPLACED_STATEMENT: &str = r#"A statement stands where it has no meaning. Variables (`param`, `state`) and layers belong to blocks and the model,
`loss`, `metric` and `output` to the model alone, `slot` and `scalar` to optimizers, `yield` to loops. State is
written once in a step, so not inside a `scan`.

Wrong:

    fn scaled(x: f32[.., n]) {
        param scale: f32[n] = ones;
        x * scale
    }

Right:

    block scaled(x: f32[.., n]) {
        param scale: f32[n] = ones;
        x * scale
    }
"#;

pub(super) const MISSING_ARGUMENT: &str = r#"A call leaves out an argument that has no default. Parameters with `= value` may be left out, all others must be
given, by position or by name. In `layer a = dense(10);` the tensors are left out: they come where the layer is
called.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(dense(x));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 1));
    }
"#;

pub(super) const MISSING_ITEM: &str = r#"Something is missing without which the spec says too little. A model states what it is for, with a `loss`, a
`metric` or an `output`; a training needs a model with a loss; an optimizer writes `param`; and a spec that is to be
run has a name in its first line.

Wrong:

    model (x: f32[batch, 4]) {
        let _y = dense(x, 1);
    }

Right:

    model (x: f32[batch, 4]) {
        output y = dense(x, 1);
    }
"#;

pub(super) const MISSING_SETTING: &str = r#"A section lacks a setting that it cannot do without. A data set says where records come from (`source`), a training
which optimizer to use, an evaluation which data set. `with ema` needs an `ema` in `train`, which keeps the
averages. Where data repeats indefinitely, an evaluation needs `steps`, and a training `steps` or `epochs`: `check` warns of a
training without them, because `--steps` or a program may end it.

Wrong:

    model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }
    train { steps 100; }

Right:

    model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }
    train { steps 100; optimizer adam(1e-3); }
"#;

pub(super) const NOT_UTF8: &str = r#"The file holds bytes that are no UTF-8 text. It was saved in another encoding, or is no text at all. The message
names the line of the first such byte. Save the file as UTF-8; every editor can.
"#;

pub(super) const NUMBER_SUFFIX: &str = r#"Letters follow a number without a space. Numbers carry no type of their own, they take on that of what they meet; and
between a number and its unit there is a space, because `30s` would be one token to Rust.

Wrong:

    hooks {
        checkpoint (dir: "runs", every: 30s);
    }

Right:

    hooks {
        checkpoint (dir: "runs", every: 30 s);
    }
"#;

pub(super) const RESERVED_WORD: &str = r#"A name is a word that the language keeps for itself. `as`, `const`, `else`, `false`, `fn`, `for`, `if`, `in`, `let`,
`scan`, `true`, `use` and `yield` have a meaning everywhere; `cluster`, `export`, `precision` and `quantize` will
have one in a later edition. Words such as `loss` or `data` are free where they cannot be mistaken.

Wrong:

    const for = 3;

Right:

    const for_each = 3;
"#;

pub(super) const STAGE_ORDER: &str = r#"A stage of a data set stands where it cannot work. Stages apply in the order written: the source comes first,
features are read from single records, and a filter chooses records, so these stand before `batch`. `map` may stand
on both sides, and then sees records or batches.

Wrong:

    data d {
        source  csv("train.csv");
        feature x: f32[4];
        batch   32;
        filter  x[0] > 0.0;
    }

Right:

    data d {
        source  csv("train.csv");
        feature x: f32[4];
        filter  x[0] > 0.0;
        batch   32;
    }
"#;

pub(super) const STRING_TOO_LONG: &str = r#"A string has more than 64 KiB. Strings of that size are data: keep them in a file and name the file in the spec.
"#;

pub(super) const SYNTAX: &str = r#"The text does not follow the grammar. The message says what was expected at that place and what was found. A
statement that does not parse is left out and the rest is still checked, so several such errors are several
mistakes. Statements end in `;`, arguments are named with a colon, and line ends mean nothing.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, units = 1));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, units: 1));
    }
"#;

pub(super) const TEXT_TOO_LONG: &str = r#"A file has more than 8 MiB. No spec needs that much; most likely the wrong file was named. Data belongs into data
files.
"#;

pub(super) const TOO_DEEP: &str = r#"Brackets, or calls within calls, nest too deep. Brackets may nest 100 deep; the limit keeps the parser within its
stack whatever the text is. Name subexpressions with `let`, or move them into a `fn` or a `block`.
"#;

pub(super) const TOO_MANY_ARGUMENTS: &str = r#"A call has more arguments than there are parameters. For a layer, everything but the tensors is given where it is
declared, so its calls take tensors only.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(relu(x, 0.1));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(leaky_relu(x, 0.1));
    }
"#;

pub(super) const UNBALANCED_BRACKET: &str = r#"A bracket has no partner. Every `(`, `[` and `{` is closed by its own kind, in the reverse order of opening. Nothing
after this point can be read with certainty, so this is reported alone. If the end of the file is named, look for a
block whose `}` is missing.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(relu(x);
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(relu(x));
    }
"#;

pub(super) const UNCLOSED_STRING: &str = r#"A string does not end on its line. It begins and ends with a double quote; a line end inside it is written `\n`.
Where it should have ended nobody can know, so what follows is not read.

Wrong:

    data d {
        source csv("train.csv);
    }

Right:

    data d {
        source csv("train.csv");
    }
"#;

pub(super) const UNIT_MISMATCH: &str = r#"A number has the wrong unit, or one too many, or none. How often something happens is said in steps, epochs or a
time (`100 steps`, `2 epochs`, `30 s`, `5 min`, `1 h`), since a plain number could mean any of these; a count such
as `steps 1_000;` has its unit in its name.

Wrong:

    hooks {
        checkpoint (dir: "runs", every: 500);
    }

Right:

    hooks {
        checkpoint (dir: "runs", every: 500 steps);
    }
"#;

pub(super) const UNKNOWN_ARGUMENT: &str = r#"A call names a parameter that does not exist. The message shows the nearest one, or all of them. A clause such as
`for "..."` is refused in the same way where a setting has none.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 1, bias: false));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 1, use_bias: false));
    }
"#;

pub(super) const UNKNOWN_EDITION: &str = r#"The spec asks for an edition of the language that this compiler does not speak. The edition in the first line fixes
what the words of the language mean, so that a spec keeps its meaning when the language grows. Take a newer
compiler, or write `edition 1`.

Wrong:

    spec example, edition 7;
    const WIDTH = 64;

Right:

    spec example, edition 1;
    const WIDTH = 64;
"#;

pub(super) const UNKNOWN_NAME: &str = r#"A name stands for nothing here. Names come from the parameters and `let`s in sight, from constants and definitions
of the spec and the files it uses, and from the library. Some are known in one place only: `grad` and `param` in
optimizers, `shape` in initializers, `step` wherever training goes on.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(dnese(x, 1));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 1));
    }
"#;

pub(super) const UNKNOWN_SETTING: &str = r#"A section has no setting of that name. The words that a data set, `train`, `eval`, `hooks` and `summary` know are
fixed; the message shows the nearest one, or all of them. Sources and hooks of your own are named in quotes: `hook
"mine" (threshold: 0.5);`. A setting of the language that cannot be run yet is refused too; the message says so.

Wrong:

    data d {
        source  csv("train.csv");
        feature x: f32[4];
        batches 32;
        mix     100;
    }

Right:

    data d {
        source  csv("train.csv");
        feature x: f32[4];
        shuffle 100;
        batch   32;
    }
"#;

pub(super) const UNKNOWN_TYPE: &str = r#"There is no element type of that name. The types are `f32`, `f64`, `bf16`, `f16`, `i8`, `i16`, `i32`, `i64`, `u8`,
`bool` and, in data, `string`; parameters of definitions may also be `int`, `float`, `bool` and `string`, for values
known while the spec is checked. A letter that stands for any type is declared with `where T: float`.

Wrong:

    model (x: float32[batch, 4]) {
        loss mean(x);
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(x);
    }
"#;

pub(super) const USE_CYCLE: &str = r#"Two files use each other, directly or through others. Every file is read once and its names become part of the spec,
so there is no need for both directions. Move what both need into a third file.
"#;

pub(super) const USE_FAILED: &str = r#"A file that the spec uses cannot be read. The path of a `use` is relative to the file that it stands in, with `/`
between folders, and must stay below the folder of the spec. Inside a macro it is relative to the crate. Names that
the file would have brought are not reported on top.
"#;
