//! Vector instructions of the machine, where the compiler does not find them itself.
#![allow(unsafe_code)] // instructions beyond the base of the architecture are unsafe to call

pub mod limits;
