//! Operations that move elements: what they compute, their gradients, and how they fail.

mod counted;
mod faults;
mod graphs;
mod moves;
mod positions;
mod twice;
