//! Protocol-buffer decoding with a memory bound: the decoded size is computed before anything is allocated.
//!
//! A field of two bytes can become a message of several hundred, so a hostile file could allocate some hundred times its own
//! size. Here the fields are counted first, each by its type. Nesting is bounded by the decoder itself, at a hundred levels.

use prost::{Message, Name};

use crate::error::{Code, FileKind, FormatError, Result};
use crate::memory;
use crate::wire::{Value, WireError, WireReader};

include!("proto/shapes.rs");

/// The memory layout of a message type.
struct Shape {
    name: &'static str,
    /// The bytes of one message, without the heap blocks of its lists and strings.
    size: u32,
    /// The fields that allocate on the heap, by field number.
    fields: &'static [(u32, Part)],
}

/// What a field allocates.
#[derive(Clone, Copy)]
enum Part {
    /// Messages of the type with this index in the table.
    Message(u16),
    /// A string.
    Bytes,
    /// Fixed-width numbers, which take as many bytes as on the wire.
    Fixed,
    /// Varints, which take up to eight bytes each.
    Varints,
}

/// The default bound on the memory of a decoded message: 2 GiB, which is also the maximum size of a serialized message.
pub const DEFAULT_MEMORY_LIMIT: u64 = 1 << 31;

/// The overhead of a string: pointer, length, capacity and the allocator's header.
const STRING_OVERHEAD_BYTES: u64 = 40;

/// A vector that grows has up to twice the capacity that it needs, and the old buffer while it is copied.
const VEC_GROWTH_FACTOR: u64 = 3;

/// The nesting depth that is counted; the decoder refuses deeper messages.
const MAX_DEPTH: u32 = 100;

/// Decodes a message that takes at most `limit` bytes of memory.
///
/// ```
/// use trainspec_formats::FileKind;
/// use trainspec_formats::bounded::{DEFAULT_MEMORY_LIMIT, decode};
/// use trainspec_formats::proto::GraphDef;
///
/// let graph: GraphDef = decode(FileKind::Events, b"\x0a\x03\x0a\x01x", DEFAULT_MEMORY_LIMIT)?;
/// assert_eq!(graph.node[0].name, "x");
/// assert!(decode::<GraphDef>(FileKind::Events, b"\x0a\x05\x0a\x01x", DEFAULT_MEMORY_LIMIT).is_err());
/// assert!(decode::<GraphDef>(FileKind::Events, &b"\x0a\x00".repeat(1 << 20), 1 << 24).is_err());
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn decode<M: Message + Name + Default>(kind: FileKind, bytes: &[u8], limit: u64) -> Result<M> {
    let mut left = limit;
    match charge(shape::<M>(), bytes, MAX_DEPTH, &mut left) {
        Ok(()) => {}
        Err(BoundError::OverLimit) => {
            let cause = format!(
                "a message of {} bytes takes more than {limit} bytes in memory",
                bytes.len()
            );
            return Err(FormatError::new(Code::ResourceExhausted, kind, cause));
        }
        Err(BoundError::OtherType(number)) => {
            let cause = format!("field {number} of a message has another type than it should");
            return Err(FormatError::data_loss(kind, cause));
        }
        Err(BoundError::Malformed(broken)) => {
            let cause = format!("a message cannot be read: {}", broken.cause);
            return Err(FormatError::data_loss(kind, cause));
        }
    }
    memory::check(kind, usize::try_from(limit - left).unwrap_or(usize::MAX))?;
    M::decode(bytes)
        .map_err(|e| FormatError::data_loss(kind, format!("a message cannot be read: {e}")))
}

fn shape<M: Name>() -> &'static Shape {
    let name = M::full_name();
    let index = SHAPES.binary_search_by(|shape| shape.name.cmp(&name));
    &SHAPES[index.expect("every message has its shape")]
}

/// Why a message is not decoded. The decoder of map entries accepts any wire type, so wire types are checked here.
enum BoundError {
    OverLimit,
    OtherType(u32),
    Malformed(WireError),
}

/// Subtracts the memory of a message from the remaining budget.
fn charge(
    shape: &Shape,
    bytes: &[u8],
    depth: u32,
    left: &mut u64,
) -> std::result::Result<(), BoundError> {
    let mut wire = WireReader::new(bytes);
    while let Some((number, value)) = wire.field().map_err(BoundError::Malformed)? {
        let Some((_, part)) = shape.fields.iter().find(|field| field.0 == number) else {
            continue;
        };
        let mut need = |count: u64| match left.checked_sub(count) {
            Some(less) => {
                *left = less;
                Ok(())
            }
            None => Err(BoundError::OverLimit),
        };
        match (*part, value) {
            (Part::Message(index), Value::Bytes(field)) => {
                let inside = &SHAPES[usize::from(index)];
                need(VEC_GROWTH_FACTOR * u64::from(inside.size))?;
                if depth > 0 {
                    charge(inside, field, depth - 1, left)?;
                }
            }
            (Part::Bytes, Value::Bytes(field)) => {
                need(VEC_GROWTH_FACTOR * STRING_OVERHEAD_BYTES + field.len() as u64)?
            }
            (Part::Message(_) | Part::Bytes, _) => return Err(BoundError::OtherType(number)),
            (Part::Fixed, Value::Bytes(field)) => need(VEC_GROWTH_FACTOR * field.len() as u64)?,
            (Part::Varints, Value::Bytes(field)) => {
                let count = field.iter().filter(|&&byte| byte < 0x80).count();
                need(VEC_GROWTH_FACTOR * 8 * count as u64)?;
            }
            (Part::Fixed | Part::Varints, _) => need(VEC_GROWTH_FACTOR * 8)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto;

    #[test]
    fn every_message_fits_its_counted_size() {
        fn check<M: Name>() {
            let shape = shape::<M>();
            assert!(size_of::<M>() <= shape.size as usize, "{}", shape.name);
            assert!((shape.size as usize) < 3 * size_of::<M>(), "{}", shape.name);
        }
        check::<proto::Event>();
        check::<proto::summary::Value>();
        check::<proto::TensorProto>();
        check::<proto::AttrValue>();
        check::<proto::NodeDef>();
        check::<proto::OpDef>();
        check::<proto::op_def::AttrDef>();
        check::<proto::FunctionDef>();
        check::<proto::NodeExecStats>();
        check::<proto::run_metadata::FunctionGraphs>();
        check::<proto::Example>();
        check::<proto::Feature>();
        check::<proto::TrackableObjectGraph>();
        check::<proto::trackable_object_graph::TrackableObject>();
        check::<proto::SavedSliceMeta>();
    }

    #[test]
    fn a_graph_of_many_nodes_is_within_the_limit() {
        let node = |i: usize| proto::NodeDef {
            name: format!("layers/dense_{i}/kernel/Adam/update/Reshape"),
            op: "Reshape".to_owned(),
            input: vec![format!("layers/dense_{i}/kernel/Adam/update"); 3],
            attr: [("T", 1), ("Tshape", 3), ("_class", 2)]
                .map(|(name, dtype)| {
                    let value = proto::attr_value::Value::Type(dtype);
                    (name.to_owned(), proto::AttrValue { value: Some(value) })
                })
                .into(),
            ..Default::default()
        };
        let graph = proto::GraphDef {
            node: (0..100_000).map(node).collect(),
            ..Default::default()
        };
        let bytes = graph.encode_to_vec();
        assert!(
            decode::<proto::GraphDef>(FileKind::Other, &bytes, DEFAULT_MEMORY_LIMIT).unwrap()
                == graph
        );
        // In an event it is a string.
        let event = proto::Event {
            what: Some(proto::event::What::GraphDef(bytes)),
            ..Default::default()
        };
        let bytes = event.encode_to_vec();
        assert!(decode::<proto::Event>(FileKind::Other, &bytes, 1 << 26).unwrap() == event);
    }

    #[test]
    fn many_strings_are_within_the_limit() {
        let tensor = proto::TensorProto {
            string_val: vec![b"word".to_vec(); 1 << 20],
            ..Default::default()
        };
        let bytes = tensor.encode_to_vec();
        assert!(
            decode::<proto::TensorProto>(FileKind::Other, &bytes, DEFAULT_MEMORY_LIMIT).unwrap()
                == tensor
        );
        assert!(decode::<proto::TensorProto>(FileKind::Other, &bytes, 1 << 25).is_err());
    }

    #[test]
    fn nesting_is_bounded() {
        let mut bytes = Vec::new();
        for _ in 0..2000 {
            let mut outer = vec![0x12];
            prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
            outer.extend(bytes);
            bytes = outer;
        }
        assert!(
            decode::<proto::FullTypeDef>(FileKind::Other, &bytes, DEFAULT_MEMORY_LIMIT).is_err()
        );
        assert!(decode::<proto::FullTypeDef>(FileKind::Other, &bytes, 1 << 10).is_err());
    }

    #[test]
    fn many_empty_messages_are_counted_even_before_a_broken_one() {
        let mut inner = b"\x0a\x00".repeat(1 << 16);
        inner.push(0xff);
        let mut bytes = vec![0x2a];
        prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
        bytes.extend(inner);
        let code = |limit| {
            decode::<proto::Event>(FileKind::Other, &bytes, limit)
                .unwrap_err()
                .code
        };
        assert_eq!(code(1 << 26), Code::ResourceExhausted);
        assert_eq!(code(DEFAULT_MEMORY_LIMIT), Code::DataLoss);
    }

    #[test]
    fn a_message_within_the_limit_is_decoded() {
        let tensor = proto::TensorProto {
            tensor_content: vec![0xff; 1 << 20],
            ..Default::default()
        };
        let bytes = tensor.encode_to_vec();
        assert_eq!(
            decode::<proto::TensorProto>(FileKind::Other, &bytes, 1 << 21).unwrap(),
            tensor
        );
        assert!(decode::<proto::TensorProto>(FileKind::Other, &bytes, 1 << 19).is_err());
    }
}
