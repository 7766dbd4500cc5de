//! Tests that cross crates: goldens, documents, the oracle, runs of training.
//!
//! One executable, because linking takes longer than running; tests that count allocations or memory stay alone.

mod architecture;
mod arrows;
mod attention;
mod book;
mod doc_examples;
mod docs;
mod explain;
mod fetches;
mod golden;
mod hostile;
mod library_pages;
mod macro_errors;
mod macro_examples;
mod macro_texts;
mod macro_tree;
mod optimizer_formulas;
mod oracle_clipping;
mod oracle_compiled;
mod oracle_ema;
mod oracle_gradients;
mod oracle_ops;
mod oracle_optimizers;
mod oracle_schedules;
mod oracle_training;
mod pipeline;
mod run_errors;
mod standard_library;
mod tf_train;
mod words;
