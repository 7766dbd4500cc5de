//! Array operations (reshape, slice, pad, gather, scatter, …): values, gradients, second derivatives and run-time errors.

mod counted;
mod errors;
mod gather_scatter;
mod layout;
mod second_derivatives;
