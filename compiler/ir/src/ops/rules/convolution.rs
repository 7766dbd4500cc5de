//! What a convolution and its two gradients share: which dimensions go together, and which products are summed.

use crate::build::Convolution;
use crate::graph::{Attr, PrimCall, Type};
use crate::interp::{Array, Evaluation};
use crate::ops::rules::places::{Along, Places, four};
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes;
use crate::types::Class;

/// A convolution of images with filters, every number of which is known.
#[derive(Debug)]
pub(in crate::ops) struct Products {
    x: [usize; 4],
    filters: [usize; 4],
    groups: usize,
    places: Places,
}

impl Products {
    /// The convolution of tensors of these shapes.
    pub(in crate::ops) fn new(
        x: &[usize],
        filters: &[usize],
        window: &Convolution,
    ) -> Result<Products, String> {
        let (x, filters) = (four("the input", x)?, four("the filters", filters)?);
        let groups = window.groups;
        if groups == 0 {
            return Err("there must be a group of channels".to_owned());
        }
        let [_, _, c_in, c_out] = filters;
        if !x[3].is_multiple_of(groups) || x[3] / groups != c_in {
            return Err(format!(
                "{} channels in {groups} groups do not go with filters for {c_in}",
                x[3]
            ));
        }
        if !c_out.is_multiple_of(groups) {
            return Err(format!("{c_out} filters are no {groups} groups"));
        }
        let places = Places::new([0, 1].map(|i| Along {
            input: x[1 + i],
            kernel: filters[i],
            stride: window.strides[i],
            pads: window.pads[i],
            dilation: window.dilations[i],
        }))?;
        Ok(Products {
            x,
            filters,
            groups,
            places,
        })
    }

    /// The same as an evaluation has them; it has been checked.
    pub(in crate::ops) fn of(e: &Evaluation<'_>, x: &[usize], filters: &[usize]) -> Products {
        Convolution::of(e.attrs)
            .and_then(|window| Products::new(x, filters, &window))
            .unwrap_or_else(|wrong| panic!("`{}` was not checked: {wrong}", e.prim.name))
    }

    /// The shape of the result.
    pub(in crate::ops) fn shape(&self) -> [usize; 4] {
        let [h, w] = self.places.counts();
        [self.x[0], h, w, self.filters[3]]
    }

    /// Visits each product that is summed: the place of its factors in the input and in the filters, and that of the sum
    /// in the result.
    pub(in crate::ops) fn each(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let [batch, h, w, c] = self.x;
        let [_, _, c_in, c_out] = self.filters;
        let each = c_out / self.groups;
        for image in 0..batch {
            for place in 0..self.places.len() {
                for (element, tap) in self.places.under(place) {
                    let x = (image * h * w + element) * c;
                    let y = (image * self.places.len() + place) * c_out;
                    for group in 0..self.groups {
                        for i in 0..c_in {
                            let f = (tap * c_in + i) * c_out;
                            for o in group * each..(group + 1) * each {
                                visit(x + group * c_in + i, f + o, y + o);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The two operands of a convolution or a gradient of it, floats of one element type, and how the window moves.
pub(in crate::ops) fn operands<'a>(
    call: &PrimCall<'a>,
) -> Result<([&'a Type; 2], Convolution), String> {
    let [a, b] = arity(call)?;
    of_class(a, Class::Float)?;
    if a.dtype != b.dtype {
        return Err(format!("the elements are {} and {}", a.dtype, b.dtype));
    }
    Ok(([a, b], Convolution::of(call.attrs)?))
}

/// The result of a gradient, which has that shape, if the convolution makes what `dy` is like.
pub(in crate::ops) fn gradient_of(
    dy: &Type,
    made: &Products,
    shape: &[usize],
) -> Result<Vec<Type>, String> {
    if dy.shape != made.shape() {
        return Err(format!(
            "the convolution makes {:?}, but what flows back is {:?}",
            made.shape(),
            dy.shape
        ));
    }
    shapes::made(dy.dtype, shape.to_vec())
}

/// The floats of an operand, row after row.
pub(in crate::ops) fn flat(x: &Array) -> Vec<f64> {
    x.float().iter().copied().collect()
}

/// How the window of a convolution in a graph moves.
pub(in crate::ops) fn window(attrs: &[Attr]) -> Convolution {
    Convolution::of(attrs).expect("the rule has seen the attributes")
}
