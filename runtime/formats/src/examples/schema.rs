//! Schemas: the requested features and their specs (`tf.io.FixedLenFeature`, `VarLenFeature`, `SparseFeature`, `RaggedFeature`).

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

/// The spec of a feature. Each variant has the meaning of TensorFlow's class of the same name.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureSpec {
    /// A fixed number of values in every record, by a shape: a dense column (`FixedLenFeature`).
    FixedLen {
        /// The type of the values.
        dtype: Dtype,
        /// Their shape in one record.
        shape: Vec<usize>,
        /// The default value; without one, the feature is required.
        default: Option<Values>,
    },
    /// Any number of values (`VarLenFeature`).
    VarLen {
        /// The type of the values.
        dtype: Dtype,
    },
    /// Any number of elements of a shape: a dense column, padded to the longest record of the batch (`FixedLenSequenceFeature`).
    FixedLenSequence {
        /// The type of the values.
        dtype: Dtype,
        /// The shape of an element.
        shape: Vec<usize>,
        /// Whether the feature may be missing; in an example this must be true.
        allow_missing: bool,
        /// The padding value; zero or the empty string by default.
        default: Option<Values>,
    },
    /// Values in one feature, and their indices in others (`SparseFeature`).
    Sparse {
        /// The features that hold the indices, one per dimension.
        index_keys: Vec<String>,
        /// The feature that holds the values.
        value_key: String,
        /// The type of the values.
        dtype: Dtype,
        /// The extent of each dimension. As in TensorFlow, indices are not checked against it.
        sizes: Vec<i64>,
        /// Whether the indices are sorted in every record already.
        already_sorted: bool,
    },
    /// Any number of values, partitioned into rows by other features (`RaggedFeature`).
    Ragged {
        /// The type of the values.
        dtype: Dtype,
        /// The feature that holds the values, if it is not the one of this name.
        value_key: Option<String>,
        /// The row partitions, from the outermost to the innermost.
        partitions: Vec<Partition>,
    },
}

/// A row partition: by the integers of a feature, or uniform.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Partition {
    /// The start of each row, and the end of the last.
    RowSplits(String),
    /// The length of each row.
    RowLengths(String),
    /// The start of each row.
    RowStarts(String),
    /// The end of each row.
    RowLimits(String),
    /// The row of each value, in order.
    ValueRowIds(String),
    /// Rows of a uniform length.
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
    /// A required feature of a fixed shape.
    pub fn fixed(dtype: Dtype, shape: impl Into<Vec<usize>>) -> FeatureSpec {
        FeatureSpec::FixedLen {
            dtype,
            shape: shape.into(),
            default: None,
        }
    }

    /// A feature of a fixed shape with a default value.
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

    /// A feature of any number of elements of a shape, padded with zeros.
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

/// The requested features of an example, in order.
#[derive(Debug, Clone)]
pub struct Schema(pub(super) Arc<Plan>);

/// A resolved schema: which keys are read, and which columns they make.
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
    /// This many values in every record.
    Fixed {
        elements: usize,
        default: Option<Values>,
    },
    /// A multiple of this many values.
    List {
        multiple: usize,
        family: Family,
        required: bool,
    },
}

/// The specs that may read the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Dense,
    Sparse,
    Ragged,
}

/// The slots that a feature's column is made of.
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
    /// Resolves the specs. Two that read the same key must agree on its type and kind.
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

    /// The index of a feature's column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.0.names.iter().position(|known| known == name)
    }
}

/// A mistake in the spec of a feature.
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
                return Err(about(&name, "it is requested twice"));
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
                // As in TensorFlow, an empty default is no default.
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
