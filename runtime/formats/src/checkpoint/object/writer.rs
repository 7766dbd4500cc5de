//! The writer of object-based checkpoints.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use crate::checkpoint::bundle::{BundleWriter, Options};
use crate::checkpoint::object::{
    Node, OBJECT_GRAPH_KEY, ObjectGraph, Slot, StoredValue, VARIABLE_VALUE, escaped, slot_path,
    value_key,
};
use crate::checkpoint::{Tensor, TensorView};
use crate::error::{FileKind, FormatError, Result};
use crate::storage::{self, Storage};

/// Writes a checkpoint that `tf.train.Checkpoint(...).restore(...)` reads into objects of the same names.
///
/// Objects are named by the path from the root: `["model", "dense", "kernel"]` is what `Checkpoint(model=...)` calls
/// `model.dense.kernel`; elements of a list are called `"0"`, `"1"` and so on.
///
/// ```
/// use trainspec_formats::checkpoint::{CheckpointReader, ObjectWriter, Tensor};
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-object-{}", std::process::id()));
/// # let prefix = &folder.join("ckpt-1");
/// let mut writer = ObjectWriter::create(prefix, Default::default())?;
/// writer.variable(&["model", "w"], "w", &Tensor::scalar(1.5_f32))?;
/// writer.slot(&["optimizer"], &["model", "w"], "m", "w/Adam", &Tensor::scalar(0.0_f32))?;
/// writer.save_counter(1)?;
/// writer.finish()?;
/// let reader = CheckpointReader::open(prefix)?;
/// assert_eq!(reader.get_tensor("model/w/.ATTRIBUTES/VARIABLE_VALUE")?, Tensor::scalar(1.5_f32));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug)]
pub struct ObjectWriter {
    bundle: BundleWriter,
    /// In the order in which they were first named.
    nodes: Vec<Node>,
    /// The slot variables: they are not reachable from the root, and come last.
    slots: Vec<Node>,
    /// For each object its children by local name.
    children: Vec<BTreeMap<String, usize>>,
}

impl ObjectWriter {
    /// Starts a checkpoint.
    pub fn create(prefix: &Path, options: Options) -> Result<ObjectWriter> {
        ObjectWriter::create_in(&storage::local(), prefix, options)
    }

    /// [`create`](ObjectWriter::create) in any storage.
    pub fn create_in(
        storage: &Arc<dyn Storage>,
        prefix: &Path,
        options: Options,
    ) -> Result<ObjectWriter> {
        Ok(ObjectWriter {
            bundle: BundleWriter::create_in(storage, prefix, options)?,
            nodes: vec![Node::default()],
            slots: Vec::new(),
            children: vec![BTreeMap::new()],
        })
    }

    /// Writes the value of a variable. `full_name` is its name in a graph.
    pub fn variable<'a>(
        &mut self,
        path: &[&str],
        full_name: &str,
        tensor: impl Into<TensorView<'a>>,
    ) -> Result<()> {
        self.value(path, VARIABLE_VALUE, full_name, tensor)
    }

    /// Writes any attribute of an object.
    pub fn value<'a>(
        &mut self,
        path: &[&str],
        value: &str,
        full_name: &str,
        tensor: impl Into<TensorView<'a>>,
    ) -> Result<()> {
        if path.is_empty() {
            return Err(invalid("a value belongs to an object below the root"));
        }
        let value = escaped(value);
        let key = value_key(&joined(path), &value);
        self.bundle.add(&key, tensor)?;
        let node = self.object(path);
        self.nodes[node].values.push(StoredValue {
            name: value,
            full_name: full_name.to_owned(),
            key,
        });
        Ok(())
    }

    /// Writes a slot variable of an optimizer. Its variable must have been written.
    pub fn slot<'a>(
        &mut self,
        optimizer: &[&str],
        variable: &[&str],
        slot: &str,
        full_name: &str,
        tensor: impl Into<TensorView<'a>>,
    ) -> Result<()> {
        let Some(id) = self.find(variable) else {
            return Err(invalid(format!(
                "there is no variable `{}` for a slot",
                joined(variable)
            )));
        };
        let path = slot_path(&joined(variable), &joined(optimizer), slot);
        let key = value_key(&path, VARIABLE_VALUE);
        self.bundle.add(&key, tensor)?;
        let optimizer = self.object(optimizer);
        self.nodes[optimizer].slots.push(Slot {
            variable: id,
            name: slot.to_owned(),
            // Node ids of slots are assigned in the end.
            slot: self.slots.len(),
        });
        self.slots.push(Node {
            values: vec![StoredValue {
                name: VARIABLE_VALUE.to_owned(),
                full_name: full_name.to_owned(),
                key,
            }],
            ..Node::default()
        });
        Ok(())
    }

    /// Adds an object, which need not have a value; returns its index.
    pub fn object(&mut self, path: &[&str]) -> usize {
        let mut node = 0;
        for &name in path {
            node = match self.children[node].get(name) {
                Some(&child) => child,
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(Node::default());
                    self.children.push(BTreeMap::new());
                    self.link(node, name, child);
                    child
                }
            };
        }
        node
    }

    /// Adds another path to an object.
    pub fn alias(&mut self, path: &[&str], known: &[&str]) -> Result<()> {
        let target = self
            .find(known)
            .ok_or_else(|| invalid(format!("there is no object `{}`", joined(known))))?;
        let Some((name, owner)) = path.split_last().filter(|_| self.find(path).is_none()) else {
            return Err(invalid(format!("`{}` is there already", joined(path))));
        };
        let owner = self.object(owner);
        self.link(owner, name, target);
        Ok(())
    }

    /// Writes the `save_counter` variable, which `tf.train.Checkpoint.restore` expects.
    pub fn save_counter(&mut self, count: i64) -> Result<()> {
        self.variable(&["save_counter"], "save_counter", &Tensor::scalar(count))
    }

    /// The underlying bundle writer, for tensors that belong to no object.
    pub fn bundle(&mut self) -> &mut BundleWriter {
        &mut self.bundle
    }

    /// Writes the object graph and renames the files to their final names.
    pub fn finish(mut self) -> Result<()> {
        let graph = self.graph().encode();
        let graph = Tensor::strings(&[], vec![graph])?;
        self.bundle.add(OBJECT_GRAPH_KEY, &graph)?;
        self.bundle.finish()
    }

    fn link(&mut self, owner: usize, name: &str, child: usize) {
        self.nodes[owner].children.push((name.to_owned(), child));
        self.children[owner].insert(name.to_owned(), child);
    }

    fn find(&self, path: &[&str]) -> Option<usize> {
        path.iter()
            .try_fold(0, |node, &name| self.children[node].get(name).copied())
    }

    /// Node ids are assigned in breadth-first order from the root; slot variables come after all others.
    fn graph(&mut self) -> ObjectGraph {
        let mut numbers: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut order = Vec::new();
        let mut next = VecDeque::from([0]);
        numbers[0] = Some(0);
        while let Some(node) = next.pop_front() {
            order.push(node);
            for &(_, child) in &self.nodes[node].children {
                if numbers[child].is_none() {
                    numbers[child] = Some(order.len() + next.len());
                    next.push_back(child);
                }
            }
        }
        let number = |node: usize| numbers[node].expect("every object is reachable from the root");
        let mut graph = ObjectGraph::default();
        let mut slots = Vec::new();
        for &node in &order {
            let mut object = std::mem::take(&mut self.nodes[node]);
            for child in &mut object.children {
                child.1 = number(child.1);
            }
            for slot in &mut object.slots {
                slot.variable = number(slot.variable);
                slots.push(std::mem::take(&mut self.slots[slot.slot]));
                slot.slot = order.len() + slots.len() - 1;
            }
            graph.nodes.push(object);
        }
        graph.nodes.extend(slots);
        graph.mark_values();
        graph
    }
}

fn joined(path: &[&str]) -> String {
    let parts: Vec<String> = path.iter().map(|name| escaped(name)).collect();
    parts.join("/")
}

fn invalid(cause: impl Into<String>) -> FormatError {
    FormatError::invalid(FileKind::CheckpointData, cause)
}
