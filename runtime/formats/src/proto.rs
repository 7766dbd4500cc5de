//! The protocol-buffer messages of TensorFlow's files, generated from `proto/`.
//!
//! Names and field numbers are TensorFlow's. Decoding allocates a vector for every repeated field; on hot paths,
//! [`examples`](crate::examples) and [`wire`](crate::wire) read the wire format directly; untrusted messages are decoded by
//! [`bounded`](crate::bounded).

#![expect(missing_docs, reason = "generated; `proto/` says what each field is")]
#![expect(clippy::all, reason = "generated")]

include!("proto/tensorflow.rs");

/// The messages of TensorBoard's HParams plugin.
pub mod hparams {
    include!("proto/tensorboard.hparams.rs");
}
