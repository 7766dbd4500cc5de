//! `bucket_by_length`: batches of records of similar length.

use trainspec_ir::{Dim, Size, Span};

use crate::check::Checker;
use crate::check::bound::Bound;
use crate::check::data::Pipeline;
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{Batch, Buckets, Padding, Remainder};

/// The most buckets.
const MAX_BUCKETS: usize = 256;

impl Checker<'_> {
    /// `bucket_by_length (words, boundaries: [8, 16], size: 32)`
    pub(super) fn bucket_by_length(
        &mut self,
        bound: &Bound,
        pipeline: &mut Pipeline,
    ) -> Option<Batch> {
        let feature: String = bound.require("feature");
        let capacity = self.bucketed_capacity(&feature, bound.span_of("feature"), pipeline)?;
        let fail = |what: &str, message: String| {
            Some(Diagnostic::new(
                Code::BadValue,
                bound.span_of(what),
                message,
            ))
        };
        let boundaries: Vec<i64> = bound.require("boundaries");
        let sizes: Vec<i64> = bound.require("size");
        let is_ascending = boundaries.windows(2).all(|pair| pair[0] < pair[1]);
        let (first, last) = (boundaries.first().copied(), boundaries.last().copied());
        let error = if boundaries.is_empty() || boundaries.len() >= MAX_BUCKETS {
            let message = format!(
                "there are from 1 to {} boundaries, and these are {}",
                MAX_BUCKETS - 1,
                boundaries.len()
            );
            fail("boundaries", message)
        } else if !is_ascending || first.is_some_and(|n| n < 1) {
            fail(
                "boundaries",
                "boundaries are positive and ascending".to_owned(),
            )
        } else if let Some(last) = last.filter(|last| capacity.is_some_and(|n| *last > n)) {
            let most = capacity.unwrap_or(0);
            let message =
                format!("`{feature}` has at most {most} elements, and {last} is a boundary");
            fail("boundaries", message)
        } else if sizes.len() != 1 && sizes.len() != boundaries.len() + 1 {
            let message = format!(
                "{} boundaries make {} buckets, and there are {} sizes",
                boundaries.len(),
                boundaries.len() + 1,
                sizes.len()
            );
            fail("size", message)
                .map(|e| e.help("give one size for all, or a list with one for each"))
        } else if let Some(n) = sizes.iter().find(|n| **n < 1) {
            fail(
                "size",
                format!("a batch has at least 1 record, and not {n}"),
            )
        } else {
            None
        };
        if let Some(error) = error {
            self.report(error);
            return None;
        }
        let remainder = bound.keyword(
            "remainder",
            &[
                ("drop", Remainder::Drop),
                ("keep", Remainder::Keep),
                ("error", Remainder::Error),
            ],
        );
        let is_even = sizes.iter().all(|n| *n == sizes[0]);
        let dim = match remainder {
            Some(Remainder::Keep) => Size::named("batch"),
            _ if !is_even => Size::named("batch"),
            Some(Remainder::Drop | Remainder::Error) | None => Size::fixed(sizes[0]),
        };
        let count = |n: &i64| u64::try_from(*n).unwrap_or(1);
        let all: Vec<u64> = match sizes.as_slice() {
            [one] => vec![count(one); boundaries.len() + 1],
            each => each.iter().map(count).collect(),
        };
        let batch = Batch {
            size: all.iter().copied().max().unwrap_or(1),
            remainder,
            padding: Padding::Longest,
            counted: counted_features(pipeline),
            buckets: Some(Buckets {
                feature,
                boundaries: boundaries.iter().map(count).collect(),
                sizes: all,
                pads_to_boundary: bound
                    .keyword("pad", &[("longest", false), ("boundary", true)])
                    .unwrap_or(false),
            }),
        };
        self.add_batch(pipeline, bound.span, Dim::exact(dim), false);
        Some(batch)
    }

    /// The capacity of the feature whose lengths decide.
    fn bucketed_capacity(
        &mut self,
        feature: &str,
        span: Span,
        pipeline: &Pipeline,
    ) -> Option<Option<i64>> {
        let Some((ty, declared)) = pipeline.elements.get(feature) else {
            let known = pipeline.elements.keys().map(String::as_str);
            let help = nearest(feature, known).map(|n| format!("did you mean `{n}`?"));
            let message = format!("there is no feature `{feature}` whose length decides");
            let error = Diagnostic::new(Code::UnknownName, span, message);
            self.report(error.maybe_help(help));
            return None;
        };
        match ty.shape.0.first() {
            Some(first) if first.count.is_some() => Some(first.size.value()),
            _ => {
                let message = format!("all records have `{feature}` of one length");
                let error = Diagnostic::new(Code::TypeMismatch, span, message)
                    .note_at(*declared, format!("it is `{ty}`"))
                    .help("a feature of varying length has a capacity: `i64[<=50]`; for this one write `batch`");
                self.report(error);
                None
            }
        }
    }
}

/// The features that have run-time counts.
pub(super) fn counted_features(pipeline: &Pipeline) -> Vec<crate::typed::CountedFeature> {
    let counted = pipeline.elements.iter().filter_map(|(name, (ty, _))| {
        let dims = ty.shape.0.iter().enumerate();
        let axes: Vec<usize> = dims
            .filter_map(|(i, d)| d.count.as_ref().map(|_| i))
            .collect();
        (!axes.is_empty()).then(|| crate::typed::CountedFeature {
            name: name.clone(),
            axes,
        })
    });
    counted.collect()
}
