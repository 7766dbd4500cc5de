//! A cache of writers by folder (`tf.compat.v1.summary.FileWriterCache`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{FileKind, FormatError, Result};
use crate::events::writer::{SummaryWriter, WriterOptions};
use crate::files::{Durability, create_dir_in};

/// Writers by folder, so that all who write to a folder share a file (`FileWriterCache`).
///
/// ```
/// use trainspec_formats::events::{SummaryWriterCache, summary};
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-cache-doc-{}", std::process::id()));
/// let writers = SummaryWriterCache::default();
/// writers.get(&folder)?.add_summary(summary::scalar("a", 1.0), 1)?;
/// writers.get(&folder)?.add_summary(summary::scalar("b", 1.0), 1)?;
/// writers.clear()?;
/// assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug, Default)]
pub struct SummaryWriterCache {
    options: WriterOptions,
    writers: Mutex<BTreeMap<PathBuf, Arc<SummaryWriter>>>,
}

impl SummaryWriterCache {
    /// An empty cache, whose writers have these options.
    pub fn new(options: WriterOptions) -> SummaryWriterCache {
        SummaryWriterCache {
            options,
            writers: Mutex::default(),
        }
    }

    /// The writer of a folder, by its canonical path.
    pub fn get(&self, folder: &Path) -> Result<Arc<SummaryWriter>> {
        let failed = |doing: &str, e| FormatError::io(FileKind::Events, doing, e).in_file(folder);
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let storage = &self.options.storage;
        create_dir_in(storage, folder, Durability::Synced)
            .map_err(|e| failed("create the folder", e))?;
        let key = storage
            .canonicalize(folder)
            .map_err(|e| failed("find the folder", e))?;
        if let Some(writer) = writers.get(&key) {
            return Ok(Arc::clone(writer));
        }
        let writer = Arc::new(SummaryWriter::open(folder, self.options.clone())?);
        writers.insert(key, Arc::clone(&writer));
        Ok(writer)
    }

    /// Closes all writers and clears the cache. Of several failures the first is returned.
    pub fn clear(&self) -> Result<()> {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let closed: Vec<Result<()>> = std::mem::take(&mut *writers)
            .into_values()
            .map(|writer| writer.close())
            .collect();
        closed.into_iter().collect()
    }
}
