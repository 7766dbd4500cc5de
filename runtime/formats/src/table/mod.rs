//! Sorted tables of keys and values in blocks, the container of checkpoints.
