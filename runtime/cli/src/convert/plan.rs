//! The conversion plan: the output type of each tensor, decided before anything is written.

use std::path::Path;

use half::bf16;
use trainspec_formats::Result as FormatResult;
use trainspec_formats::checkpoint::{CheckpointReader, DType, Tensor, numpy};

use crate::convert::{Bfloat16As, Kind};
use crate::failure::Failure;
use crate::tensors::size;

/// The most tensors that an error names.
const MAX_NAMED: usize = 5;

/// The tensors that are written, by name, and those that are not.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) entries: Vec<Entry<'a>>,
    pub(super) skipped: Vec<&'a str>,
    /// All elements together, without strings.
    pub(super) bytes: u64,
}

/// A tensor that is written.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) shape: &'a [usize],
    /// Its type in the input.
    stored: DType,
    /// The type it is converted to, if it is.
    pub(super) converted: Option<Bfloat16As>,
}

impl<'a> Plan<'a> {
    /// Fails if there are tensors that the kind cannot hold, unless they are to be skipped.
    pub(super) fn new(
        (input, reader): (&Path, &'a CheckpointReader),
        kind: Kind,
        bfloat16: Option<Bfloat16As>,
        skip: bool,
    ) -> Result<Plan<'a>, Failure> {
        let mut plan = Plan {
            entries: Vec::new(),
            skipped: Vec::new(),
            bytes: 0,
        };
        let read = |name: &str| reader.get_tensor(name).map_err(|e| e.in_file(input));
        let unreadable = reader.unsupported().into_iter();
        let mut refused: Vec<(&str, String)> = unreadable
            .map(|(name, why)| (name, format!("cannot be read: {}", why.cause)))
            .collect();
        for (name, stored, shape) in reader.entries() {
            let converted = match stored {
                DType::BFloat16 if !kind.holds(stored) => bfloat16,
                _ => None,
            };
            if converted.is_none() && !kind.holds(stored) {
                refused.push((name, format!("is {stored}")));
                continue;
            }
            // Whether NumPy can hold strings depends on their bytes.
            if kind == Kind::Npz
                && stored == DType::String
                && let Err(e) = numpy::check(read(name)?.view())
            {
                refused.push((name, format!("cannot be one: {}", e.cause)));
                continue;
            }
            let entry = Entry {
                name,
                shape,
                stored,
                converted,
            };
            let bytes = size(entry.dtype(), shape).unwrap_or(0);
            plan.bytes = plan.bytes.saturating_add(bytes);
            plan.entries.push(entry);
        }
        // Binary search relies on the order by name.
        plan.entries.sort_by_key(|entry| entry.name);
        match refused.is_empty() || skip {
            true => {
                plan.skipped = refused.into_iter().map(|(name, _)| name).collect();
                Ok(plan)
            }
            false => Err(unsupported(input, kind, &refused)),
        }
    }

    /// The entry of a name of the plan.
    pub(super) fn entry(&self, name: &str) -> &Entry<'a> {
        let at = self.entries.binary_search_by_key(&name, |entry| entry.name);
        &self.entries[at.expect("names are those of the plan")]
    }
}

fn unsupported(input: &Path, kind: Kind, refused: &[(&str, String)]) -> Failure {
    let named: Vec<String> = refused
        .iter()
        .take(MAX_NAMED)
        .map(|(name, why)| format!("`{name}` {why}"))
        .collect();
    let more = match refused.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    let message = format!(
        "{}: {} cannot hold all tensors: {}{more}",
        input.display(),
        kind.name(),
        named.join(", ")
    );
    let bfloat16 = refused.iter().any(|(_, why)| why == "is bfloat16");
    let help = match bfloat16 {
        true => {
            "`--bfloat16-as float32` keeps the values, `--bfloat16-as uint16` the bits; \
             `--skip-unsupported` leaves out what cannot be held"
        }
        false => "`--skip-unsupported` leaves them out",
    };
    Failure::input(message).help(help)
}

impl Entry<'_> {
    /// The type it is written as.
    pub(super) fn dtype(&self) -> DType {
        match self.converted {
            None => self.stored,
            Some(Bfloat16As::Float32) => DType::Float32,
            Some(Bfloat16As::Uint16) => DType::UInt16,
        }
    }

    /// Reads it and converts it to the type it is written as.
    pub(super) fn read(&self, reader: &CheckpointReader) -> FormatResult<Tensor> {
        let tensor = reader.get_tensor(self.name)?;
        let Some(converted) = self.converted else {
            return Ok(tensor);
        };
        let values = tensor.to_vec::<bf16>()?;
        match converted {
            Bfloat16As::Float32 => {
                let values: Vec<f32> = values.into_iter().map(bf16::to_f32).collect();
                Tensor::from_values(self.shape, &values)
            }
            Bfloat16As::Uint16 => {
                let bits: Vec<u16> = values.into_iter().map(bf16::to_bits).collect();
                Tensor::from_values(self.shape, &bits)
            }
        }
    }
}
