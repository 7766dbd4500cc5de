//! The report of a file of cases: which ran, which failed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use trainspec_ir::Tensor;

use crate::oracle::compare::{Tolerance, close};

/// What became of the cases of a file.
#[derive(Debug, Default)]
pub struct Report {
    /// By kind of case: how many ran and how many of them failed.
    ran: BTreeMap<String, (usize, usize)>,
    failures: Vec<String>,
    notes: Vec<String>,
}

/// What is wrong with a case, and what else is to be said about it.
#[derive(Debug, Default)]
pub struct Findings {
    /// What makes it fail.
    pub wrong: Vec<String>,
    /// What does not.
    pub notes: Vec<String>,
}

impl Findings {
    /// Compares a tensor that was found, or is missing, with what it should be.
    pub fn compare(
        &mut self,
        what: String,
        expected: &Tensor,
        found: Option<&Tensor>,
        tolerance: Tolerance,
    ) {
        let answer = match found {
            Some(found) => close(expected, found, tolerance),
            None => Err("is missing".to_owned()),
        };
        if let Err(why) = answer {
            self.wrong.push(format!("{what}: {why}"));
        }
    }
}

impl Report {
    /// Runs a case. A panic in it is a failure like others.
    pub fn case(&mut self, kind: &str, name: &str, run: impl FnOnce() -> Result<Findings, String>) {
        let findings = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(findings)) => findings,
            Ok(Err(wrong)) => Findings {
                wrong: vec![wrong],
                ..Findings::default()
            },
            Err(panic) => Findings {
                wrong: vec![format!("panics: {}", message(&*panic))],
                ..Findings::default()
            },
        };
        let (ran, failed) = self.ran.entry(kind.to_owned()).or_default();
        *ran += 1;
        *failed += usize::from(!findings.wrong.is_empty());
        let labelled = |what: String| format!("{name} ({kind}): {what}");
        self.failures
            .extend(findings.wrong.into_iter().map(labelled));
        self.notes.extend(findings.notes.into_iter().map(labelled));
    }

    /// How many cases ran.
    pub fn count(&self) -> usize {
        self.ran.values().map(|(ran, _)| ran).sum()
    }

    /// Prints the table of what ran.
    ///
    /// # Panics
    ///
    /// When something failed, or nothing ran.
    pub fn finish(self, title: &str) {
        let mut text = String::new();
        let width = self.ran.keys().map(String::len).max().unwrap_or(0);
        for (kind, (ran, failed)) in &self.ran {
            let failed = match failed {
                0 => String::new(),
                n => format!("  {n} failed"),
            };
            let _ = writeln!(text, "  {kind:width$} {ran:4}{failed}");
        }
        let failed: usize = self.ran.values().map(|(_, failed)| failed).sum();
        println!("{title}: {} cases, {failed} failed\n{text}", self.count());
        for note in &self.notes {
            println!("note: {note}");
        }
        assert!(self.count() > 0, "{title}: there are no cases");
        assert!(
            self.failures.is_empty(),
            "{title}: {failed} of {} cases fail:\n\n{}\n",
            self.count(),
            self.failures.join("\n")
        );
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
