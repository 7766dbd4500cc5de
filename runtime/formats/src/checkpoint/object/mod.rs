//! Object-based checkpoints (`tf.train.Checkpoint`): bundles with a `TrackableObjectGraph`, which is one of the tensors.
//!
//! In: a graph as a message, or objects with variables. Out: where the value of each object is; and bundles that TensorFlow restores
//! into objects of the same names. Leaves alone: what an object is.

mod graph;
mod writer;

pub use graph::{Node, ObjectGraph, Slot, StoredValue, Variable};
pub use writer::ObjectWriter;

/// The tensor that holds the graph.
pub const OBJECT_GRAPH_KEY: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// The name of the attribute that holds a variable's value.
pub const VARIABLE_VALUE: &str = "VARIABLE_VALUE";

/// The checkpoint key of an attribute of an object.
///
/// ```
/// use trainspec_formats::checkpoint::object::value_key;
///
/// let key = value_key("model/dense/kernel", "VARIABLE_VALUE");
/// assert_eq!(key, "model/dense/kernel/.ATTRIBUTES/VARIABLE_VALUE");
/// ```
pub fn value_key(path: &str, value: &str) -> String {
    format!("{path}/.ATTRIBUTES/{value}")
}

/// The path of the slot variable that an optimizer has for a variable.
pub fn slot_path(variable: &str, optimizer: &str, slot: &str) -> String {
    format!("{variable}/.OPTIMIZER_SLOT/{optimizer}/{}", escaped(slot))
}

/// Escapes a name as a component of a path.
///
/// ```
/// use trainspec_formats::checkpoint::object::escaped;
///
/// assert_eq!(escaped("a/b.c"), "a.Sb..c");
/// ```
pub fn escaped(name: &str) -> String {
    name.replace('.', "..").replace('/', ".S")
}
