//! Types, constants and attributes in the text of a graph.

use half::{bf16, f16};

use crate::graph::{Attr, AttrKind, Prim, Type};
use crate::size::MAX_ELEMENTS;
use crate::tensor::{Element, Tensor};
use crate::text::parse::Parser;
use crate::text::scanner::{Wrong, short};
use crate::types::DType;

/// The elements of a constant, whose type comes behind them.
pub(super) struct Elements<'t> {
    at: usize,
    form: Form,
    /// Where each stands, and what it is.
    texts: Vec<(usize, &'t str)>,
}

/// How a constant is written.
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
    pub(super) fn ty(&mut self) -> Result<Type, Wrong> {
        let at = self.scanner.at();
        let word = self.scanner.word("a type")?;
        let dtype = match DType::from_name(word) {
            Some(DType::String) => {
                return Err(Wrong::new(at, "a graph does not compute with strings"));
            }
            Some(dtype) => dtype,
            None => {
                let message = format!("`{}` is no element type", short(word));
                return Err(Wrong::new(at, message));
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
        let most = MAX_ELEMENTS as usize;
        let product = sizes.try_fold(1_usize, |product, n| {
            product.checked_mul(*n).filter(|product| *product <= most)
        });
        match product {
            Some(_) => Ok(Type { dtype, shape }),
            None => Err(Wrong::new(
                at,
                "there are more elements than a tensor may have (2^40)",
            )),
        }
    }

    /// A whole number from 0 on.
    pub(super) fn size(&mut self, what: &str) -> Result<usize, Wrong> {
        let at = self.scanner.at();
        let text = self.scanner.number(what)?;
        let wrong = || match text.starts_with('-') {
            true => format!("{what} cannot be negative: {}", short(text)),
            false => format!("`{}` is no size", short(text)),
        };
        text.parse().map_err(|_| Wrong::new(at, wrong()))
    }

    /// The elements of a constant.
    pub(super) fn elements(&mut self) -> Result<Elements<'t>, Wrong> {
        let at = self.scanner.at();
        let mut texts = Vec::new();
        let form = if self.scanner.take("[") {
            if !self.scanner.take("]") {
                texts.push(self.element()?);
                while self.scanner.take(",") {
                    texts.push(self.element()?);
                }
                self.scanner.expect("]")?;
            }
            Form::List
        } else if self.scanner.take_word("splat") {
            texts.push(self.element()?);
            Form::Splat
        } else {
            texts.push(self.element()?);
            Form::Scalar
        };
        Ok(Elements { at, form, texts })
    }

    fn element(&mut self) -> Result<(usize, &'t str), Wrong> {
        let at = self.scanner.at();
        let text = match self.scanner.peek_word() {
            "true" | "false" => self.scanner.word("a truth")?,
            _ => self.scanner.number("a number or a truth")?,
        };
        Ok((at, text))
    }

    /// The constant of that type.
    pub(super) fn tensor(&mut self, ty: &Type, elements: &Elements<'t>) -> Result<Tensor, Wrong> {
        let (found, wanted) = (elements.texts.len(), ty.elements());
        match elements.form {
            Form::Scalar if !ty.shape.is_empty() => {
                let message = format!("{ty} needs `[`…`]` with all elements, or `splat`");
                return Err(Wrong::new(elements.at, message));
            }
            Form::List if ty.shape.is_empty() => {
                let message = format!("{ty} has no dimensions, so its element stands alone");
                return Err(Wrong::new(elements.at, message));
            }
            Form::List if found != wanted => {
                let message = format!("{ty} has {wanted} elements, but here are {found}");
                return Err(Wrong::new(elements.at, message));
            }
            Form::Splat => {
                let left = self.splats.checked_sub(wanted);
                self.splats = left.ok_or_else(|| {
                    Wrong::new(elements.at, "there are too many elements in `splat`s")
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

    /// The attributes of a primitive that stands at `at`, if some are listed.
    pub(super) fn attributes(
        &mut self,
        prim: &Prim,
        at: usize,
        listed: bool,
    ) -> Result<Vec<Attr>, Wrong> {
        let mut found: Vec<Option<Attr>> = vec![None; prim.attrs.len()];
        let mut more = listed;
        while more {
            let at = self.scanner.at();
            let name = self.scanner.word("an attribute")?;
            let Some(place) = prim.attrs.iter().position(|(n, _)| *n == name) else {
                let names: Vec<&str> = prim.attrs.iter().map(|(n, _)| *n).collect();
                let has = match names.is_empty() {
                    true => "none at all".to_owned(),
                    false => names.join(", "),
                };
                let message = format!(
                    "`{}` has no attribute `{}`, but {has}",
                    prim.name,
                    short(name)
                );
                return Err(Wrong::new(at, message));
            };
            if found[place].is_some() {
                return Err(Wrong::new(at, format!("`{name}` is given twice")));
            }
            self.scanner.expect(":")?;
            found[place] = Some(self.attribute(prim.attrs[place].1)?);
            more = self.scanner.take(",");
        }
        let complete = |(attr, (name, kind)): (Option<Attr>, &(&str, AttrKind))| match (attr, kind)
        {
            (Some(attr), _) => Ok(attr),
            (None, AttrKind::Flag) => Ok(Attr::Flag(false)),
            (None, _) => Err(Wrong::new(at, format!("`{}` needs `{name}`", prim.name))),
        };
        found.into_iter().zip(prim.attrs).map(complete).collect()
    }

    fn attribute(&mut self, kind: AttrKind) -> Result<Attr, Wrong> {
        let at = self.scanner.at();
        Ok(match kind {
            AttrKind::Int => {
                let text = self.scanner.number("a whole number")?;
                let wrong = |_| Wrong::new(at, format!("`{}` is no i64", short(text)));
                Attr::Int(text.parse().map_err(wrong)?)
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
                let wrong = || Wrong::new(at, format!("`{}` is no element type", short(word)));
                Attr::DType(DType::from_name(word).ok_or_else(wrong)?)
            }
            AttrKind::Text => Attr::Text(self.scanner.quoted("a text in quotes")?),
        })
    }

    /// `[a, b]`.
    fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Parser<'t>) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Wrong> {
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
) -> Result<Tensor, Wrong> {
    let mut values = Vec::with_capacity(elements.texts.len());
    for (at, text) in &elements.texts {
        let wrong = || Wrong::new(*at, format!("`{}` is no {}", short(text), ty.dtype));
        values.push(one(text).ok_or_else(wrong)?);
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

/// Whether a number is written in digits.
fn is_finite(text: &str) -> bool {
    !text.ends_with("inf") && !text.ends_with("nan")
}
