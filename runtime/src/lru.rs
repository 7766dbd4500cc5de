//! A small least-recently-used (LRU) cache, for programs specialised for sizes.

/// A cache of at most `capacity` entries; a full one evicts the entry whose last use is the oldest.
#[derive(Debug)]
pub(crate) struct LruCache<K, V> {
    capacity: usize,
    /// The most recently used last. There are few, so that a search is cheap.
    entries: Vec<(K, V)>,
}

impl<K: PartialEq + Clone, V> LruCache<K, V> {
    /// An empty cache.
    ///
    /// # Panics
    ///
    /// When the capacity is 0.
    pub(crate) fn new(capacity: usize) -> LruCache<K, V> {
        assert!(capacity > 0, "a cache holds at least one entry");
        LruCache {
            capacity,
            entries: Vec::new(),
        }
    }

    /// The value of a key, which becomes the most recently used; `make` gives it where it is not cached.
    pub(crate) fn get_or_insert<E>(
        &mut self,
        key: &K,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<&mut V, E> {
        let entry = match self.entries.iter().position(|(known, _)| known == key) {
            Some(i) => self.entries.remove(i),
            None => (key.clone(), make()?),
        };
        if self.entries.len() == self.capacity {
            self.entries.remove(0);
        }
        self.entries.push(entry);
        let (_, value) = self.entries.last_mut().expect("it was just put there");
        Ok(value)
    }

    /// All keys, the most recently used last.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// The key that was used last.
    pub(crate) fn last_key(&self) -> Option<&K> {
        self.entries.last().map(|(key, _)| key)
    }

    /// The value that was used last, mutable.
    pub(crate) fn last_mut(&mut self) -> Option<&mut V> {
        self.entries.last_mut().map(|(_, value)| value)
    }

    /// The value that was used last.
    pub(crate) fn last(&self) -> Option<&V> {
        self.entries.last().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::LruCache;

    #[test]
    fn the_entry_whose_last_use_is_the_oldest_is_evicted() {
        let mut cache = LruCache::new(3);
        let mut made = Vec::new();
        for key in [1, 2, 3, 1, 4, 3, 1, 2] {
            let value = cache.get_or_insert(&key, || {
                made.push(key);
                Ok::<_, ()>(10 * key)
            });
            assert_eq!(value, Ok(&mut (10 * key)));
        }
        // 4 evicts 2, because 1 was used after it; the last 2 evicts 4.
        assert_eq!(made, [1, 2, 3, 4, 2]);
        assert_eq!(cache.entries, [(3, 30), (1, 10), (2, 20)]);
    }

    #[test]
    fn a_value_that_cannot_be_made_evicts_nothing() {
        let mut cache = LruCache::new(1);
        assert!(cache.get_or_insert(&1, || Ok::<_, ()>("one")).is_ok());
        assert!(cache.get_or_insert(&2, || Err(())).is_err());
        assert_eq!(cache.entries, [(1, "one")]);
    }
}
