//! Which features are wanted, and as what.

use std::fmt;
use std::sync::Arc;

use super::batch::Batch;
use super::values::Values;
use crate::error::{FileKind, FormatError, Result};

/// The type of a feature's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// Floats of 32 bits.
    Float,
    /// Integers of 64 bits.
    Int64,
    /// Strings of bytes.
    Bytes,
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::Float => "float",
            Dtype::Int64 => "int64",
            Dtype::Bytes => "bytes",
        })
    }
}

/// What a feature becomes. Each form has the meaning of TensorFlow's class of the same name.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureSpec {
    /// As many values in every record as a shape has elements: a dense column.
    FixedLen {
        /// The type of the values.
        dtype: Dtype,
        /// Their shape in one record.
        shape: Vec<usize>,
        /// What stands in where the feature is not there; without it, it must be.
        default: Option<Values>,
    },
    /// Any number of values.
    VarLen {
        /// The type of the values.
        dtype: Dtype,
    },
    /// Any number of elements of a shape: a dense column, filled up to the longest record of the batch.
    FixedLenSequence {
        /// The type of the values.
        dtype: Dtype,
        /// The shape of an element.
        shape: Vec<usize>,
        /// Whether the feature may be missing; in an example it must be allowed to.
        allow_missing: bool,
        /// What is filled in, one value; zero or nothing by default.
        default: Option<Values>,
    },
    /// Values in one feature, and where they belong in others.
    Sparse {
        /// The features that hold the indices, one to a dimension.
        index_keys: Vec<String>,
        /// The feature that holds the values.
        value_key: String,
        /// The type of the values.
        dtype: Dtype,
        /// The extent of each dimension. As in TensorFlow, indices are not held to it.
        sizes: Vec<i64>,
        /// Whether the indices are in order in every record, so that they need not be sorted.
        already_sorted: bool,
    },
    /// Any number of values, cut into rows by other features.
    Ragged {
        /// The type of the values.
        dtype: Dtype,
        /// The feature that holds the values, if it is not the one of this name.
        value_key: Option<String>,
        /// How they are cut, from the outside to the inside.
        partitions: Vec<Partition>,
    },
}

/// How values are cut into rows: by the integers of a feature, or evenly.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Partition {
    /// Where each row begins, and where the last ends.
    RowSplits(String),
    /// How long each row is.
    RowLengths(String),
    /// Where each row begins.
    RowStarts(String),
    /// Where each row ends.
    RowLimits(String),
    /// The row of each value, in order.
    ValueRowIds(String),
    /// Rows of the same length.
    UniformRowLength(usize),
}

impl Partition {
    /// The feature that it reads.
    pub fn key(&self) -> Option<&str> {
        match self {
            Partition::RowSplits(key)
            | Partition::RowLengths(key)
            | Partition::RowStarts(key)
            | Partition::RowLimits(key)
            | Partition::ValueRowIds(key) => Some(key),
            Partition::UniformRowLength(_) => None,
        }
    }
}

impl FeatureSpec {
    /// A feature of a fixed shape that must be there.
    pub fn fixed(dtype: Dtype, shape: impl Into<Vec<usize>>) -> FeatureSpec {
        FeatureSpec::FixedLen {
            dtype,
            shape: shape.into(),
            default: None,
        }
    }

    /// A feature of a fixed shape, with the values that stand in for it.
    pub fn fixed_or(shape: impl Into<Vec<usize>>, default: impl Into<Values>) -> FeatureSpec {
        let default = default.into();
        FeatureSpec::FixedLen {
            dtype: default.dtype(),
            shape: shape.into(),
            default: Some(default),
        }
    }

    /// A feature of any number of values.
    pub fn var_len(dtype: Dtype) -> FeatureSpec {
        FeatureSpec::VarLen { dtype }
    }

    /// A feature of any number of elements of a shape, filled up with zeros.
    pub fn sequence(dtype: Dtype, shape: impl Into<Vec<usize>>) -> FeatureSpec {
        FeatureSpec::FixedLenSequence {
            dtype,
            shape: shape.into(),
            allow_missing: true,
            default: None,
        }
    }

    /// A feature of any number of values, as a ragged column.
    pub fn ragged(dtype: Dtype) -> FeatureSpec {
        FeatureSpec::Ragged {
            dtype,
            value_key: None,
            partitions: Vec::new(),
        }
    }
}

/// The wanted features of an example, in order.
#[derive(Debug, Clone)]
pub struct Schema(pub(super) Arc<Plan>);

/// A schema, worked out.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) names: Vec<String>,
    pub(super) outputs: Vec<Output>,
    pub(super) slots: Vec<Slot>,
}

/// A key that is read.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: String,
    pub(super) dtype: Dtype,
    pub(super) kind: SlotKind,
}

#[derive(Debug)]
pub(super) enum SlotKind {
    /// So many values in every record.
    Fixed {
        elements: usize,
        default: Option<Values>,
    },
    /// A multiple of so many values.
    List {
        multiple: usize,
        family: Family,
        required: bool,
    },
}

/// Which forms may read the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Dense,
    Sparse,
    Ragged,
}

/// What a feature is made of.
#[derive(Debug)]
pub(super) enum Output {
    Fixed {
        slot: usize,
        shape: Vec<usize>,
    },
    VarLen {
        slot: usize,
    },
    Sequence {
        slot: usize,
        shape: Vec<usize>,
        padding: Option<Values>,
    },
    Sparse {
        indices: Vec<usize>,
        values: usize,
        sizes: Vec<i64>,
        sorted: bool,
    },
    Ragged {
        values: usize,
        partitions: Vec<(Partition, Option<usize>)>,
    },
}

impl Schema {
    /// Checks what is wanted. Two forms that read the same key must agree on what it is.
    pub fn new<K: Into<String>>(
        features: impl IntoIterator<Item = (K, FeatureSpec)>,
    ) -> Result<Schema> {
        let mut plan = Plan::of(features)?;
        for (name, output) in plan.names.iter().zip(&plan.outputs) {
            if let Output::Sequence { slot, .. } = output
                && let SlotKind::List { required: true, .. } = plan.slots[*slot].kind
            {
                let cause = "a sequence in an example must be allowed to be missing";
                return Err(about(name, cause));
            }
        }
        plan.slots.shrink_to_fit();
        Ok(Schema(Arc::new(plan)))
    }

    /// A batch without records.
    pub fn batch(&self) -> Batch {
        Batch::new(&self.0)
    }

    /// The names of the features, in order.
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// Which column a feature is.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.0.names.iter().position(|known| known == name)
    }
}

/// A mistake in what is wanted of a feature.
pub(super) fn about(name: &str, cause: impl fmt::Display) -> FormatError {
    FormatError::invalid(FileKind::Example, format!("feature `{name}`: {cause}"))
}

impl Plan {
    pub(super) fn of<K: Into<String>>(
        features: impl IntoIterator<Item = (K, FeatureSpec)>,
    ) -> Result<Plan> {
        let mut plan = Plan {
            names: Vec::new(),
            outputs: Vec::new(),
            slots: Vec::new(),
        };
        for (name, spec) in features {
            let name = name.into();
            if plan.names.contains(&name) {
                return Err(about(&name, "it is wanted twice"));
            }
            let output = plan.output(&name, spec)?;
            plan.outputs.push(output);
            plan.names.push(name);
        }
        Ok(plan)
    }

    fn output(&mut self, name: &str, spec: FeatureSpec) -> Result<Output> {
        Ok(match spec {
            FeatureSpec::FixedLen {
                dtype,
                shape,
                default,
            } => {
                let elements = elements(name, &shape)?;
                check_default(name, dtype, default.as_ref(), elements)?;
                // As in TensorFlow, no values at all cannot stand in for anything.
                let default = default.filter(|values| !values.is_empty());
                let kind = SlotKind::Fixed { elements, default };
                let slot = self.slot(name, name, dtype, kind)?;
                Output::Fixed { slot, shape }
            }
            FeatureSpec::VarLen { dtype } => Output::VarLen {
                slot: self.list(name, name, dtype, Family::Sparse)?,
            },
            FeatureSpec::FixedLenSequence {
                dtype,
                shape,
                allow_missing,
                default,
            } => {
                let elements = elements(name, &shape)?;
                if elements == 0 {
                    return Err(about(name, "an element of a sequence must have values"));
                }
                check_default(name, dtype, default.as_ref(), 1)?;
                let kind = SlotKind::List {
                    multiple: elements,
                    family: Family::Dense,
                    required: !allow_missing,
                };
                Output::Sequence {
                    slot: self.slot(name, name, dtype, kind)?,
                    shape,
                    padding: default,
                }
            }
            FeatureSpec::Sparse {
                index_keys,
                value_key,
                dtype,
                sizes,
                already_sorted,
            } => {
                if index_keys.is_empty() || index_keys.len() != sizes.len() {
                    let (keys, sizes) = (index_keys.len(), sizes.len());
                    let cause = format!("it has {keys} keys of indices and {sizes} sizes");
                    return Err(about(name, cause));
                }
                let indices = index_keys
                    .iter()
                    .map(|key| self.list(name, key, Dtype::Int64, Family::Sparse));
                Output::Sparse {
                    indices: indices.collect::<Result<_>>()?,
                    values: self.list(name, &value_key, dtype, Family::Sparse)?,
                    sizes,
                    sorted: already_sorted,
                }
            }
            FeatureSpec::Ragged {
                dtype,
                value_key,
                partitions,
            } => {
                if partitions.contains(&Partition::UniformRowLength(0)) {
                    return Err(about(name, "rows of no length cannot be counted"));
                }
                let key = value_key.as_deref().unwrap_or(name);
                let values = self.list(name, key, dtype, Family::Ragged)?;
                let partitions = partitions.into_iter().map(|partition| {
                    let slot = match partition.key() {
                        Some(key) => Some(self.list(name, key, Dtype::Int64, Family::Ragged)?),
                        None => None,
                    };
                    Ok((partition, slot))
                });
                Output::Ragged {
                    partitions: partitions.collect::<Result<_>>()?,
                    values,
                }
            }
        })
    }

    fn list(&mut self, name: &str, key: &str, dtype: Dtype, family: Family) -> Result<usize> {
        let kind = SlotKind::List {
            multiple: 1,
            family,
            required: false,
        };
        self.slot(name, key, dtype, kind)
    }

    /// The number of a key that is read.
    fn slot(&mut self, name: &str, key: &str, dtype: Dtype, kind: SlotKind) -> Result<usize> {
        let Some(number) = self.slots.iter().position(|slot| slot.key == key) else {
            self.slots.push(Slot {
                key: key.to_owned(),
                dtype,
                kind,
            });
            return Ok(self.slots.len() - 1);
        };
        let known = &self.slots[number];
        if known.dtype != dtype {
            let cause = format!("key `{key}` is read as {} and as {dtype}", known.dtype);
            return Err(about(name, cause));
        }
        match (&known.kind, &kind) {
            (SlotKind::List { family: a, .. }, SlotKind::List { family: b, .. })
                if a == b && *a != Family::Dense =>
            {
                Ok(number)
            }
            _ => Err(about(name, format!("key `{key}` is read in two forms"))),
        }
    }
}

fn elements(name: &str, shape: &[usize]) -> Result<usize> {
    let product = shape
        .iter()
        .try_fold(1_usize, |n, extent| n.checked_mul(*extent));
    product.ok_or_else(|| about(name, format!("the shape {shape:?} is too large")))
}

fn check_default(name: &str, dtype: Dtype, default: Option<&Values>, count: usize) -> Result<()> {
    match default {
        Some(values) if values.dtype() != dtype => {
            let found = values.dtype();
            Err(about(
                name,
                format!("it is {dtype}, and its default is {found}"),
            ))
        }
        Some(values) if values.len() != count => {
            let found = values.len();
            Err(about(
                name,
                format!("its default has {found} values, and not {count}"),
            ))
        }
        Some(_) | None => Ok(()),
    }
}
