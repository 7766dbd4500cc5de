//! Checkpoints: TensorFlow's bundles, tables of the first version, object graphs, and what lists them.
