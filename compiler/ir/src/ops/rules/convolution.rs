//! Convolution geometry, shared by a convolution and its two VJPs: type inference and the direct (naive) loop nest.

use crate::build::Convolution;
use crate::graph::{Attr, PrimCall, Type};
use crate::interp::{Array, Evaluation};
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes;
use crate::ops::rules::sliding_window::{SlidingWindow, four};
use crate::types::Class;
use crate::window::WindowAxis;

/// The static geometry of a convolution of NHWC images with HWIO filters.
#[derive(Debug)]
pub(in crate::ops) struct ConvGeometry {
    x: [usize; 4],
    filters: [usize; 4],
    groups: usize,
    window: SlidingWindow,
}

impl ConvGeometry {
    /// The convolution of tensors of these shapes.
    pub(in crate::ops) fn new(
        x: &[usize],
        filters: &[usize],
        attrs: &Convolution,
    ) -> Result<ConvGeometry, String> {
        let (x, filters) = (four("the input", x)?, four("the filters", filters)?);
        let groups = attrs.groups;
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
        let window = SlidingWindow::new([0, 1].map(|i| {
            let (stride, dilation) = (attrs.strides[i], attrs.dilations[i]);
            WindowAxis::new(x[1 + i], filters[i], stride, attrs.pads[i], dilation)
        }))?;
        Ok(ConvGeometry {
            x,
            filters,
            groups,
            window,
        })
    }

    /// The geometry of an evaluation, whose shapes have been checked.
    pub(in crate::ops) fn of(e: &Evaluation<'_>, x: &[usize], filters: &[usize]) -> ConvGeometry {
        Convolution::of(e.attrs)
            .and_then(|attrs| ConvGeometry::new(x, filters, &attrs))
            .unwrap_or_else(|wrong| panic!("`{}` was not checked: {wrong}", e.prim.name))
    }

    /// The shape of the result.
    pub(in crate::ops) fn shape(&self) -> [usize; 4] {
        let [h, w] = self.window.output_sizes();
        [self.x[0], h, w, self.filters[3]]
    }

    /// Visits each multiply-add: the offsets of its factors in the input and in the filters, and that of the sum in the
    /// result.
    pub(in crate::ops) fn each_product(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let [batch, h, w, c] = self.x;
        let [_, _, c_in, c_out] = self.filters;
        let each = c_out / self.groups;
        for image in 0..batch {
            for position in 0..self.window.len() {
                for (element, tap) in self.window.taps(position) {
                    let x = (image * h * w + element) * c;
                    let y = (image * self.window.len() + position) * c_out;
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

/// The two operands of a convolution or a VJP of it, floats of one element type, and the window's attributes.
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

/// Type inference of a VJP: a result of that shape, if `dy` has the shape of the convolution's result.
pub(in crate::ops) fn infer_vjp(
    dy: &Type,
    geometry: &ConvGeometry,
    shape: &[usize],
) -> Result<Vec<Type>, String> {
    if dy.shape != geometry.shape() {
        return Err(format!(
            "the convolution makes {:?}, but the cotangent is {:?}",
            geometry.shape(),
            dy.shape
        ));
    }
    shapes::one_result(dy.dtype, shape.to_vec())
}

/// The floats of an operand, in row-major order.
pub(in crate::ops) fn flat(x: &Array) -> Vec<f64> {
    x.float().iter().copied().collect()
}

/// The window attributes of a convolution in a graph.
pub(in crate::ops) fn window(attrs: &[Attr]) -> Convolution {
    Convolution::of(attrs).expect("the rule has seen the attributes")
}
