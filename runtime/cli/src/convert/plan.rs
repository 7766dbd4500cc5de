//! What becomes of each tensor, decided before anything is written.

use half::bf16;
use trainspec_formats::Result as FormatResult;
use trainspec_formats::checkpoint::{CheckpointReader, DType, Tensor, numpy};

use crate::convert::{Instead, Kind};
use crate::failure::Failure;
use crate::tensors::size;

/// How many tensors an error names.
const NAMED: usize = 5;

/// The tensors that are written, by name, and those that are not.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) steps: Vec<Step<'a>>,
    pub(super) skipped: Vec<&'a str>,
    /// All elements together, without strings.
    pub(super) bytes: u64,
}

/// A tensor that is written.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) name: &'a str,
    pub(super) shape: &'a [usize],
    /// Its type in the input.
    stored: DType,
    /// What it becomes, if that is another.
    pub(super) instead: Option<Instead>,
}

impl<'a> Plan<'a> {
    /// Fails if there are tensors that the kind cannot hold, unless they are to be skipped.
    pub(super) fn new(
        reader: &'a CheckpointReader,
        kind: Kind,
        bfloat16: Option<Instead>,
        skip: bool,
    ) -> Result<Plan<'a>, Failure> {
        let mut plan = Plan {
            steps: Vec::new(),
            skipped: Vec::new(),
            bytes: 0,
        };
        let left = reader.unsupported().into_iter();
        let mut refused: Vec<(&str, String)> = left
            .map(|(name, why)| (name, format!("cannot be read: {}", why.cause)))
            .collect();
        for (name, stored, shape) in reader.entries() {
            let instead = match stored {
                DType::BFloat16 if !kind.holds(stored) => bfloat16,
                _ => None,
            };
            if instead.is_none() && !kind.holds(stored) {
                refused.push((name, format!("is {stored}")));
                continue;
            }
            // What strings hold is known when they are read.
            if kind == Kind::Npz
                && stored == DType::String
                && let Err(e) = numpy::check(reader.get_tensor(name)?.view())
            {
                refused.push((name, format!("cannot be one: {}", e.cause)));
                continue;
            }
            let step = Step {
                name,
                shape,
                stored,
                instead,
            };
            let bytes = size(step.dtype(), shape).unwrap_or(0);
            plan.bytes = plan.bytes.saturating_add(bytes);
            plan.steps.push(step);
        }
        // Readers list by name; finding a step relies on it.
        plan.steps.sort_by_key(|step| step.name);
        match refused.is_empty() || skip {
            true => {
                plan.skipped = refused.into_iter().map(|(name, _)| name).collect();
                Ok(plan)
            }
            false => Err(unsupported(kind, &refused)),
        }
    }

    /// The step of a name, which must be one.
    pub(super) fn step(&self, name: &str) -> &Step<'a> {
        let at = self.steps.binary_search_by_key(&name, |step| step.name);
        &self.steps[at.expect("names are those of the plan")]
    }
}

fn unsupported(kind: Kind, refused: &[(&str, String)]) -> Failure {
    let named: Vec<String> = refused
        .iter()
        .take(NAMED)
        .map(|(name, why)| format!("`{name}` {why}"))
        .collect();
    let more = match refused.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    let message = format!(
        "{} cannot hold all tensors: {}{more}",
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

impl Step<'_> {
    /// The type it gets.
    pub(super) fn dtype(&self) -> DType {
        match self.instead {
            None => self.stored,
            Some(Instead::Float32) => DType::Float32,
            Some(Instead::Uint16) => DType::UInt16,
        }
    }

    /// Reads it, in the type that it gets.
    pub(super) fn read(&self, reader: &CheckpointReader) -> FormatResult<Tensor> {
        let tensor = reader.get_tensor(self.name)?;
        let Some(instead) = self.instead else {
            return Ok(tensor);
        };
        let values = tensor.to_vec::<bf16>()?;
        match instead {
            Instead::Float32 => {
                let values: Vec<f32> = values.into_iter().map(bf16::to_f32).collect();
                Tensor::from_values(self.shape, &values)
            }
            Instead::Uint16 => {
                let bits: Vec<u16> = values.into_iter().map(bf16::to_bits).collect();
                Tensor::from_values(self.shape, &bits)
            }
        }
    }
}
