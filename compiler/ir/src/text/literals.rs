//! Parsing of literals in the textual form of a graph: types, constants and attributes.

use half::{bf16, f16};

use crate::graph::{Attr, AttrKind, Prim, Type};
use crate::size::MAX_ELEMENTS;
use crate::tensor::{Element, Tensor};
use crate::text::parse::Parser;
use crate::text::scanner::{ErrorAt, truncated};
use crate::types::DType;

/// The elements of a constant, whose type comes after them.
pub(super) struct Elements<'t> {
    at: usize,
    form: Form,
    /// The byte offset and the text of each literal.
    literals: Vec<(usize, &'t str)>,
}

/// The syntax of a constant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `1.5`, without dimensions.
    Scalar,
    /// `[1.5, 2.0]`, all elements.
    List,
    /// `splat 1.5`, one for all.
    Splat,
}

impl<'t> Parser<'t> {
    /// `f32[2, 3]`.
    pub(super) fn ty(&mut self) -> Result<Type, ErrorAt> {
        let at = self.scanner.at();
        let word = self.scanner.word("a type")?;
        let dtype = match DType::from_name(word) {
            Some(DType::String) => {
                return Err(ErrorAt::new(at, "a graph does not compute with strings"));
            }
            Some(dtype) => dtype,
            None => {
                let message = format!("`{}` is no element type", truncated(word));
                return Err(ErrorAt::new(at, message));
            }
        };
        let mut shape = Vec::new();
        if self.scanner.take("[") {
            loop {
                shape.push(self.size("a size")?);
                if !self.scanner.take(",") {
                    break;
                }
            }
            self.scanner.expect("]")?;
        }
        // An empty dimension hides no others that are too large.
        let mut sizes = shape.iter().filter(|n| **n != 0);
        let max = MAX_ELEMENTS as usize;
        let product = sizes.try_fold(1_usize, |product, n| {
            product.checked_mul(*n).filter(|product| *product <= max)
        });
        match product {
            Some(_) => Ok(Type { dtype, shape }),
            None => Err(ErrorAt::new(
                at,
                "there are more elements than a tensor may have (2^40)",
            )),
        }
    }

    /// A non-negative integer.
    pub(super) fn size(&mut self, what: &str) -> Result<usize, ErrorAt> {
        let at = self.scanner.at();
        let text = self.scanner.number(what)?;
        let error = || match text.starts_with('-') {
            true => format!("{what} cannot be negative: {}", truncated(text)),
            false => format!("`{}` is no size", truncated(text)),
        };
        text.parse().map_err(|_| ErrorAt::new(at, error()))
    }

    /// The elements of a constant.
    pub(super) fn elements(&mut self) -> Result<Elements<'t>, ErrorAt> {
        let at = self.scanner.at();
        let mut literals = Vec::new();
        let form = if self.scanner.take("[") {
            if !self.scanner.take("]") {
                literals.push(self.element()?);
                while self.scanner.take(",") {
                    literals.push(self.element()?);
                }
                self.scanner.expect("]")?;
            }
            Form::List
        } else if self.scanner.take_word("splat") {
            literals.push(self.element()?);
            Form::Splat
        } else {
            literals.push(self.element()?);
            Form::Scalar
        };
        Ok(Elements { at, form, literals })
    }

    fn element(&mut self) -> Result<(usize, &'t str), ErrorAt> {
        let at = self.scanner.at();
        let text = match self.scanner.peek_word() {
            "true" | "false" => self.scanner.word("a bool")?,
            _ => self.scanner.number("a number or a bool")?,
        };
        Ok((at, text))
    }

    /// The constant of that type.
    pub(super) fn tensor(&mut self, ty: &Type, elements: &Elements<'t>) -> Result<Tensor, ErrorAt> {
        let (found, expected) = (elements.literals.len(), ty.elements());
        match elements.form {
            Form::Scalar if !ty.shape.is_empty() => {
                let message = format!("{ty} needs `[`…`]` with all elements, or `splat`");
                return Err(ErrorAt::new(elements.at, message));
            }
            Form::List if ty.shape.is_empty() => {
                let message = format!("{ty} has no dimensions, so its element stands alone");
                return Err(ErrorAt::new(elements.at, message));
            }
            Form::List if found != expected => {
                let message = format!("{ty} has {expected} elements, but here are {found}");
                return Err(ErrorAt::new(elements.at, message));
            }
            Form::Splat => {
                let left = self.splats.checked_sub(expected);
                self.splats = left.ok_or_else(|| {
                    ErrorAt::new(elements.at, "there are too many elements in `splat`s")
                })?;
            }
            Form::Scalar | Form::List => {}
        }
        match ty.dtype {
            DType::F16 => all(ty, elements, |text| {
                float(text, f16::from_f64, f16::is_finite)
            }),
            DType::Bf16 => all(ty, elements, |text| {
                float(text, bf16::from_f64, bf16::is_finite)
            }),
            // Not by way of f64, which would round twice.
            DType::F32 => all(ty, elements, |text| {
                let x: f32 = text.parse().ok()?;
                (x.is_finite() || !is_finite(text)).then_some(x)
            }),
            DType::F64 => all(ty, elements, |text| float(text, |x| x, f64::is_finite)),
            DType::I8 => all::<i8>(ty, elements, |text| text.parse().ok()),
            DType::I16 => all::<i16>(ty, elements, |text| text.parse().ok()),
            DType::I32 => all::<i32>(ty, elements, |text| text.parse().ok()),
            DType::I64 => all::<i64>(ty, elements, |text| text.parse().ok()),
            DType::U8 => all::<u8>(ty, elements, |text| text.parse().ok()),
            DType::Bool => all::<bool>(ty, elements, |text| text.parse().ok()),
            DType::String => unreachable!("no type in a text is `string`"),
        }
    }

    /// The attributes of the primitive at offset `at`, if some are listed.
    pub(super) fn attributes(
        &mut self,
        prim: &Prim,
        at: usize,
        listed: bool,
    ) -> Result<Vec<Attr>, ErrorAt> {
        let mut found: Vec<Option<Attr>> = vec![None; prim.attrs.len()];
        let mut more = listed;
        while more {
            let at = self.scanner.at();
            let name = self.scanner.word("an attribute")?;
            let Some(index) = prim.attrs.iter().position(|(n, _)| *n == name) else {
                let names: Vec<&str> = prim.attrs.iter().map(|(n, _)| *n).collect();
                let has = match names.is_empty() {
                    true => "none at all".to_owned(),
                    false => names.join(", "),
                };
                let message = format!(
                    "`{}` has no attribute `{}`, but {has}",
                    prim.name,
                    truncated(name)
                );
                return Err(ErrorAt::new(at, message));
            };
            if found[index].is_some() {
                return Err(ErrorAt::new(at, format!("`{name}` is given twice")));
            }
            self.scanner.expect(":")?;
            found[index] = Some(self.attribute(prim.attrs[index].1)?);
            more = self.scanner.take(",");
        }
        let complete = |(attr, (name, kind)): (Option<Attr>, &(&str, AttrKind))| match (attr, kind)
        {
            (Some(attr), _) => Ok(attr),
            (None, AttrKind::Flag) => Ok(Attr::Flag(false)),
            (None, _) => Err(ErrorAt::new(at, format!("`{}` needs `{name}`", prim.name))),
        };
        found.into_iter().zip(prim.attrs).map(complete).collect()
    }

    fn attribute(&mut self, kind: AttrKind) -> Result<Attr, ErrorAt> {
        let at = self.scanner.at();
        Ok(match kind {
            AttrKind::Int => {
                let text = self.scanner.number("an integer")?;
                let error = |_| ErrorAt::new(at, format!("`{}` is no i64", truncated(text)));
                Attr::Int(text.parse().map_err(error)?)
            }
            AttrKind::Size => Attr::Size(self.size("a size")?),
            AttrKind::Sizes => Attr::Sizes(self.list(|p| p.size("a size"))?),
            AttrKind::Pairs => Attr::Pairs(self.list(|p| {
                p.scanner.expect("(")?;
                let first = p.size("a size")?;
                p.scanner.expect(",")?;
                let second = p.size("a size")?;
                p.scanner.expect(")")?;
                Ok((first, second))
            })?),
            AttrKind::Flag if self.scanner.take_word("true") => Attr::Flag(true),
            AttrKind::Flag if self.scanner.take_word("false") => Attr::Flag(false),
            AttrKind::Flag => return Err(self.scanner.expected("`true` or `false`")),
            AttrKind::DType => {
                let word = self.scanner.word("an element type")?;
                let error =
                    || ErrorAt::new(at, format!("`{}` is no element type", truncated(word)));
                Attr::DType(DType::from_name(word).ok_or_else(error)?)
            }
            AttrKind::String => Attr::String(self.scanner.quoted("a string in quotes")?),
        })
    }

    /// `[a, b]`.
    fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Parser<'t>) -> Result<T, ErrorAt>,
    ) -> Result<Vec<T>, ErrorAt> {
        self.scanner.expect("[")?;
        let mut found = Vec::new();
        if self.scanner.take("]") {
            return Ok(found);
        }
        loop {
            found.push(one(self)?);
            if !self.scanner.take(",") {
                break;
            }
        }
        self.scanner.expect("]")?;
        Ok(found)
    }
}

/// A tensor of elements of one type.
fn all<T: Element>(
    ty: &Type,
    elements: &Elements<'_>,
    one: impl Fn(&str) -> Option<T>,
) -> Result<Tensor, ErrorAt> {
    let mut values = Vec::with_capacity(elements.literals.len());
    for (at, text) in &elements.literals {
        let error = || ErrorAt::new(*at, format!("`{}` is no {}", truncated(text), ty.dtype));
        values.push(one(text).ok_or_else(error)?);
    }
    if elements.form == Form::Splat {
        values = vec![values[0].clone(); ty.elements()];
    }
    Ok(Tensor::new(&ty.shape, values))
}

/// A float by way of f64; `None` where a number does not fit.
fn float<T: Copy>(text: &str, round: impl Fn(f64) -> T, fits: impl Fn(T) -> bool) -> Option<T> {
    let x = round(text.parse().ok()?);
    (fits(x) || !is_finite(text)).then_some(x)
}

/// Whether the literal is a finite number, in digits.
fn is_finite(text: &str) -> bool {
    !text.ends_with("inf") && !text.ends_with("nan")
}
