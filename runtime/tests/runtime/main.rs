//! The runtime on small worlds of its own: data sets, and whole trainings.

mod csv;
mod optimizer;
mod session;
mod settings;
mod stages;
mod support;
mod tfrecord;
