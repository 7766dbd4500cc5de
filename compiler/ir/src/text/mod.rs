//! Graphs as text: what is printed can be parsed back.

mod print;
