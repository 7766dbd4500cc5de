//! `warm_start`: which variables begin with values of an older checkpoint.

use std::fmt::{self, Write};

use trainspec_ir::Span;

use crate::syntax::quote;
use crate::typed::print::write_nodes;
use crate::typed::{Init, Spec, VarId};

/// The warm start of a spec, before the first step of a fresh run.
#[derive(Debug, Clone)]
pub struct WarmStart {
    /// A checkpoint, or a folder whose newest one is meant; relative to the folder of the spec.
    pub checkpoint: String,
    /// What is taken from it.
    pub kind: WarmStartKind,
    /// The span of the item.
    pub span: Span,
}

/// The two ways to say which variables take which values.
#[derive(Debug, Clone)]
pub enum WarmStartKind {
    /// By the names of variables (`tf.train.warm_start`).
    Variables {
        /// Which variables.
        vars: WarmStartVars,
        /// Variables that have another name in the checkpoint, and that name.
        previous: Vec<(String, String)>,
        /// Variables whose vocabulary changed.
        vocabularies: Vec<VocabInfo>,
    },
    /// By an assignment map from names or scopes of the checkpoint (`tf.train.init_from_checkpoint`).
    Assign(Vec<(String, String)>),
}

/// Which variables are warm-started, by patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarmStartVars {
    /// The trainable variables that a pattern matches.
    Trainable(String),
    /// Everything of the state that one of some patterns matches.
    All(Vec<String>),
    /// The variables with a vocabulary alone.
    WithVocabulary,
}

/// How the vocabulary of a variable changed (`tf.train.VocabInfo`).
#[derive(Debug, Clone)]
pub struct VocabInfo {
    /// The variable: a matrix.
    pub variable: VarId,
    /// The file of its words, one in each line.
    pub new_vocab: String,
    /// How many of them are used.
    pub new_vocab_size: u64,
    /// How many rows or columns after those of the words stand for unknown words.
    pub num_oov_buckets: u64,
    /// The file of the words of the checkpoint.
    pub old_vocab: String,
    /// How many of them are used; all where it is `None`.
    pub old_vocab_size: Option<u64>,
    /// The initial value of words that the checkpoint does not have; zeros where it is `None`.
    pub backup: Option<Init>,
    /// The dimension that stands for words: 0 or 1.
    pub axis: usize,
}

impl WarmStart {
    /// The warm start of all trainable variables.
    pub fn all(checkpoint: impl Into<String>) -> WarmStart {
        WarmStart {
            checkpoint: checkpoint.into(),
            kind: WarmStartKind::Variables {
                vars: WarmStartVars::Trainable("**".to_owned()),
                previous: Vec::new(),
                vocabularies: Vec::new(),
            },
            span: Span::default(),
        }
    }

    pub(super) fn write(&self, out: &mut String, spec: &Spec) -> fmt::Result {
        writeln!(out, "\nwarm_start {{")?;
        writeln!(out, "  checkpoint {}", quote(&self.checkpoint))?;
        match &self.kind {
            WarmStartKind::Variables {
                vars,
                previous,
                vocabularies,
            } => {
                match vars {
                    WarmStartVars::Trainable(pattern) => {
                        writeln!(out, "  vars {}", quote(pattern))?;
                    }
                    WarmStartVars::All(patterns) => {
                        let patterns: Vec<String> = patterns.iter().map(|p| quote(p)).collect();
                        writeln!(out, "  vars [{}]", patterns.join(", "))?;
                    }
                    WarmStartVars::WithVocabulary => writeln!(out, "  vars none")?,
                }
                for (variable, name) in previous {
                    writeln!(out, "  rename {variable} from {}", quote(name))?;
                }
                for info in vocabularies {
                    info.write(out, spec)?;
                }
            }
            WarmStartKind::Assign(pairs) => {
                for (stored, current) in pairs {
                    writeln!(out, "  assign {} to {}", quote(stored), quote(current))?;
                }
            }
        }
        writeln!(out, "}}")
    }
}

impl VocabInfo {
    fn write(&self, out: &mut String, spec: &Spec) -> fmt::Result {
        let variable = &spec.variables[self.variable.0 as usize].name;
        write!(
            out,
            "  vocabulary {variable} (new_vocab: {}, new_vocab_size: {}, num_oov_buckets: {}, old_vocab: {}",
            quote(&self.new_vocab),
            self.new_vocab_size,
            self.num_oov_buckets,
            quote(&self.old_vocab)
        )?;
        if let Some(size) = self.old_vocab_size {
            write!(out, ", old_vocab_size: {size}")?;
        }
        let backup = self.backup.as_ref().map_or("zeros", |init| &init.name);
        writeln!(out, ", backup_initializer: {backup}, axis: {})", self.axis)?;
        match &self.backup {
            Some(init) => write_nodes(out, 4, &init.program, &init.program.nodes, &[]),
            None => Ok(()),
        }
    }
}
