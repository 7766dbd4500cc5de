//! The runtime in an in-memory environment: input pipelines, optimizers and end-to-end trainings.

mod csv;
mod monitored;
mod optimizer;
mod positions;
mod resume;
mod saver;
mod session;
mod settings;
mod stages;
mod support;
mod table;
mod tfrecord;
mod warm_start;
