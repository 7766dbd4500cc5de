//! `tf.strided_slice`: a strided block of a tensor, as indexing `x[a..b by s]` means it.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::{exact_dim, fits, known_negative, length};
use crate::size::Size;
use crate::types::{Class, Dim, TensorType};

/// `input` from `begin` to before `end` in steps of `strides`.
///
/// Bit i of a mask concerns entry i of the lists: `begin_mask` and `end_mask` take the tensor's own border, the one of
/// `ellipsis_mask` stands for all dimensions that no other entry concerns, `new_axis_mask` puts in a dimension of 1, and
/// `shrink_axis_mask` takes the one position `begin` and drops the dimension. Positions below 0 count from the end.
pub(super) static OP: Op = Op {
    name: "strided_slice",
    aliases: &[],
    doc: "The elements from `begin` to before `end` in steps of `strides`, dimension by dimension; bits of the masks change what an entry means.",
    params: &[
        Param::required("input", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("begin", Kind::Ints),
        Param::required("end", Kind::Ints),
        Param::optional("strides", Kind::Ints),
        Param::with("begin_mask", Kind::Int, Default::Int(0)),
        Param::with("end_mask", Kind::Int, Default::Int(0)),
        Param::with("ellipsis_mask", Kind::Int, Default::Int(0)),
        Param::with("new_axis_mask", Kind::Int, Default::Int(0)),
        Param::with("shrink_axis_mask", Kind::Int, Default::Int(0)),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

/// A slice of the tensor, reversed first along the dimensions with negative strides.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let input = l.value("input");
    let mut cuts = Cuts::default();
    let entries = entries(l.call)?;
    let taken = |e: &&Entry<'_>| matches!(e, Entry::At(_) | Entry::Range(_));
    let full_dims = input.rank() - entries.iter().filter(taken).count();
    let mut left = input.shape().into_iter().map(|n| n as i64);
    for entry in &entries {
        match entry {
            Entry::Ellipsis => left.by_ref().take(full_dims).for_each(|n| cuts.all(n)),
            Entry::NewAxis => {}
            Entry::At(position) => {
                let n = left.next().expect("the rule counted the dimensions");
                let at = known(position)?;
                cuts.add(n, (if at < 0 { at + n } else { at }, 1), 1);
            }
            Entry::Range(range) => {
                let n = left.next().expect("the rule counted the dimensions");
                for border in range.begin.into_iter().chain(range.end) {
                    known(border)?;
                }
                let elements = range.elements(n).ok_or_else(RuleError::overflow)?;
                cuts.add(n, elements, range.stride);
            }
        }
    }
    left.for_each(|n| cuts.all(n));
    let reversed = input.reverse(&cuts.reversed);
    let part = reversed.slice(&cuts.begin, &cuts.size, &cuts.stride);
    Ok(vec![part.reshape(&l.shape(0))])
}

/// The slice of each dimension.
#[derive(Default)]
struct Cuts {
    begin: Vec<usize>,
    size: Vec<usize>,
    stride: Vec<usize>,
    /// The dimensions that are reversed first.
    reversed: Vec<usize>,
}

impl Cuts {
    /// All `n` elements of the next dimension.
    fn all(&mut self, n: i64) {
        self.add(n, (0, n), 1);
    }

    /// Of the `n` elements of the next dimension `extent` from `first` on, `stride` apart.
    fn add(&mut self, n: i64, (first, extent): (i64, i64), stride: i64) {
        let (begin, stride) = match extent {
            0 => (0, 1),
            1 => (first, 1),
            _ if stride < 0 => {
                self.reversed.push(self.begin.len());
                (n - 1 - first, -stride)
            }
            _ => (first, stride),
        };
        self.begin.push(begin as usize);
        self.size.push(extent as usize);
        self.stride.push(stride as usize);
    }
}

fn known(position: &Size) -> Result<i64, RuleError> {
    let value = position.value();
    value.ok_or_else(|| RuleError::unknown_size("begin", position))
}

/// The masks are 32 bits wide in TensorFlow.
const MAX_ENTRIES: usize = 32;

/// One entry of the lists.
enum Entry<'a> {
    Ellipsis,
    NewAxis,
    /// One position, whose dimension is dropped.
    At(&'a Size),
    Range(Range<'a>),
}

/// A range of positions; a border that is left out is the tensor's own.
struct Range<'a> {
    begin: Option<&'a Size>,
    end: Option<&'a Size>,
    stride: i64,
}

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let input = call.tensor("input");
    let entries = entries(call)?;
    let taken = entries
        .iter()
        .filter(|e| matches!(e, Entry::At(_) | Entry::Range(_)))
        .count();
    let Some(full_dims) = input.rank().checked_sub(taken) else {
        return Err(RuleError::new(
            RuleErrorKind::RankMismatch,
            format!(
                "{taken} dimensions are indexed, but the tensor has only {}",
                input.rank()
            ),
        )
        .at("begin"));
    };
    let mut left = input.shape.0.iter().enumerate();
    let mut dims = Vec::new();
    for entry in entries {
        match entry {
            Entry::Ellipsis => dims.extend(left.by_ref().take(full_dims).map(|(_, d)| d.clone())),
            Entry::NewAxis => dims.push(Dim::fixed(1)),
            Entry::At(position) => {
                let (i, dim) = left.next().expect("the rank was checked");
                inside(i, dim, position)?;
            }
            Entry::Range(range) => {
                let (_, dim) = left.next().expect("the rank was checked");
                dims.push(range.of(dim)?);
            }
        }
    }
    // Without an ellipsis the dimensions after the last entry are taken in full.
    dims.extend(left.map(|(_, d)| d.clone()));
    fits(input.with_dims(dims))
}

fn entries<'a>(call: &Call<'a>) -> Result<Vec<Entry<'a>>, RuleError> {
    let (begin, end) = (call.sizes("begin"), call.sizes("end"));
    if begin.len() > MAX_ENTRIES {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("{} entries are more than {MAX_ENTRIES}", begin.len()),
        )
        .at("begin"));
    }
    length("end", end.len(), begin.len(), "of `begin`")?;
    let strides = match call.ints_opt("strides")? {
        Some(strides) => strides,
        None => vec![1; begin.len()],
    };
    length("strides", strides.len(), begin.len(), "of `begin`")?;
    let [no_begin, no_end] = [mask(call, "begin_mask")?, mask(call, "end_mask")?];
    let ellipsis = mask(call, "ellipsis_mask")?;
    let [new_axis, shrink] = [
        mask(call, "new_axis_mask")?,
        mask(call, "shrink_axis_mask")?,
    ];
    if ellipsis.count_ones() > 1 {
        return Err(
            RuleError::new(RuleErrorKind::BadValue, "there is more than one ellipsis")
                .at("ellipsis_mask"),
        );
    }
    let mut entries = Vec::with_capacity(begin.len());
    for (i, stride) in strides.into_iter().enumerate() {
        let bit = |mask: u32| mask >> i & 1 == 1;
        // The order is TensorFlow's, where several bits are set for one entry.
        entries.push(if bit(ellipsis) {
            Entry::Ellipsis
        } else if bit(new_axis) {
            Entry::NewAxis
        } else if bit(shrink) {
            if stride <= 0 {
                return Err(bad_stride(
                    "one position is taken by a step above 0",
                    stride,
                ));
            }
            Entry::At(&begin[i])
        } else {
            if stride == 0 {
                return Err(bad_stride("steps must lead somewhere", stride));
            }
            Entry::Range(Range {
                begin: (!bit(no_begin)).then_some(&begin[i]),
                end: (!bit(no_end)).then_some(&end[i]),
                stride,
            })
        });
    }
    Ok(entries)
}

fn mask(call: &Call<'_>, param: &'static str) -> Result<u32, RuleError> {
    let mask = call.int(param)?;
    u32::try_from(mask).map_err(|_| {
        RuleError::new(
            RuleErrorKind::BadValue,
            format!("`{param}` must have 32 bits, but is {mask}"),
        )
        .at(param)
    })
}

fn bad_stride(why: &str, stride: i64) -> RuleError {
    RuleError::new(
        RuleErrorKind::BadValue,
        format!("{why}, but the step is {stride}"),
    )
    .at("strides")
}

/// An index must lie in its dimension, where both are known.
fn inside(i: usize, dim: &Dim, position: &Size) -> Result<(), RuleError> {
    let size = exact_dim("input", dim)?;
    let (Some(n), Some(at)) = (size.value(), position.value()) else {
        return Ok(());
    };
    if (-n..n).contains(&at) {
        return Ok(());
    }
    let error = RuleError::new(
        RuleErrorKind::IndexOutOfRange,
        format!("position {at} does not exist: dimension {i} has {n}"),
    )
    .at("begin");
    Err(if n == 0 {
        error
    } else {
        error.help(format!("use a position from {} to {}", -n, n - 1))
    })
}

impl Range<'_> {
    /// What the range leaves of a dimension.
    fn of(&self, dim: &Dim) -> Result<Dim, RuleError> {
        let from_start = self.begin.is_none_or(|b| *b == Size::fixed(0));
        if from_start && self.end.is_none() && self.stride == 1 {
            return Ok(dim.clone());
        }
        let size = exact_dim("input", dim)?;
        let known = |p: Option<&Size>| p.map(Size::value).unwrap_or(Some(0)).is_some();
        let extent = match size.value() {
            Some(n) if known(self.begin) && known(self.end) => self.clamped(n.max(0)),
            _ => self.symbolic(size)?,
        };
        Ok(Dim::exact(extent.ok_or_else(RuleError::overflow)?))
    }

    /// With all known: bounds outside are clamped, as Python does.
    fn clamped(&self, n: i64) -> Option<Size> {
        let (_, extent) = self.elements(n)?;
        Some(Size::fixed(extent))
    }

    /// The position of the first element and how many there are, with all known.
    fn elements(&self, n: i64) -> Option<(i64, i64)> {
        let forward = self.stride > 0;
        // Backwards the range may end before the first element, so its borders are one less.
        let (min, max) = if forward { (0, n) } else { (-1, n - 1) };
        let bound = |p: i64| if p < 0 { p.saturating_add(n) } else { p }.clamp(min, max);
        let begin = self.begin.and_then(Size::value).map(bound);
        let end = self.end.and_then(Size::value).map(bound);
        let (begin, way, step) = if forward {
            let begin = begin.unwrap_or(0);
            (begin, end.unwrap_or(n) - begin, self.stride)
        } else {
            let begin = begin.unwrap_or(n - 1);
            (begin, begin - end.unwrap_or(-1), self.stride.checked_neg()?)
        };
        let extent = if way > 0 { (way - 1) / step + 1 } else { 0 };
        Some((begin, extent))
    }

    /// With symbolic sizes: bounds are taken to lie inside, and a symbolic one to count from the start.
    fn symbolic(&self, size: &Size) -> Result<Option<Size>, RuleError> {
        let negative = |p: Option<&Size>| p.is_some_and(known_negative);
        let forward = self.stride > 0;
        let (low, high) = if forward {
            (self.begin, self.end)
        } else {
            (self.end, self.begin)
        };
        // Which of the two borders comes first would depend on the size.
        if negative(low) && high.is_some_and(|p| !known_negative(p)) && size.value().is_none() {
            return Err(RuleError::new(
                RuleErrorKind::UnknownSize,
                format!("how much this leaves of {size} elements is not known until run time"),
            )
            .at("begin")
            .help("count both positions from the same end"));
        }
        Ok(self.symbolic_extent(size, forward))
    }

    fn symbolic_extent(&self, size: &Size, forward: bool) -> Option<Size> {
        let bound = |p: &Size| {
            if known_negative(p) {
                size.add(p)
            } else {
                Some(p.clone())
            }
        };
        let one = Size::fixed(1);
        let (begin, end) = if forward {
            (
                self.begin.map_or(Some(Size::fixed(0)), bound)?,
                self.end.map_or(Some(size.clone()), bound)?,
            )
        } else {
            let last = size.sub(&one);
            (
                self.begin.map_or(last, bound)?,
                self.end.map_or(Some(Size::fixed(-1)), bound)?,
            )
        };
        let (distance, step) = if forward {
            (end.sub(&begin)?, self.stride)
        } else {
            (begin.sub(&end)?, self.stride.checked_neg()?)
        };
        let extent = distance.ceil_div(&Size::fixed(step))?;
        Some(if known_negative(&extent) {
            Size::fixed(0)
        } else {
            extent
        })
    }
}
