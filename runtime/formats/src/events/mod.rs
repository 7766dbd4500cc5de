//! Event files: what TensorBoard shows.
