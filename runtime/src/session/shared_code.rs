//! The code of programs that several sessions run, each with a state and memory of its own.

use std::sync::{Arc, Mutex, PoisonError};

use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::{Binding, FetchSet, ProgramKind};

use crate::Error;
use crate::lru::LruCache;
use crate::program::ProgramCode;

/// The capacity of the cache, in programs: those that the sessions of one spec run at a time.
const MAX_SHARED_PROGRAMS: usize = 16;

/// What is compiled: the code is a function of it and of the spec.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CodeKey {
    pub(super) kind: ProgramKind,
    pub(super) fetches: FetchSet,
    pub(super) sizes: Binding,
}

/// A program, with the warnings of its lowering.
type Entry = (ProgramCode, Vec<Diagnostic>);

/// The compiled programs of a session and its forks (LRU). Clones share them.
#[derive(Debug, Clone)]
pub(super) struct SharedCode(Arc<Mutex<LruCache<CodeKey, Entry>>>);

impl Default for SharedCode {
    fn default() -> SharedCode {
        let cache = LruCache::new(MAX_SHARED_PROGRAMS);
        SharedCode(Arc::new(Mutex::new(cache)))
    }
}

impl SharedCode {
    /// A program that another session has compiled, or one that is compiled now; others wait for it, and do not compile it again.
    pub(super) fn get_or_compile(
        &self,
        key: &CodeKey,
        compile: impl FnOnce() -> Result<Entry, Error>,
    ) -> Result<Entry, Error> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_new = false;
        let (code, warnings) = cache.get_or_insert(key, || {
            is_new = true;
            compile()
        })?;
        if !is_new {
            code.ensure_fits()?;
        }
        Ok((code.clone(), warnings.clone()))
    }
}
