//! Attributes: the compile-time parameters of a primitive operation.

use std::sync::Arc;

use crate::types::DType;

/// The kind of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttrKind {
    /// An integer.
    Int,
    /// A size or an axis.
    Size,
    /// Sizes or axes.
    Sizes,
    /// Pairs of sizes.
    Pairs,
    /// A bool, which the textual form leaves out where it is false.
    Flag,
    /// An element type.
    DType,
    /// A string.
    String,
}

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each mirrors the `AttrKind` of its name
pub enum Attr {
    Int(i64),
    Size(usize),
    Sizes(Vec<usize>),
    Pairs(Vec<(usize, usize)>),
    Flag(bool),
    DType(DType),
    String(String),
}

impl Attr {
    /// Its kind.
    pub fn kind(&self) -> AttrKind {
        match self {
            Attr::Int(_) => AttrKind::Int,
            Attr::Size(_) => AttrKind::Size,
            Attr::Sizes(_) => AttrKind::Sizes,
            Attr::Pairs(_) => AttrKind::Pairs,
            Attr::Flag(_) => AttrKind::Flag,
            Attr::DType(_) => AttrKind::DType,
            Attr::String(_) => AttrKind::String,
        }
    }
}

/// The attributes of a node, one for each that its primitive declares, in that order.
pub type Attrs = Arc<[Attr]>;
