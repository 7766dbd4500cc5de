//! `best` of a `checkpoint` hook: the checkpoint with the best value of a metric of an evaluation, in the folder `best` of the run.
//!
//! In: the evaluations of a run. Out: a folder with one checkpoint and its state file; the one before is deleted when the better one is
//! safe. A record in every checkpoint says which is the best, and the best checkpoint says so of itself: it is what counts after a restart.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use trainspec_compiler::typed::{Best, BestMode};

use crate::data_watch::DataWatch;
use crate::env::Storage;
use crate::hooks::event_files::EventFiles;
use crate::saver::{
    BackgroundSaver, Format, NewestCheckpoint, Records, Saver, SaverOptions, records_in,
};
use crate::session::{Event, EventQueue, Saves, Session};
use crate::{Code, Error};

/// The folder of the best checkpoint, in that of the run.
pub(crate) const BEST_FOLDER: &str = "best";

/// The record of the best checkpoint so far.
pub(super) const BEST_RECORD: &str = "best/1";

/// Saves the best checkpoint of a run.
#[derive(Debug)]
pub(crate) struct BestSaver {
    best: Best,
    saver: BackgroundSaver,
    prefix: PathBuf,
    so_far: Option<BestSoFar>,
    notes: Vec<String>,
}

/// A checkpoint that was the best when it was written.
#[derive(Debug, Clone, PartialEq)]
struct BestSoFar {
    best: Best,
    value: f64,
    step: u64,
    /// Relative to the folder of the run.
    path: String,
}

impl BestSaver {
    /// Goes on with the best checkpoint that is in the folder of a run. The options are those of its other checkpoints.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        options: &SaverOptions,
        run: &Path,
        basename: &str,
        best: &Best,
    ) -> Result<BestSaver, Error> {
        let folder = run.join(BEST_FOLDER);
        let options = SaverOptions {
            max_to_keep: Some(1),
            keep_checkpoint_every_n_hours: SaverOptions::default().keep_checkpoint_every_n_hours,
            ..options.clone()
        };
        let mut saver = Saver::new_in(storage, options)?;
        let newest = NewestCheckpoint::find_in(storage, &folder, None)?;
        saver.recover_folder(&folder, &newest)?;
        let mut notes: Vec<String> = newest.skipped.iter().map(ToString::to_string).collect();
        let mut so_far = None;
        if let Some(path) = &newest.path {
            let known = records_in(storage, path)?;
            let known = known.get(BEST_RECORD).map(BestSoFar::from_str);
            so_far = known.transpose()?.filter(|known| known.best == *best);
            if so_far.is_none() {
                notes.push(format!(
                    "{} was not chosen by {}: the next evaluation replaces it",
                    path.display(),
                    Shown(best)
                ));
            }
        }
        Ok(BestSaver {
            best: best.clone(),
            saver: BackgroundSaver::new(saver),
            prefix: folder.join(basename),
            so_far,
            notes,
        })
    }

    /// Compares the records of the checkpoint that the run goes on from with what is there; says what was lost.
    pub(crate) fn resume(&mut self, records: &mut Records, events: &EventQueue) {
        let recorded = records.get(BEST_RECORD);
        let recorded = recorded.and_then(|text| text.parse::<BestSoFar>().ok());
        match (&self.so_far, recorded) {
            (Some(so_far), _) => {
                records.insert(BEST_RECORD, so_far.to_string());
            }
            (None, lost) => {
                records.remove(BEST_RECORD);
                if let Some(lost) = lost.filter(|lost| lost.best == self.best) {
                    self.notes.push(format!(
                        "the best checkpoint {} ({} {} at step {}) is not there: the next evaluation makes another",
                        lost.path, lost.best.metric, lost.value, lost.step
                    ));
                }
            }
        }
        for note in self.notes.drain(..) {
            events.push(Event::Note(note));
        }
    }

    /// Begins to save the state if the evaluation of this step was the best so far.
    pub(crate) fn consider(
        &mut self,
        session: &mut Session,
        saves: Saves,
        data: &mut Option<DataWatch>,
        events: &EventQueue,
        files: &EventFiles,
    ) -> Result<(), Error> {
        let step = session.global_step();
        let Best { eval, metric, .. } = &self.best;
        let value = events.evaluated(eval.as_deref(), metric, step);
        let Some(value) = value.filter(|value| self.is_better(*value)) else {
            return Ok(());
        };
        data.as_mut().map_or(Ok(()), DataWatch::ensure_unchanged)?;
        self.finished(events)?;
        let so_far = BestSoFar {
            best: self.best.clone(),
            value,
            step,
            path: self.path_at(step),
        };
        session.keep_position(saves);
        session
            .records_mut()
            .insert(BEST_RECORD, so_far.to_string());
        self.so_far = Some(so_far);
        files.flush();
        let (state, records) = (session.state(), session.records());
        self.saver
            .start(session.engine(), state, records, &self.prefix, step)
    }

    /// Whether a value is better than all before. NaN never is.
    fn is_better(&self, value: f64) -> bool {
        match (&self.so_far, self.best.mode) {
            (None, _) => !value.is_nan(),
            (Some(so_far), BestMode::Min) => value < so_far.value,
            (Some(so_far), BestMode::Max) => value > so_far.value,
        }
    }

    /// The path of the checkpoint of a step, relative to the folder of the run.
    fn path_at(&self, step: u64) -> String {
        let name = self.prefix.file_name().unwrap_or_default();
        let ending = match self.saver.format() {
            Some(Format::Safetensors) => ".safetensors",
            Some(Format::V1 | Format::V2) | None => "",
        };
        format!("{BEST_FOLDER}/{}-{step}{ending}", name.to_string_lossy())
    }

    /// Whether a save is done and was not waited for yet.
    pub(crate) fn is_finished(&self) -> bool {
        self.saver.is_finished()
    }

    /// Waits for the save that is under way, if there is one, and reports it.
    pub(crate) fn finished(&mut self, events: &EventQueue) -> Result<(), Error> {
        self.saver.report(events)
    }
}

impl fmt::Display for BestSoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Best { eval, metric, mode } = &self.best;
        let eval = eval.as_deref().unwrap_or("-");
        // The shortest digits that are read back as the same number.
        let (mode, value) = (mode.word(), self.value);
        write!(
            f,
            "{mode} {metric} {eval} {value:?} {} {}",
            self.step, self.path
        )
    }
}

impl FromStr for BestSoFar {
    type Err = Error;

    fn from_str(text: &str) -> Result<BestSoFar, Error> {
        let parsed = || {
            let words: Vec<&str> = text.splitn(6, ' ').collect();
            let [mode, metric, eval, value, step, path] = words[..] else {
                return None;
            };
            let modes = [BestMode::Min, BestMode::Max];
            Some(BestSoFar {
                best: Best {
                    eval: Some(eval).filter(|eval| *eval != "-").map(str::to_owned),
                    metric: metric.to_owned(),
                    mode: modes.into_iter().find(|m| m.word() == mode)?,
                },
                value: value.parse().ok()?,
                step: step.parse().ok()?,
                path: path.to_owned(),
            })
        };
        parsed().ok_or_else(|| {
            let cause = format!("the record of the best checkpoint is damaged: `{text}`");
            Error::new(Code::DataLoss, cause)
        })
    }
}

/// A choice in words: `the greatest accuracy of `unseen``.
struct Shown<'a>(&'a Best);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = match self.0.mode {
            BestMode::Min => "least",
            BestMode::Max => "greatest",
        };
        write!(f, "the {which} `{}`", self.0.metric)?;
        match &self.0.eval {
            Some(eval) => write!(f, " of `{eval}`"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_keeps_every_bit_and_odd_paths() {
        for (eval, value) in [(None, 0.1 + 0.2), (Some("unseen"), -f64::INFINITY)] {
            let one = BestSoFar {
                best: Best {
                    eval: eval.map(str::to_owned),
                    metric: "loss".to_owned(),
                    mode: BestMode::Min,
                },
                value,
                step: 7,
                path: "best/my model-7".to_owned(),
            };
            assert_eq!(one.to_string().parse::<BestSoFar>().unwrap(), one);
        }
        for wrong in ["", "max a - 1 2", "most a - 1 2 p", "max a - x 2 p"] {
            assert!(wrong.parse::<BestSoFar>().is_err(), "{wrong}");
        }
    }
}
