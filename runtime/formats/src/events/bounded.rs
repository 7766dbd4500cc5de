//! Messages whose size in memory is known before they are made.
//!
//! A field of two bytes can become a message of several hundred, so a hostile file could ask for some hundred times its own
//! size. Here the fields are counted first. Nesting is bounded by the decoder itself, at a hundred levels.

use prost::Message;

use crate::error::{Code, FileKind, FormatError, Result};
use crate::wire::{Value, Wire};

/// What decoded messages may take unless another bound is given: 2 GiB, which is also the longest message there can be.
pub const LARGEST: u64 = 1 << 31;

/// What a message takes at most, besides the bytes it holds: three times the largest one, as a list that grows has the old
/// place and a new one of twice the size for a moment.
const MESSAGE: u64 = 3 << 10;

/// Levels of messages that are looked at; the decoder refuses deeper ones.
const DEPTH: u32 = 100;

/// Decodes a message that takes at most some bytes of memory, lists of small numbers aside, which take up to eight times
/// what they take in the file.
///
/// ```
/// use trainspec_formats::events::{LARGEST, decode};
/// use trainspec_formats::proto::GraphDef;
///
/// let graph: GraphDef = decode(b"\x0a\x03\x0a\x01x", LARGEST)?;
/// assert_eq!(graph.node[0].name, "x");
/// assert!(decode::<GraphDef>(b"\x0a\x05\x0a\x01x", LARGEST).is_err());
/// assert!(decode::<GraphDef>(&b"\x0a\x00".repeat(1 << 20), 1 << 24).is_err());
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn decode<M: Message + Default>(bytes: &[u8], limit: u64) -> Result<M> {
    // Two bytes are the shortest field that makes a message: most need no count.
    let length = bytes.len() as u64;
    if length.saturating_mul(MESSAGE / 2) > limit
        && length.saturating_add(weight(bytes, DEPTH)) > limit
    {
        let cause = format!("a message of {length} bytes takes more than {limit} in memory");
        return Err(FormatError::new(
            Code::ResourceExhausted,
            FileKind::Events,
            cause,
        ));
    }
    M::decode(bytes).map_err(|e| {
        FormatError::data_loss(FileKind::Events, format!("a message cannot be read: {e}"))
    })
}

/// A bound of what some bytes take when they are decoded, besides themselves and whatever the message is: any field with a
/// length counts as a message.
fn weight(bytes: &[u8], depth: u32) -> u64 {
    let mut wire = Wire::new(bytes);
    let mut sum = 0_u64;
    // What is no message, such as text or numbers, soon has a field that is none; decoding would end there too.
    while let Ok(Some((_, value))) = wire.field() {
        let takes = match value {
            Value::Bytes(field) if depth > 0 => MESSAGE.saturating_add(weight(field, depth - 1)),
            Value::Bytes(_) => MESSAGE,
            Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => 32,
        };
        sum = sum.saturating_add(takes);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto;

    #[test]
    fn no_message_is_larger_than_what_is_counted() {
        let sizes = [
            size_of::<proto::summary::Value>(),
            size_of::<proto::TensorProto>(),
            size_of::<proto::NodeDef>(),
            size_of::<proto::OpDef>(),
            size_of::<proto::op_def::AttrDef>(),
            size_of::<proto::FunctionDef>(),
            size_of::<proto::NodeExecStats>(),
            size_of::<proto::run_metadata::FunctionGraphs>(),
        ];
        for size in sizes {
            assert!(3 * size as u64 <= MESSAGE, "{sizes:?}");
        }
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
        assert!(decode::<proto::FullTypeDef>(&bytes, LARGEST).is_err());
        assert!(decode::<proto::FullTypeDef>(&bytes, 1 << 10).is_err());
    }

    #[test]
    fn many_empty_messages_are_counted_even_before_a_broken_one() {
        let mut inner = b"\x0a\x00".repeat(1 << 16);
        inner.push(0xff);
        let mut bytes = vec![0x2a];
        prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
        bytes.extend(inner);
        let code = |limit| decode::<proto::Event>(&bytes, limit).unwrap_err().code;
        assert_eq!(code(1 << 26), Code::ResourceExhausted);
        assert_eq!(code(LARGEST), Code::DataLoss);
    }

    #[test]
    fn a_message_that_holds_what_it_takes_is_decoded() {
        let tensor = proto::TensorProto {
            tensor_content: vec![0xff; 1 << 20],
            ..Default::default()
        };
        let bytes = tensor.encode_to_vec();
        assert_eq!(
            decode::<proto::TensorProto>(&bytes, 1 << 21).unwrap(),
            tensor
        );
        assert!(decode::<proto::TensorProto>(&bytes, 1 << 19).is_err());
    }
}
