//! Run-time counts of dynamic dimensions, which are padded to a static capacity: which dimensions have one, and its value.

use crate::CountName;
use crate::build::{Builder, Value};
use crate::graph::Type;
use crate::types::{Count, DType, TensorType};

impl Builder {
    /// An input, some of whose dimensions have a count, which is an input of its own: `x` has `x#count`, or `x#count/0`, … if several
    /// have.
    pub fn counted_input(&self, name: &str, ty: &TensorType) -> Value<'_> {
        let value = self.input(
            name,
            &Type::of(ty).expect("dimensions are bound before lowering"),
        );
        let counts: Vec<&Count> = ty.shape.0.iter().filter_map(|d| d.count.as_ref()).collect();
        for (count, name) in counts.iter().zip(CountName::all(name, counts.len())) {
            if self.counts.borrow().contains_key(*count) {
                continue;
            }
            let n = self.input(&name.to_string(), &Type::scalar(DType::I64));
            self.counts.borrow_mut().insert((*count).clone(), n.id);
        }
        if !counts.is_empty() {
            let counts = ty.shape.0.iter().map(|d| d.count.clone()).collect();
            self.counted.borrow_mut().insert(value.id, counts);
        }
        value
    }

    /// The counts of a value's dimensions, where it has some: one entry for each dimension.
    pub fn counts_of<'g>(&'g self, value: Value<'g>) -> Option<Vec<Option<Value<'g>>>> {
        let counted = self.counted.borrow();
        let counts = counted.get(&value.id)?;
        let known = self.counts.borrow();
        Some(
            counts
                .iter()
                .map(|c| c.as_ref().map(|c| self.value(known[c])))
                .collect(),
        )
    }

    /// All counts that dimensions of the values have, each once.
    pub fn counts_in<'g>(&'g self, values: &[Value<'g>]) -> Vec<(Count, Value<'g>)> {
        let counted = self.counted.borrow();
        let names = values
            .iter()
            .filter_map(|v| counted.get(&v.id))
            .flatten()
            .flatten();
        let mut names: Vec<&Count> = names.collect();
        names.sort();
        names.dedup();
        let known = self.counts.borrow();
        names
            .into_iter()
            .map(|c| (c.clone(), self.value(known[c])))
            .collect()
    }

    /// The value of a count, where it has one.
    pub fn find_count(&self, count: &Count) -> Option<Value<'_>> {
        let id = self.counts.borrow().get(count).copied()?;
        Some(self.value(id))
    }

    /// Gives a count its value.
    pub fn set_count(&self, count: &Count, value: Value<'_>) {
        self.counts.borrow_mut().insert(count.clone(), value.id);
    }

    /// Lets a value have the run-time counts of another of its shape.
    pub fn same_counts(&self, from: Value<'_>, to: Value<'_>) {
        self.copy_counts(from, to, 0);
    }

    /// Lets a value, perhaps of another graph, have the run-time counts of a value of this one without its first `skip`
    /// dimensions.
    pub fn copy_counts(&self, from: Value<'_>, to: Value<'_>, skip: usize) {
        let counts = self
            .counted
            .borrow()
            .get(&from.id)
            .map(|c| c[skip..].to_vec());
        if let Some(counts) = counts.filter(|c| c.iter().any(Option::is_some)) {
            to.builder.counted.borrow_mut().insert(to.id, counts);
        }
    }

    /// Lets the counts of a value have the names that its type gives them.
    ///
    /// # Panics
    ///
    /// When the type has a count where the value has none and the name is new.
    pub fn name_counts(&self, value: Value<'_>, ty: &TensorType) {
        if !ty.shape.is_counted() {
            return;
        }
        let names: Vec<Option<Count>> = ty.shape.0.iter().map(|d| d.count.clone()).collect();
        let old = self.counted.borrow_mut().insert(value.id, names.clone());
        let mut counts = self.counts.borrow_mut();
        for (axis, name) in names.iter().enumerate() {
            let Some(name) = name.as_ref().filter(|name| !counts.contains_key(name)) else {
                continue;
            };
            let old = old.as_ref().and_then(|names| names[axis].as_ref());
            let id = counts[old.unwrap_or_else(|| panic!("{name:?} has no value"))];
            counts.insert(name.clone(), id);
        }
    }
}
