//! `split (by: feature)`: one side of a split that the value of a feature decides.
//!
//! Records with one value are on one side, whatever else the data holds: a file that grows moves no record.

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::philox::Key;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::typed::{self, Holdout, Part};

use crate::Error;
use crate::data::block::Block;
use crate::data::{Position, Records, Stage};

/// The records of one side of the split.
pub(super) struct SplitBy {
    inner: Box<dyn Stage>,
    feature: String,
    key: Key,
    keeps_holdout: bool,
    /// Hashes below it are held out.
    threshold: u64,
}

impl SplitBy {
    pub(super) fn new(inner: Box<dyn Stage>, settings: &typed::Split) -> SplitBy {
        let fraction = match settings.holdout {
            Holdout::Fraction(fraction) => fraction,
            Holdout::Records(_) => unreachable!("with `by` the holdout is a fraction"),
        };
        SplitBy {
            inner,
            feature: settings.by.clone().unwrap_or_default(),
            key: Key::new(settings.seed, "split"),
            keeps_holdout: settings.part == Part::Holdout,
            threshold: (fraction * 2_f64.powi(32)) as u64,
        }
    }

    /// Whether a value is held out.
    fn is_held_out(&self, value: &[u8]) -> bool {
        // Eight bytes at a time, and the length last: different values have different sequences.
        let words = value.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            i64::from_le_bytes(word)
        });
        let key = words.fold(self.key, Key::fold);
        let hash = key.fold(value.len() as i64).block(0)[0];
        u64::from(hash) < self.threshold
    }
}

/// The bytes of each row of a column.
fn bytes_of_rows(column: &Tensor) -> Vec<Vec<u8>> {
    let rows = column.shape()[0];
    let stride: usize = column.shape()[1..].iter().product();
    macro_rules! numbers {
        ($values:expr) => {
            (0..rows)
                .map(|row| {
                    let row = &$values[row * stride..][..stride];
                    row.iter().flat_map(|x| x.to_le_bytes()).collect()
                })
                .collect()
        };
    }
    match column.data() {
        Data::F16(values) => numbers!(values),
        Data::Bf16(values) => numbers!(values),
        Data::F32(values) => numbers!(values),
        Data::F64(values) => numbers!(values),
        Data::I8(values) => numbers!(values),
        Data::I16(values) => numbers!(values),
        Data::I32(values) => numbers!(values),
        Data::I64(values) => numbers!(values),
        Data::U8(values) => numbers!(values),
        Data::Bool(values) => values
            .chunks(stride.max(1))
            .map(|row| row.iter().map(|b| u8::from(*b)).collect())
            .collect(),
        Data::String(values) => {
            // The length of each string keeps `["ab", ""]` and `["a", "b"]` apart.
            let framed = |text: &Vec<u8>| {
                let length = (text.len() as u64).to_le_bytes();
                text.iter().copied().chain(length).collect::<Vec<u8>>()
            };
            values
                .chunks(stride.max(1))
                .map(|row| row.iter().flat_map(framed).collect())
                .collect()
        }
    }
}

impl Stage for SplitBy {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        while let Some(block) = self.inner.next(max)? {
            let values = block
                .get(&self.feature)
                .map(bytes_of_rows)
                .unwrap_or_default();
            let is_own = |row: &usize| self.is_held_out(&values[*row]) == self.keeps_holdout;
            let own: Vec<usize> = (0..values.len()).filter(is_own).collect();
            if own.len() == block.rows() {
                return Ok(Some(block));
            }
            if !own.is_empty() {
                return Ok(Some(block.gather(&own)));
            }
        }
        Ok(None)
    }

    // As in a split by position, the stage before it gives the same records in every epoch.
    fn restart(&mut self) {
        self.inner.rewind();
    }

    fn rewind(&mut self) {
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.inner.seek(at)
    }
}
