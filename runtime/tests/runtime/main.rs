//! The runtime in an in-memory environment: input pipelines, optimizers and end-to-end trainings.

mod accumulate;
mod csv;
mod faults;
mod hooks;
mod monitored;
mod not_finite;
mod optimizer;
mod oracle_misc;
mod positions;
mod registry;
mod resume;
mod saver;
mod session;
mod settings;
mod spec_hooks;
mod stages;
mod supervisor;
mod support;
mod table;
mod tfrecord;
mod warm_start;
mod warm_start_spec;
