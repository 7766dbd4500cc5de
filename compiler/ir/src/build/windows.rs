//! Windows that move over height and width. Tensors are batch, height, width, channels; filters are height, width,
//! channels in, channels out.

use crate::build::Value;
use crate::graph::Attr;
use crate::ops::prims;

/// How the window of a convolution moves: down and to the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// How far it moves.
    pub strides: [usize; 2],
    /// How many zeros are before and behind the input.
    pub pads: [(usize, usize); 2],
    /// How far apart the elements under it are.
    pub dilations: [usize; 2],
    /// Into how many equal parts the channels are cut, each with filters of its own.
    pub groups: usize,
}

/// How the window of a pool moves: down and to the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// How large it is.
    pub ksize: [usize; 2],
    /// How far it moves.
    pub strides: [usize; 2],
    /// How many places without an element are before and behind the input.
    pub pads: [(usize, usize); 2],
}

impl Convolution {
    /// The attributes that say so, the last four of their primitive.
    pub(crate) fn attrs(&self) -> Vec<Attr> {
        vec![
            Attr::Sizes(self.strides.to_vec()),
            Attr::Pairs(self.pads.to_vec()),
            Attr::Sizes(self.dilations.to_vec()),
            Attr::Size(self.groups),
        ]
    }

    /// The same from the attributes of a primitive.
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
            other => Err(format!("these say nothing of a convolution: {other:?}")),
        }
    }
}

impl Pool {
    /// The attributes that say so, the last three of their primitive.
    pub(crate) fn attrs(&self) -> Vec<Attr> {
        vec![
            Attr::Sizes(self.ksize.to_vec()),
            Attr::Sizes(self.strides.to_vec()),
            Attr::Pairs(self.pads.to_vec()),
        ]
    }

    /// The same from the attributes of a primitive.
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
            other => Err(format!("these say nothing of a pool: {other:?}")),
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
    /// Σ x · filters under each place of the window.
    pub fn conv2d(self, filters: Value<'g>, window: &Convolution) -> Value<'g> {
        self.builder
            .prim(&prims::CONV2D, &[self, filters], window.attrs())[0]
    }

    /// From what flows into the result of a convolution (this) to what flows into its input, which has that shape.
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

    /// From the input of a convolution (this) and what flows into its result to what flows into its filters, which have
    /// that shape.
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

    /// The largest element under each place of the window.
    pub fn max_pool2d(self, window: &Pool) -> Value<'g> {
        self.builder
            .prim(&prims::MAX_POOL2D, &[self], window.attrs())[0]
    }

    /// `dy` brought to where the first of the largest elements under each place of the window is; the sum where several
    /// places have the same.
    pub fn max_pool2d_grad(self, dy: Value<'g>, window: &Pool) -> Value<'g> {
        self.builder
            .prim(&prims::MAX_POOL2D_GRAD, &[self, dy], window.attrs())[0]
    }

    /// The elements of `z` where the first of the largest elements of this tensor under each place of the window is.
    pub fn max_pool2d_pick(self, z: Value<'g>, window: &Pool) -> Value<'g> {
        self.builder
            .prim(&prims::MAX_POOL2D_PICK, &[self, z], window.attrs())[0]
    }

    /// The sum of the elements under each place of the window.
    pub fn sum_pool2d(self, window: &Pool) -> Value<'g> {
        self.builder
            .prim(&prims::SUM_POOL2D, &[self], window.attrs())[0]
    }

    /// For each element of a tensor of that shape the sum of this tensor over the places of the window that cover it.
    pub fn sum_pool2d_grad(self, shape: &[usize], window: &Pool) -> Value<'g> {
        let attrs = shaped(shape, window.attrs());
        self.builder.prim(&prims::SUM_POOL2D_GRAD, &[self], attrs)[0]
    }
}
