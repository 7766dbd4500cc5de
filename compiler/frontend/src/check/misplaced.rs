//! Arguments of a call whose dtypes show that they stand in each other's place, or that another loss was meant.

use std::sync::Arc;

use trainspec_ir::{Class, DType, TensorType};

use crate::check::items::Space;
use crate::check::value::{ArgValue, Def, Value};
use crate::check::{Checker, library, types};
use crate::diag::{Code, Diagnostic};

/// A parameter of a class of dtypes, and the tensor that is given to it.
struct Given<'a> {
    name: &'a str,
    class: Class,
    ty: &'a TensorType,
    argument: &'a ArgValue,
}

impl Given<'_> {
    fn is_wrong(&self) -> bool {
        !self.class.contains(self.ty.dtype)
    }
}

impl Checker<'_> {
    /// The error of a call whose arguments have the dtypes of others.
    pub(super) fn misplaced_arguments(
        &self,
        def: &Arc<Def>,
        slots: &[Option<usize>],
        given: &[ArgValue],
        bounds: &types::Bounds,
    ) -> Option<Diagnostic> {
        let mut tensors = Vec::new();
        for (param, slot) in def.ast.params.iter().zip(slots) {
            if let (Some(slot), Some(ty)) = (slot, &param.ty)
                && let Value::Tensor(tensor) = &given[*slot].value
                && let Some(class) = bounds.get(&ty.name.text)
            {
                tensors.push(Given {
                    name: &param.name.text,
                    class: *class,
                    ty: &tensor.ty,
                    argument: &given[*slot],
                });
            }
        }
        match tensors.iter().filter(|t| t.is_wrong()).collect::<Vec<_>>()[..] {
            [a, b] if a.class.contains(b.ty.dtype) && b.class.contains(a.ty.dtype) => {
                Some(self.swapped(a, b))
            }
            [wrong] if def.library && is_integer(wrong.ty.dtype) => {
                self.class_indices(def, &tensors, wrong)
            }
            _ => None,
        }
    }

    /// Two parameters each of which has an argument of the other's dtypes.
    fn swapped(&self, a: &Given<'_>, b: &Given<'_>) -> Diagnostic {
        let message = format!("`{}` and `{}` are swapped", a.name, b.name);
        let help = format!(
            "write `{}: {}, {}: {}`",
            a.name,
            self.snippet(b.argument.span),
            b.name,
            self.snippet(a.argument.span)
        );
        Diagnostic::new(Code::DtypeMismatch, a.argument.span, message)
            .label(format!("this is {}", a.argument.value.describe()))
            .note_at(
                b.argument.span,
                format!("this is {}", b.argument.value.describe()),
            )
            .help(help)
    }

    /// Integers for a loss whose labels are numbers of every class: they are class indices, or they stand where the logits should.
    fn class_indices(
        &self,
        def: &Def,
        tensors: &[Given<'_>],
        integers: &Given<'_>,
    ) -> Option<Diagnostic> {
        let labels = tensors.iter().find(|t| t.name.ends_with("labels"))?;
        let logits = tensors.iter().find(|t| t.name == "logits")?;
        let scores = match integers.name == labels.name {
            true => logits,
            false => labels,
        };
        let (indices, scores) = [integers, scores]
            .map(|t| self.snippet(t.argument.span))
            .into();
        let span = integers.argument.span;
        let sparse = format!("sparse_{}", def.name());
        if library::definition(Space::Functions, &sparse).is_some() {
            let message = format!(
                "`{}` takes a number for every class as labels, not class indices",
                def.name()
            );
            return Some(
                Diagnostic::new(Code::DtypeMismatch, span, message)
                    .label(format!("this is {}", integers.argument.value.describe()))
                    .help(format!(
                        "for class indices write `{sparse}({indices}, {scores})`"
                    )),
            );
        }
        if integers.name == labels.name {
            return None;
        }
        let message = format!("`{}` and `{}` are swapped", labels.name, logits.name);
        Some(
            Diagnostic::new(Code::DtypeMismatch, span, message)
                .label(format!("this is {}", integers.argument.value.describe()))
                .help(format!(
                    "write `{}: cast({indices}, {}), {}: {scores}`",
                    labels.name, labels.ty.dtype, logits.name
                )),
        )
    }
}

fn is_integer(dtype: DType) -> bool {
    Class::Int.contains(dtype)
}
