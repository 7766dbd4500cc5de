//! The messages inside TensorFlow's files, as `proto/` describes them.
//!
//! Names and numbers are those of the wire format. Decoding one of these makes a message with a vector for every list; where
//! many are read, [`examples`](crate::examples) and [`wire`](crate::wire) read the bytes themselves; hostile ones are decoded by
//! [`bounded`](crate::bounded).

#![expect(missing_docs, reason = "generated; `proto/` says what each field is")]
#![expect(clippy::all, reason = "generated")]

include!("proto/tensorflow.rs");

/// The messages of TensorBoard's view of hyperparameters.
pub mod hparams {
    include!("proto/tensorboard.hparams.rs");
}
