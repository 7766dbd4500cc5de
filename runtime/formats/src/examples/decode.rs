//! Bytes as messages, for what is read one by one.
//!
//! A message takes many times the memory of its bytes where it has many small parts, so these are counted first.

use prost::Message;

use super::{Example, SequenceExample};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::wire::{Broken, Value, Wire};

/// How many bytes of memory a decoded message may take, about.
pub const LARGEST: usize = 256 << 20;

/// What an entry of a map, a string or a feature takes beside its own bytes, about: its place in a list or tree, and what the
/// allocator needs.
const PART: usize = 64;

/// Decodes an example. One that would take more than [`LARGEST`] is refused as [`ResourceExhausted`](Code::ResourceExhausted); an
/// [`ExampleParser`](super::ExampleParser) reads it.
pub fn decode(bytes: &[u8]) -> Result<Example> {
    admit(bytes, Part::Example)?;
    Example::decode(bytes).map_err(undecodable)
}

/// Decodes a sequence example, with the same bound.
pub fn decode_sequence(bytes: &[u8]) -> Result<SequenceExample> {
    admit(bytes, Part::SequenceExample)?;
    SequenceExample::decode(bytes).map_err(undecodable)
}

fn undecodable(error: prost::DecodeError) -> FormatError {
    FormatError::invalid(FileKind::Example, format!("this is no example: {error}"))
}

fn admit(bytes: &[u8], whole: Part) -> Result<()> {
    let mut size = 0_usize;
    weigh(bytes, whole, &mut size).map_err(|broken| {
        let cause = format!("this is no example: {}", broken.cause);
        FormatError::invalid(FileKind::Example, cause)
    })?;
    match size > LARGEST {
        true => Err(FormatError::new(
            Code::ResourceExhausted,
            FileKind::Example,
            format!(
                "a message of {} bytes has so many parts that it would take about {} MiB, and {} are allowed",
                bytes.len(),
                size >> 20,
                LARGEST >> 20
            ),
        )),
        false => Ok(()),
    }
}

/// A part of a message.
#[derive(Clone, Copy)]
enum Part {
    Example,
    SequenceExample,
    Features,
    FeatureEntry,
    FeatureLists,
    ListEntry,
    FeatureList,
    Feature,
    BytesList,
    FloatList,
    Int64List,
    /// A string: nothing is inside.
    Bytes,
}

impl Part {
    /// What a field of it is.
    fn inside(self, number: u32) -> Part {
        match (self, number) {
            (Part::Example | Part::SequenceExample, 1) => Part::Features,
            (Part::SequenceExample, 2) => Part::FeatureLists,
            (Part::Features, 1) => Part::FeatureEntry,
            (Part::FeatureEntry, 2) => Part::Feature,
            (Part::FeatureLists, 1) => Part::ListEntry,
            (Part::ListEntry, 2) => Part::FeatureList,
            (Part::FeatureList, 1) => Part::Feature,
            (Part::Feature, 1) => Part::BytesList,
            (Part::Feature, 2) => Part::FloatList,
            (Part::Feature, 3) => Part::Int64List,
            _ => Part::Bytes,
        }
    }
}

/// Adds up what a part takes.
fn weigh(bytes: &[u8], part: Part, size: &mut usize) -> std::result::Result<(), Broken> {
    let mut add = |more: usize| *size = size.saturating_add(more);
    match part {
        Part::Bytes => add(bytes.len()),
        // Numbers that are not packed take no more memory than bytes.
        Part::FloatList => add(bytes.len()),
        Part::Int64List => add(bytes.len().saturating_mul(8)),
        Part::Example
        | Part::SequenceExample
        | Part::Features
        | Part::FeatureEntry
        | Part::FeatureLists
        | Part::ListEntry
        | Part::FeatureList
        | Part::Feature
        | Part::BytesList => {
            let mut wire = Wire::new(bytes);
            while let Some((number, value)) = wire.field()? {
                *size = size.saturating_add(PART);
                match (part.inside(number), value) {
                    (inside, Value::Bytes(bytes)) => weigh(bytes, inside, size)?,
                    (Part::Bytes, _) => {}
                    // What decodes the message would take any type for the one that it wants.
                    _ => {
                        let cause = "a field has another type than its number says";
                        let at = wire.position();
                        return Err(Broken { at, cause });
                    }
                }
            }
        }
    }
    Ok(())
}
