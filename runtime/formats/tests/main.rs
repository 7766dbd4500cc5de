//! TensorFlow's files: the oracle's, damaged ones, and what is written and read back.
//!
//! One executable, because linking takes longer than running; tests that count allocations or memory stay alone.

mod checkpoint_damage;
mod checkpoint_lists;
mod checkpoint_write;
mod damage;
mod event_runs;
mod event_writer;
mod examples;
mod faults;
mod generated;
mod hostile_checkpoints;
mod hostile_events;
mod hostile_records;
#[cfg(target_os = "linux")]
mod memory_limits;
mod merge_checkpoints;
mod numpy_files;
mod oracle_checkpoint_helpers;
mod oracle_checkpoints;
mod oracle_events;
mod oracle_examples;
mod oracle_meta_graphs;
mod oracle_records;
mod oracle_summaries;
mod records;
mod support;
