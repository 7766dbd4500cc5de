//! Tensor slices (`TensorSlice`): parsing and printing, intersection, and the cover of one slice by stored ones.

use std::fmt;
use std::str::FromStr;

use crate::error::{FileKind, FormatError, Result};
use crate::memory;
use crate::proto::{TensorSliceProto, tensor_slice_proto};
use crate::tensor::{BytesColumn, Elements, Tensor, count};

/// A slice (rectangular region) of a tensor: one extent for each dimension.
///
/// It prints as in TensorFlow: `start,length` for each dimension, `-` for a full one, joined by `:`.
///
/// ```
/// use trainspec_formats::checkpoint::{Extent, Slice};
///
/// let rows: Slice = "3,2:-".parse()?;
/// assert_eq!(rows.0, [Extent::Part { start: 3, length: 2 }, Extent::Full]);
/// assert_eq!(rows.to_string(), "3,2:-");
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slice(pub Vec<Extent>);

/// The extent of a slice in one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// The full dimension (`kFullExtent`).
    Full,
    /// A range of it.
    Part {
        /// The first index.
        start: usize,
        /// The number of indices.
        length: usize,
    },
}

impl Slice {
    /// The full slice of a tensor of this rank.
    pub fn full(rank: usize) -> Slice {
        Slice(vec![Extent::Full; rank])
    }

    /// The shape of the slice of a tensor.
    pub fn shape(&self, tensor: &[usize]) -> Result<Vec<usize>> {
        Ok(self.region(tensor)?.0.iter().map(|side| side.1).collect())
    }

    /// Its region in a tensor of some shape.
    pub(crate) fn region(&self, tensor: &[usize]) -> Result<Region> {
        let misfit = || {
            FormatError::invalid(
                FileKind::Other,
                format!("the slice {self} is no part of a tensor of shape {tensor:?}"),
            )
        };
        if self.0.len() != tensor.len() {
            return Err(misfit());
        }
        let sides = self.0.iter().zip(tensor).map(|(&extent, &size)| {
            let (start, length) = match extent {
                Extent::Full => (0, size),
                Extent::Part { start, length } => (start, length),
            };
            let end = start.checked_add(length);
            end.filter(|&end| end <= size).map(|_| (start, length))
        });
        sides.collect::<Option<_>>().map(Region).ok_or_else(misfit)
    }

    pub(crate) fn to_proto(&self) -> TensorSliceProto {
        use tensor_slice_proto::{Extent as Proto, extent::HasLength};
        let extent = |extent: &Extent| match *extent {
            Extent::Full => Proto::default(),
            Extent::Part { start, length } => Proto {
                start: start as i64,
                has_length: Some(HasLength::Length(length as i64)),
            },
        };
        TensorSliceProto {
            extent: self.0.iter().map(extent).collect(),
        }
    }

    /// `None` if a number is negative.
    pub(crate) fn from_proto(proto: &TensorSliceProto) -> Option<Slice> {
        use tensor_slice_proto::extent::HasLength;
        let extents = proto.extent.iter().map(|extent| match extent.has_length {
            None => (extent.start == 0).then_some(Extent::Full),
            Some(HasLength::Length(length)) => Some(Extent::Part {
                start: usize::try_from(extent.start).ok()?,
                length: usize::try_from(length).ok()?,
            }),
        });
        extents.collect::<Option<_>>().map(Slice)
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, extent) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(":")?;
            }
            match extent {
                Extent::Full => f.write_str("-")?,
                Extent::Part { start, length } => write!(f, "{start},{length}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Slice {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Slice> {
        let part = |text: &str| match text {
            "-" => Some(Extent::Full),
            _ => {
                let (start, length) = text.split_once(',')?;
                Some(Extent::Part {
                    start: start.parse().ok()?,
                    length: length.parse().ok().filter(|&length| length > 0)?,
                })
            }
        };
        let parts = match text.is_empty() {
            true => Some(Vec::new()),
            false => text.split(':').map(part).collect(),
        };
        parts.map(Slice).ok_or_else(|| {
            FormatError::invalid(
                FileKind::Other,
                format!("`{text}` is no slice: expected `start,length` or `-` for each dimension"),
            )
        })
    }
}

/// A slice in numbers: start and length in each dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region(pub(crate) Vec<(usize, usize)>);

impl Region {
    /// The number of elements; `None` if it overflows.
    pub(crate) fn volume(&self) -> Option<usize> {
        count(&self.0.iter().map(|side| side.1).collect::<Vec<_>>())
    }

    /// The intersection of two regions.
    pub(crate) fn intersect(&self, other: &Region) -> Option<Region> {
        let sides = self.0.iter().zip(&other.0).map(|(a, b)| {
            let start = a.0.max(b.0);
            let end = (a.0 + a.1).min(b.0 + b.1);
            (start < end).then(|| (start, end - start))
        });
        sides.collect::<Option<_>>().map(Region)
    }
}

/// Copies a slice out of a tensor.
pub(crate) fn extract(tensor: &Tensor, slice: &Slice) -> Result<Tensor> {
    let requested = slice.region(tensor.shape())?;
    let whole = Slice::full(tensor.shape().len()).region(tensor.shape())?;
    let shape = slice.shape(tensor.shape())?;
    match tensor.elements() {
        Elements::Bytes(bytes) => {
            let size = tensor.dtype().size().unwrap_or(1);
            let mut out = Vec::new();
            let volume = requested.volume().unwrap_or(0);
            memory::reserve(FileKind::Other, &mut out, volume * size)?;
            for run in runs(&whole, &requested) {
                out.extend_from_slice(&bytes[run.from * size..(run.from + run.length) * size]);
            }
            Tensor::new(tensor.dtype(), &shape, out)
        }
        Elements::Strings(strings) => {
            let mut out = BytesColumn::default();
            for run in runs(&whole, &requested) {
                for i in run.from..run.from + run.length {
                    out.try_push(FileKind::Other, &strings[i])?;
                }
            }
            Tensor::of_strings(tensor.dtype(), &shape, out)
        }
    }
}

/// The stored regions that cover the requested one. They must do so exactly: no element twice, none missing.
pub(crate) fn cover(
    stored: &[Region],
    requested: &Region,
) -> std::result::Result<Vec<usize>, CoverError> {
    let met: Vec<(usize, Region)> = stored
        .iter()
        .enumerate()
        .filter_map(|(i, region)| Some((i, region.intersect(requested)?)))
        .collect();
    let volume = |region: &Region| region.volume().map(|v| v as u128);
    let total: Option<u128> = met.iter().map(|(_, region)| volume(region)).sum();
    let (Some(total), Some(needed)) = (total, volume(requested)) else {
        return Err(CoverError::Overlap);
    };
    if total < needed {
        return Err(CoverError::Missing);
    }
    if total > needed || overlap(&met, requested).map_err(CoverError::Memory)? {
        return Err(CoverError::Overlap);
    }
    Ok(met.into_iter().map(|(i, _)| i).collect())
}

/// Why stored regions do not cover the requested one.
#[derive(Debug)]
pub(crate) enum CoverError {
    Missing,
    Overlap,
    /// There is no memory to find out.
    Memory(FormatError),
}

/// Joins the strings of stored regions, which cover the requested one exactly.
pub(crate) fn join_strings(
    kind: FileKind,
    stored: &[(Region, BytesColumn)],
    requested: &Region,
) -> Result<BytesColumn> {
    let mut pieces: Vec<(Run, usize)> = Vec::new();
    for (which, (region, _)) in stored.iter().enumerate() {
        for run in runs(region, requested) {
            memory::push(kind, &mut pieces, (run, which))?;
        }
    }
    pieces.sort_unstable_by_key(|(run, _)| run.to);
    let mut out = BytesColumn::default();
    for (run, which) in pieces {
        for i in run.from..run.from + run.length {
            out.try_push(kind, &stored[which].1[i])?;
        }
    }
    Ok(out)
}

/// Whether two of the regions, which together are as large as `frame` and inside it, have an element in common.
fn overlap(met: &[(usize, Region)], frame: &Region) -> Result<bool> {
    // A few are compared in pairs; for many, a bitmap of elements is filled, so that the time is linear.
    if met.len() <= 4096 {
        let mut regions = met.iter().enumerate();
        let meets = |(i, (_, a)): (usize, &(usize, Region))| {
            met[..i].iter().any(|(_, b)| a.intersect(b).is_some())
        };
        return Ok(regions.any(meets));
    }
    let mut seen = memory::zeros(FileKind::Other, frame.volume().unwrap_or(0))?;
    Ok(met.iter().any(|(_, region)| {
        runs(region, frame).any(|run| {
            let cells = &mut seen[run.to..run.to + run.length];
            let taken = cells.contains(&1);
            cells.fill(1);
            taken
        })
    }))
}

/// A run of elements that is contiguous both in the source and in the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) length: usize,
}

/// The intersection of two regions as contiguous runs, in the order of the first.
pub(crate) fn runs(from: &Region, to: &Region) -> impl Iterator<Item = Run> + use<> {
    let common = from.intersect(to);
    let rank = from.0.len();
    let sides = common.map(|region| region.0).unwrap_or_default();
    let empty = sides.len() != rank;
    // Trailing dimensions that are full in both belong to the run, and so does the one before them.
    let whole = (0..rank)
        .rev()
        .take_while(|&d| !empty && sides[d].1 == from.0[d].1 && sides[d].1 == to.0[d].1)
        .count();
    let outer = rank.saturating_sub(whole + 1);
    let length: usize = match empty {
        true => 0,
        false => sides[outer..].iter().map(|side| side.1).product(),
    };
    let (from_strides, to_strides) = (strides(from), strides(to));
    let start = |region: &Region, strides: &[usize]| -> usize {
        let offsets = sides.iter().zip(&region.0).zip(strides);
        offsets.map(|((a, b), stride)| (a.0 - b.0) * stride).sum()
    };
    let mut next = Run {
        from: start(from, &from_strides),
        to: start(to, &to_strides),
        length,
    };
    let mut index = vec![0; outer];
    let mut done = empty;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let run = next;
        done = true;
        for d in (0..outer).rev() {
            index[d] += 1;
            next.from += from_strides[d];
            next.to += to_strides[d];
            if index[d] < sides[d].1 {
                done = false;
                break;
            }
            next.from -= index[d] * from_strides[d];
            next.to -= index[d] * to_strides[d];
            index[d] = 0;
        }
        Some(run)
    })
}

fn strides(region: &Region) -> Vec<usize> {
    let mut strides = vec![1; region.0.len()];
    // An overflow happens only in a region without elements, which has no runs.
    for d in (1..strides.len()).rev() {
        strides[d - 1] = usize::saturating_mul(strides[d], region.0[d].1);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(sides: &[(usize, usize)]) -> Region {
        Region(sides.to_vec())
    }

    #[test]
    fn runs_are_as_long_as_they_can_be() {
        let tensor = region(&[(0, 4), (0, 5)]);
        let rows: Vec<Run> = runs(&region(&[(1, 2), (0, 5)]), &tensor).collect();
        let run = |from, to, length| Run { from, to, length };
        assert_eq!(rows, [run(0, 5, 10)]);
        let columns: Vec<Run> = runs(&region(&[(0, 4), (2, 3)]), &tensor).collect();
        assert_eq!(
            columns,
            [run(0, 2, 3), run(3, 7, 3), run(6, 12, 3), run(9, 17, 3)]
        );
        let inner: Vec<Run> = runs(&tensor, &region(&[(1, 2), (2, 2)])).collect();
        assert_eq!(inner, [run(7, 0, 2), run(12, 2, 2)]);
        let scalar: Vec<Run> = runs(&region(&[]), &region(&[])).collect();
        assert_eq!(scalar, [run(0, 0, 1)]);
        assert_eq!(runs(&region(&[(0, 0)]), &region(&[(0, 0)])).count(), 0);
        let empty = region(&[(0, 0), (0, 1 << 40), (0, 1 << 40)]);
        assert_eq!(runs(&empty, &empty).count(), 0);
    }

    #[test]
    fn every_element_of_a_partitioned_tensor_comes_once() {
        // A tensor of rank 3 whose element is its index, partitioned in all ways into two slices along each dimension.
        let shape = [3, 4, 5];
        let whole = Slice::full(3).region(&shape).unwrap();
        for (a, b, c) in [(1, 1, 1), (2, 3, 4), (1, 2, 3), (2, 1, 4)] {
            let sides = |n: usize, cut: usize| [(0, cut), (cut, n - cut)];
            let mut made = [usize::MAX; 60];
            let mut parts = Vec::new();
            for x in sides(3, a) {
                for y in sides(4, b) {
                    for z in sides(5, c) {
                        let part = region(&[x, y, z]);
                        let mut elements = vec![0; part.volume().unwrap()];
                        for run in runs(&whole, &part) {
                            for i in 0..run.length {
                                elements[run.to + i] = run.from + i;
                            }
                        }
                        for run in runs(&part, &whole) {
                            made[run.to..run.to + run.length]
                                .copy_from_slice(&elements[run.from..run.from + run.length]);
                        }
                        parts.push(part);
                    }
                }
            }
            assert!(made.iter().enumerate().all(|(i, &e)| i == e));
            assert!(cover(&parts, &whole).unwrap().into_iter().eq(0..8));
            let missing = cover(&parts[1..], &whole);
            assert!(matches!(missing, Err(CoverError::Missing)));
            parts.push(parts[0].clone());
            assert!(matches!(cover(&parts, &whole), Err(CoverError::Overlap)));
        }
    }

    #[test]
    fn many_slices_are_checked_too() {
        let mut parts: Vec<Region> = (0..5000).map(|i| region(&[(i, 1)])).collect();
        let whole = region(&[(0, 5000)]);
        assert!(cover(&parts, &whole).unwrap().into_iter().eq(0..5000));
        parts[7] = region(&[(8, 1)]);
        assert!(matches!(cover(&parts, &whole), Err(CoverError::Overlap)));
    }

    #[test]
    fn invalid_slices_are_refused() {
        for text in ["1", "1,", ",1", "1,0", "-1,2", "1,2:", "a,b", "1,2,3", "--"] {
            assert!(text.parse::<Slice>().is_err(), "{text}");
        }
        assert!("0,3".parse::<Slice>().unwrap().region(&[2]).is_err());
        assert!("0,3".parse::<Slice>().unwrap().region(&[3, 3]).is_err());
    }
}
