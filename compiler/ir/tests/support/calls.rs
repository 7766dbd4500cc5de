//! Calls of operations written as text, such as `infer("reshape", &["x=f32[n,4]", "shape=-1"])`.

use trainspec_ir::ops::{Arg, Call, Kind, Param, RuleError, find};
use trainspec_ir::{Count, DType, Dim, Shape, Size, TensorType};

/// The types of the results of a call, each argument being `name=value`.
///
/// A tensor is `f32[2,n,<=k]` (`<=k#c` names the count), a list of tensors `f32[2];f32[3]`, pairs are `1:2,0:0`.
pub(crate) fn infer(op: &str, args: &[&str]) -> Result<Vec<TensorType>, RuleError> {
    let op = find(op).unwrap_or_else(|| panic!("no operation `{op}`"));
    for arg in args {
        let name = arg.split('=').next();
        assert!(
            op.params.iter().any(|p| Some(p.name) == name),
            "`{}` has no `{arg}`",
            op.name
        );
    }
    let arg = |p: &Param| {
        let given = args
            .iter()
            .find_map(|a| a.strip_prefix(p.name)?.strip_prefix('='));
        match given {
            Some(text) => parse(p.kind, text),
            None => p
                .default_arg()
                .unwrap_or_else(|| panic!("`{}` needs `{}`", op.name, p.name)),
        }
    };
    let args: Vec<Arg> = op.params.iter().map(arg).collect();
    (op.infer)(&Call {
        op,
        args: &args,
        site: "site",
    })
}

/// The inferred types or the error of a call, as text.
pub(crate) fn shown(op: &str, args: &[&str]) -> String {
    let types = infer(op, args).unwrap_or_else(|e| panic!("{op} {args:?}: {e:?}"));
    types
        .iter()
        .map(TensorType::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

/// A tensor type written as `f32[2,n]`.
pub(crate) fn tensor(text: &str) -> TensorType {
    let (dtype, dims) = text
        .strip_suffix(']')
        .and_then(|t| t.split_once('['))
        .expect(text);
    let dims = list(dims, ',').into_iter().map(dim).collect();
    TensorType::new(DType::from_name(dtype).expect(text), Shape(dims))
}

/// The entries of a list, which may be empty.
pub(crate) fn list(text: &str, separator: char) -> Vec<&str> {
    if text.is_empty() {
        Vec::new()
    } else {
        text.split(separator).collect()
    }
}

fn parse(kind: Kind, text: &str) -> Arg {
    match kind {
        Kind::Tensor(_) => Arg::Tensor(tensor(text)),
        Kind::Tensors(_) => Arg::Tensors(text.split(';').map(tensor).collect()),
        Kind::Int => Arg::Int(size(text)),
        Kind::Ints => Arg::Ints(list(text, ',').into_iter().map(size).collect()),
        Kind::Pairs => {
            let pair = |t: &str| {
                let (a, b) = t.split_once(':').expect(t);
                (size(a), size(b))
            };
            Arg::Pairs(list(text, ',').into_iter().map(pair).collect())
        }
        Kind::Float => Arg::Float(text.parse().expect(text)),
        Kind::Number if text.contains('.') => Arg::Float(text.parse().expect(text)),
        Kind::Number => Arg::Int(size(text)),
        Kind::Bool => Arg::Bool(text.parse().expect(text)),
        Kind::Word(words) => {
            assert!(words.contains(&text), "{text}");
            Arg::Word(text.to_owned())
        }
        Kind::String => Arg::Word(text.to_owned()),
        Kind::DType => Arg::DType(DType::from_name(text).expect(text)),
    }
}

fn dim(text: &str) -> Dim {
    let Some(bound) = text.strip_prefix("<=") else {
        return Dim::exact(size(text));
    };
    let (bound, count) = bound.split_once('#').unwrap_or((bound, "c"));
    Dim::at_most(size(bound), Count(count.into()))
}

fn size(text: &str) -> Size {
    text.parse().map_or_else(|_| Size::named(text), Size::fixed)
}
