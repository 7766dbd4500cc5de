//! The object graph of `tf.train.Checkpoint`, read from a `TrackableObjectGraph` message.

use std::collections::VecDeque;

use prost::Message;

use crate::bounded::{DEFAULT_MEMORY_LIMIT, decode};
use crate::checkpoint::object::escaped;
use crate::error::{FileKind, FormatError, Result};
use crate::proto::{self, TrackableObjectGraph, trackable_object_graph as message};

/// The maximum total size of the paths of a graph. Beyond it, the keys of tensors stand in for paths.
const MAX_PATH_BYTES: usize = 64 << 20;

/// The objects of a checkpoint. The first is the root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectGraph {
    /// Indexed by node id.
    pub nodes: Vec<Node>,
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// Its children: local names and node ids.
    pub children: Vec<(String, usize)>,
    /// Its attributes.
    pub values: Vec<StoredValue>,
    /// The slot variables, if it is an optimizer.
    pub slots: Vec<Slot>,
    /// The registered saver, if it has one: its name and its name for the object.
    pub saver: Option<(String, String)>,
    /// Whether it or anything below it has values, where that was recorded.
    pub has_values: Option<bool>,
}

/// A value of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// The attribute's name: `VARIABLE_VALUE` for a variable.
    pub name: String,
    /// The variable's name in a graph; empty where it is no variable.
    pub full_name: String,
    /// The checkpoint key of the tensor that holds it.
    pub key: String,
}

/// A slot variable of an optimizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The node id of the variable.
    pub variable: usize,
    /// The slot's name, such as `m`.
    pub name: String,
    /// The node id of the slot variable.
    pub slot: usize,
}

/// A value and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable<'a> {
    /// The escaped names on the shortest path from the root, joined by `/`; for a slot, the path in its key.
    pub path: String,
    /// The node id of the object.
    pub node: usize,
    /// The value.
    pub value: &'a StoredValue,
}

impl ObjectGraph {
    /// Decodes the message. Node ids that do not exist are errors.
    pub fn decode(bytes: &[u8]) -> Result<ObjectGraph> {
        let graph: TrackableObjectGraph =
            decode(FileKind::CheckpointData, bytes, DEFAULT_MEMORY_LIMIT).map_err(|e| {
                FormatError {
                    cause: format!("the graph of objects: {}", e.cause),
                    ..e
                }
            })?;
        let count = graph.nodes.len();
        let number = |id: i32| {
            usize::try_from(id)
                .ok()
                .filter(|&id| id < count)
                .ok_or_else(|| loss(format!("object {id} of {count} in the graph of objects")))
        };
        let node = |node: message::TrackableObject| -> Result<Node> {
            let children = node.children.into_iter();
            let slots = node.slot_variables.into_iter();
            Ok(Node {
                children: children
                    .map(|child| Ok((child.local_name, number(child.node_id)?)))
                    .collect::<Result<_>>()?,
                values: node
                    .attributes
                    .into_iter()
                    .map(|value| StoredValue {
                        name: value.name,
                        full_name: value.full_name,
                        key: value.checkpoint_key,
                    })
                    .collect(),
                slots: slots
                    .map(|slot| {
                        Ok(Slot {
                            variable: number(slot.original_variable_node_id)?,
                            name: slot.slot_name,
                            slot: number(slot.slot_variable_node_id)?,
                        })
                    })
                    .collect::<Result<_>>()?,
                saver: node.registered_saver.map(|s| (s.name, s.object_name)),
                has_values: node.has_checkpoint_values.map(|flag| flag.value),
            })
        };
        let nodes = graph.nodes.into_iter().map(node);
        Ok(ObjectGraph {
            nodes: nodes.collect::<Result<_>>()?,
        })
    }

    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        use message::trackable_object as inner;
        let node = |node: &Node| message::TrackableObject {
            children: node
                .children
                .iter()
                .map(|(name, id)| inner::ObjectReference {
                    node_id: *id as i32,
                    local_name: name.clone(),
                })
                .collect(),
            attributes: node
                .values
                .iter()
                .map(|value| inner::SerializedTensor {
                    name: value.name.clone(),
                    full_name: value.full_name.clone(),
                    checkpoint_key: value.key.clone(),
                })
                .collect(),
            slot_variables: node
                .slots
                .iter()
                .map(|slot| inner::SlotVariableReference {
                    original_variable_node_id: slot.variable as i32,
                    slot_name: slot.name.clone(),
                    slot_variable_node_id: slot.slot as i32,
                })
                .collect(),
            registered_saver: node.saver.as_ref().map(|saver| proto::RegisteredSaver {
                name: saver.0.clone(),
                object_name: saver.1.clone(),
            }),
            has_checkpoint_values: node.has_values.map(|value| proto::Flag { value }),
        };
        TrackableObjectGraph {
            nodes: self.nodes.iter().map(node).collect(),
        }
        .encode_to_vec()
    }

    /// Every value, in the order of the objects.
    pub fn variables(&self) -> Vec<Variable<'_>> {
        let paths = self.paths();
        // Values of one object have the same path: many of them with a long path would take far more memory than the graph.
        let mut budget = MAX_PATH_BYTES;
        let mut found = Vec::new();
        for (node, object) in self.nodes.iter().enumerate() {
            for value in &object.values {
                let path = paths[node].as_ref().and_then(|path| {
                    budget = budget.checked_sub(path.len())?;
                    Some(path.clone())
                });
                // A slot variable is no child of any object; its path is in the tensor's key.
                let key_path = || value.key.split("/.ATTRIBUTES/").next().unwrap_or_default();
                found.push(Variable {
                    path: path.unwrap_or_else(|| key_path().to_owned()),
                    node,
                    value,
                });
            }
        }
        found
    }

    /// The object at a path of escaped names joined by `/`. The empty path is the root.
    pub fn find(&self, path: &str) -> Option<usize> {
        let mut node = 0;
        self.nodes.first()?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let mut children = self.nodes[node].children.iter();
            node = children.find(|(name, _)| escaped(name) == part)?.1;
        }
        Some(node)
    }

    /// The value of the variable at a path, which may be that of a slot.
    pub fn value_at(&self, path: &str) -> Option<&StoredValue> {
        match self.find(path) {
            Some(node) => self.nodes[node].values.first(),
            None => {
                let key = format!("{path}/.ATTRIBUTES/");
                let mut values = self.nodes.iter().flat_map(|node| &node.values);
                values.find(|value| value.key.starts_with(&key))
            }
        }
    }

    /// The values whose variable has this name in a graph. Several may: names need not be unique.
    pub fn named(&self, full_name: &str) -> Vec<&StoredValue> {
        let values = self.nodes.iter().flat_map(|node| &node.values);
        values
            .filter(|value| value.full_name == full_name)
            .collect()
    }

    /// The shortest path to each object, and of those the first (breadth-first search); `None` where it is not reachable.
    fn paths(&self) -> Vec<Option<String>> {
        let mut paths: Vec<Option<String>> = vec![None; self.nodes.len()];
        // Together they may be far longer than the graph, if it is deep.
        let mut budget = MAX_PATH_BYTES;
        let mut next = VecDeque::new();
        if let Some(root) = paths.first_mut() {
            *root = Some(String::new());
            next.push_back(0);
        }
        while let Some(node) = next.pop_front() {
            let here = paths[node].clone().unwrap_or_default();
            for (name, child) in &self.nodes[node].children {
                if paths[*child].is_some() {
                    continue;
                }
                let path = match here.is_empty() {
                    true => escaped(name),
                    false => format!("{here}/{}", escaped(name)),
                };
                let Some(left) = budget.checked_sub(path.len()) else {
                    return paths;
                };
                budget = left;
                paths[*child] = Some(path);
                next.push_back(*child);
            }
        }
        paths
    }

    /// Records which objects have values, in themselves or below.
    pub(super) fn mark_values(&mut self) {
        let mut parents: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            for (_, child) in &node.children {
                parents[*child].push(id);
            }
        }
        let own =
            |node: &Node| !node.values.is_empty() || !node.slots.is_empty() || node.saver.is_some();
        let mut marked: Vec<bool> = self.nodes.iter().map(own).collect();
        let mut next: Vec<usize> = (0..marked.len()).filter(|&id| marked[id]).collect();
        while let Some(id) = next.pop() {
            for &parent in &parents[id] {
                if !std::mem::replace(&mut marked[parent], true) {
                    next.push(parent);
                }
            }
        }
        for (node, marked) in self.nodes.iter_mut().zip(marked) {
            node.has_values = Some(marked);
        }
    }
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::CheckpointData, cause)
}
