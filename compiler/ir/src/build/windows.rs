//! Window operations: 2-D convolutions and pools with strides, padding, dilations and groups. Tensors are NHWC (batch, height,
//! width, channels); filters are HWIO (height, width, channels in, channels out).

use crate::build::Value;
use crate::graph::Attr;
use crate::ops::prims;

/// The window of a convolution, along height and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// The strides.
    pub strides: [usize; 2],
    /// The zero padding before and after the input.
    pub pads: [(usize, usize); 2],
    /// The dilations (atrous rates).
    pub dilations: [usize; 2],
    /// The number of channel groups, each with filters of its own; as many as channels is a depthwise convolution.
    pub groups: usize,
}

/// The window of a pool, along height and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// The size of the window.
    pub ksize: [usize; 2],
    /// The strides.
    pub strides: [usize; 2],
    /// The padding before and after the input, which is no element.
    pub pads: [(usize, usize); 2],
}

impl Convolution {
    /// The window as attributes, the last four of their primitive.
    pub(crate) fn attrs(&self) -> Vec<Attr> {
        vec![
            Attr::Sizes(self.strides.to_vec()),
            Attr::Pairs(self.pads.to_vec()),
            Attr::Sizes(self.dilations.to_vec()),
            Attr::Size(self.groups),
        ]
    }

    /// Decodes the window from the attributes of a primitive.
    pub(crate) fn of(attrs: &[Attr]) -> Result<Convolution, String> {
        match attrs {
            [
                ..,
                Attr::Sizes(strides),
                Attr::Pairs(pads),
                Attr::Sizes(dilations),
                Attr::Size(groups),
            ] => Ok(Convolution {
                strides: two("strides", strides)?,
                pads: two("pads", pads)?,
                dilations: two("dilations", dilations)?,
                groups: *groups,
            }),
            other => Err(format!(
                "these are no attributes of a convolution: {other:?}"
            )),
        }
    }
}

impl Pool {
    /// The window as attributes, the last three of their primitive.
    pub(crate) fn attrs(&self) -> Vec<Attr> {
        vec![
            Attr::Sizes(self.ksize.to_vec()),
            Attr::Sizes(self.strides.to_vec()),
            Attr::Pairs(self.pads.to_vec()),
        ]
    }

    /// Decodes the window from the attributes of a primitive.
    pub(crate) fn of(attrs: &[Attr]) -> Result<Pool, String> {
        match attrs {
            [
                ..,
                Attr::Sizes(ksize),
                Attr::Sizes(strides),
                Attr::Pairs(pads),
            ] => Ok(Pool {
                ksize: two("ksize", ksize)?,
                strides: two("strides", strides)?,
                pads: two("pads", pads)?,
            }),
            other => Err(format!("these are no attributes of a pool: {other:?}")),
        }
    }
}

fn two<T: Copy>(name: &str, values: &[T]) -> Result<[T; 2], String> {
    values.try_into().map_err(|_| {
        format!(
            "`{name}` must have two entries, height and width, not {}",
            values.len()
        )
    })
}

fn shaped(shape: &[usize], mut attrs: Vec<Attr>) -> Vec<Attr> {
    attrs.insert(0, Attr::Sizes(shape.to_vec()));
    attrs
}

impl<'g> Value<'g> {
    /// The convolution (cross-correlation): Σ x · filters at each position of the window.
    pub fn conv2d(self, filters: Value<'g>, window: &Convolution) -> Value<'g> {
        self.builder
            .prim(&prims::CONV2D, &[self, filters], window.attrs())[0]
    }

    /// The VJP of a convolution for its input, which has that shape; this is the cotangent of the result.
    pub fn conv2d_input_grad(
        self,
        filters: Value<'g>,
        shape: &[usize],
        window: &Convolution,
    ) -> Value<'g> {
        let attrs = shaped(shape, window.attrs());
        self.builder
            .prim(&prims::CONV2D_INPUT_GRAD, &[self, filters], attrs)[0]
    }

    /// The VJP of a convolution for its filters, which have that shape; this is the input, `dy` the cotangent of the result.
    pub fn conv2d_filter_grad(
        self,
        dy: Value<'g>,
        shape: &[usize],
        window: &Convolution,
    ) -> Value<'g> {
        let attrs = shaped(shape, window.attrs());
        self.builder
            .prim(&prims::CONV2D_FILTER_GRAD, &[self, dy], attrs)[0]
    }

    /// Max pooling: the largest element at each position of the window.
    pub fn max_pool2d(self, window: &Pool) -> Value<'g> {
        self.builder
            .prim(&prims::MAX_POOL2D, &[self], window.attrs())[0]
    }

    /// The VJP of max pooling: `dy` scattered to the first of the largest elements at each position of the window; the sum
    /// where windows share one.
    pub fn max_pool2d_grad(self, dy: Value<'g>, window: &Pool) -> Value<'g> {
        self.builder
            .prim(&prims::MAX_POOL2D_GRAD, &[self, dy], window.attrs())[0]
    }

    /// The elements of `z` at the argmax of this tensor (the first of the largest) at each position of the window.
    pub fn max_pool2d_pick(self, z: Value<'g>, window: &Pool) -> Value<'g> {
        self.builder
            .prim(&prims::MAX_POOL2D_PICK, &[self, z], window.attrs())[0]
    }

    /// Sum pooling: the sum of the elements at each position of the window.
    pub fn sum_pool2d(self, window: &Pool) -> Value<'g> {
        self.builder
            .prim(&prims::SUM_POOL2D, &[self], window.attrs())[0]
    }

    /// The VJP of sum pooling: for each element of a tensor of that shape the sum of this tensor over the window positions that
    /// cover it.
    pub fn sum_pool2d_grad(self, shape: &[usize], window: &Pool) -> Value<'g> {
        let attrs = shaped(shape, window.attrs());
        self.builder.prim(&prims::SUM_POOL2D_GRAD, &[self], attrs)[0]
    }
}
