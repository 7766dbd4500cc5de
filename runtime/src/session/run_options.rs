//! Options and metadata of one run (`tf.RunOptions`, `tf.RunMetadata`).

use crate::session::TracedProgram;

/// How much of a run is traced.
///
/// ```
/// use trainspec::session::TraceLevel;
///
/// assert!(TraceLevel::NoTrace < TraceLevel::FullTrace);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceLevel {
    /// Nothing.
    #[default]
    NoTrace,
    /// Start, end and thread of every kernel.
    FullTrace,
}

/// What is asked of a run besides its fetches. Hooks and the caller may each ask; all of it is done.
///
/// ```
/// use trainspec::session::RunOptions;
///
/// let mut options = RunOptions::default();
/// options.merge(&RunOptions { output_program: true, ..RunOptions::default() });
/// assert!(options.output_program);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// How much is traced.
    pub trace_level: TraceLevel,
    /// Whether the metadata holds the program that ran, as text (`output_partition_graphs`).
    pub output_program: bool,
}

impl RunOptions {
    /// Adds what another asks for: levels by their maximum, flags by or.
    pub fn merge(&mut self, other: &RunOptions) {
        self.trace_level = self.trace_level.max(other.trace_level);
        self.output_program |= other.output_program;
    }

    /// Whether a run has no metadata.
    pub(crate) fn is_default(&self) -> bool {
        *self == RunOptions::default()
    }
}

/// What a run says of itself, where [`RunOptions`] ask for it.
///
/// ```
/// use trainspec::session::RunMetadata;
///
/// assert_eq!(RunMetadata::default().program, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunMetadata {
    /// The planned program that ran, as `emit --stage plan` prints it; `None` where it was not asked for, or the run computed nothing or was
    /// interpreted.
    pub program: Option<String>,
    /// The programs that ran, with their kernels, where [`TraceLevel::FullTrace`] asks for it: several in an update of several
    /// micro-batches, none where the run computed nothing.
    pub trace: Vec<TracedProgram>,
}
