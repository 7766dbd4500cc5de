//! Textual form of settings: the word, then all arguments by name, defaults included.

use std::fmt::{self, Display, Formatter};

use crate::syntax::quote;
use crate::typed::*;

/// Writes `word (name: value, ...)`; an argument without a value is left out.
fn write_setting(
    f: &mut Formatter<'_>,
    word: &str,
    arguments: &[(&str, Option<String>)],
) -> fmt::Result {
    f.write_str(word)?;
    let given =
        |(name, value): &(&str, Option<String>)| Some(format!("{name}: {}", value.as_ref()?));
    let list: Vec<String> = arguments.iter().filter_map(given).collect();
    match list.as_slice() {
        [] => Ok(()),
        _ => write!(f, " ({})", list.join(", ")),
    }
}

fn shown(value: impl Display) -> Option<String> {
    Some(value.to_string())
}

fn list(values: impl IntoIterator<Item = impl Display>) -> Option<String> {
    let list: Vec<String> = values.into_iter().map(|v| v.to_string()).collect();
    Some(format!("[{}]", list.join(", ")))
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let paths = |files: &[FilePattern]| list(files.iter().map(|file| quote(&file.pattern)));
        let mut arguments: Vec<(&str, Option<String>)> = Vec::new();
        match &self.kind {
            SourceKind::TfRecord { files, compression } => {
                arguments.push(("path", paths(files)));
                arguments.push(("compression", shown(compression.word())));
            }
            SourceKind::Csv {
                files,
                compression,
                delimiter,
                header,
                missing,
            } => {
                arguments.push(("path", paths(files)));
                arguments.push(("header", shown(header)));
                let delimiter = quote(&char::from(*delimiter).to_string());
                arguments.push(("delimiter", Some(delimiter)));
                let missing = missing.as_ref();
                let missing = missing.and_then(|words| list(words.iter().map(|word| quote(word))));
                arguments.push(("missing", missing));
                // What is not written does not count: a run that was begun without the argument goes on.
                let is_auto = *compression == Compression::Auto;
                let compression = shown(compression.word()).filter(|_| !is_auto);
                arguments.push(("compression", compression));
            }
            SourceKind::Text {
                files,
                compression,
                unit,
            } => {
                arguments.push(("path", paths(files)));
                arguments.push(("unit", shown(unit.word())));
                arguments.push(("compression", shown(compression.word())));
            }
            SourceKind::Arrays { files, .. } => match files {
                ArrayFiles::Shared(files) => arguments.push(("path", paths(files))),
                ArrayFiles::ByKey(all) => {
                    arguments.extend(all.iter().map(|(key, files)| (key.as_str(), paths(files))));
                }
            },
            SourceKind::Files { files, resize } => {
                arguments.push(("path", paths(files)));
                arguments.push(("resize", resize.and_then(|way| shown(way.word()))));
            }
            SourceKind::Memory { name } => arguments.push(("name", Some(quote(name)))),
            SourceKind::Registered(registered) => return write!(f, "{registered}"),
            // The parts themselves are printed after it.
            SourceKind::Mix { parts, seed, until } => {
                let weights = parts.iter();
                arguments.extend(weights.map(|p| (p.data.name.as_str(), shown(p.weight))));
                arguments.push(("seed", seed.and_then(shown)));
                arguments.push(("until", shown(until.word())));
            }
            SourceKind::Zip { parts } => {
                let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
                return write!(f, "zip ({})", names.join(", "));
            }
        }
        let skip = self.max_skipped.map(|max| format!("skip(max: {max})"));
        arguments.push(("on_error", skip));
        write_setting(f, self.word(), &arguments)
    }
}

impl Display for Registered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let arguments = self.arguments.iter();
        let arguments: Vec<_> = arguments.map(|(n, v)| (n.as_str(), shown(v))).collect();
        write_setting(f, &quote(&self.name), &arguments)
    }
}

impl Display for FeatureDefault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = match self {
            FeatureDefault::Floats(values) => values.iter().map(|x| format!("{x:?}")).collect(),
            FeatureDefault::Ints(values) => values.iter().map(ToString::to_string).collect(),
            FeatureDefault::Strings(values) => values.iter().map(|s| quote(s)).collect(),
        };
        // One value that all elements share is written once.
        match values.as_slice() {
            [first, rest @ ..] if rest.iter().all(|value| value == first) => f.write_str(first),
            values => write!(f, "[{}]", values.join(", ")),
        }
    }
}

/// The stages that have no program.
pub(super) fn write_plain_stage(f: &mut Formatter<'_>, stage: &StageKind) -> fmt::Result {
    match stage {
        StageKind::Map { .. } | StageKind::Filter { .. } => Ok(()),
        StageKind::Column(op) => write!(f, "{op}"),
        StageKind::Drop { name } => write_setting(f, "drop", &[("name", shown(name))]),
        StageKind::Shuffle { buffer, seed } => {
            let arguments = [
                ("buffer", buffer.and_then(shown)),
                ("seed", seed.and_then(shown)),
            ];
            write_setting(f, "shuffle", &arguments)
        }
        StageKind::Epochs { count } => write_setting(f, "epochs", &[("count", shown(count))]),
        StageKind::Repeat => write_setting(f, "repeat", &[]),
        StageKind::Batch(batch) => {
            let remainder = match batch.remainder {
                None => "none",
                Some(Remainder::Drop) => "drop",
                Some(Remainder::Keep) => "keep",
                Some(Remainder::Error) => "error",
            };
            if let Some(buckets) = &batch.buckets {
                let pad = match buckets.pads_to_boundary {
                    true => "boundary",
                    false => "longest",
                };
                let arguments = [
                    ("feature", shown(&buckets.feature)),
                    ("boundaries", list(&buckets.boundaries)),
                    ("size", list(&buckets.sizes)),
                    ("pad", shown(pad)),
                    ("remainder", shown(remainder)),
                ];
                return write_setting(f, "bucket_by_length", &arguments);
            }
            let arguments = [
                ("size", shown(batch.size)),
                ("remainder", shown(remainder)),
                ("pad", shown(batch.padding == Padding::Capacity)),
            ];
            write_setting(f, "batch", &arguments)
        }
        StageKind::Take { count } => write_setting(f, "take", &[("count", shown(count))]),
        StageKind::Skip { count } => write_setting(f, "skip", &[("count", shown(count))]),
        StageKind::Split(split) => {
            let part = match split.part {
                Part::Train => "train",
                Part::Holdout => "holdout",
            };
            let holdout = match split.holdout {
                Holdout::Records(n) => n.to_string(),
                Holdout::Fraction(x) => format!("{x:?}"),
            };
            let arguments = [
                ("part", shown(part)),
                ("holdout", Some(holdout)),
                ("seed", shown(split.seed)),
                ("by", split.by.as_ref().and_then(shown)),
            ];
            write_setting(f, "split", &arguments)
        }
        StageKind::Interleave { cycle, block } => {
            let arguments = [("cycle", shown(cycle)), ("block", shown(block))];
            write_setting(f, "interleave", &arguments)
        }
        StageKind::Window { size, shift } => {
            let arguments = [("size", shown(size)), ("shift", shown(shift))];
            write_setting(f, "window", &arguments)
        }
        StageKind::Cache => write_setting(f, "cache", &[]),
        StageKind::Prefetch { count } => write_setting(f, "prefetch", &[("count", shown(count))]),
        StageKind::Shard { index, count } => {
            let arguments = [("index", shown(index)), ("count", shown(count))];
            write_setting(f, "shard", &arguments)
        }
    }
}

impl Display for TrainEnd {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TrainEnd::Steps(n) => write!(f, "{n} steps"),
            TrainEnd::Epochs(n) => write!(f, "{n} epochs"),
        }
    }
}

impl Display for Rate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Number(x) => write!(f, "{x:?}"),
            Rate::Value(value) => write!(f, "{value}"),
        }
    }
}

impl Display for ClipKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ClipKind::GlobalNorm { norm, use_norm } => {
                let arguments = [
                    ("norm", shown(norm)),
                    ("use_norm", use_norm.and_then(shown)),
                ];
                write_setting(f, "global_norm", &arguments)
            }
            ClipKind::Norm { norm, axes } => {
                let arguments = [
                    ("norm", shown(norm)),
                    ("axes", axes.as_ref().and_then(list)),
                ];
                write_setting(f, "norm", &arguments)
            }
            ClipKind::AverageNorm { norm } => {
                write_setting(f, "average_norm", &[("norm", shown(norm))])
            }
            ClipKind::Value { low, high } => {
                write_setting(f, "value", &[("low", shown(low)), ("high", shown(high))])
            }
        }
    }
}

impl Display for Interval {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Interval::Steps(n) => write!(f, "{n} steps"),
            Interval::Epochs(n) => write!(f, "{n} epochs"),
            Interval::Seconds(s) => write!(f, "{s} s"),
        }
    }
}

impl Display for Constant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Constant::None => f.write_str("none"),
            Constant::Int(n) => write!(f, "{n}"),
            Constant::Float(x) => write!(f, "{x:?}"),
            Constant::Bool(b) => write!(f, "{b}"),
            Constant::Str(t) => f.write_str(&quote(t)),
            Constant::DType(d) => write!(f, "{d}"),
            Constant::Interval(i) => write!(f, "{i}"),
            Constant::List(list) => {
                let list: Vec<String> = list.iter().map(|c| c.to_string()).collect();
                write!(f, "[{}]", list.join(", "))
            }
        }
    }
}

impl Display for Gate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gate::None => "none",
            Gate::Op => "op",
            Gate::Graph => "graph",
        })
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Aggregate::AddN => "add_n",
            Aggregate::Tree => "tree",
        })
    }
}

impl Display for Goal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Goal::Min => "min",
            Goal::Max => "max",
        })
    }
}

impl Display for Named {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            NamedKind::Value(name) => f.write_str(name),
            NamedKind::Variables(pattern) => f.write_str(&quote(pattern)),
        }
    }
}

impl Display for HookKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let path = |dir: &Option<String>| dir.as_ref().map(|dir| quote(dir));
        let arguments = match self {
            HookKind::Checkpoint {
                dir,
                every,
                keep,
                keep_every,
                basename,
                format,
                vars,
                best,
            } => vec![
                ("dir", Some(quote(dir))),
                ("every", shown(every)),
                ("keep", shown(keep)),
                (
                    "keep_every",
                    keep_every.and_then(|s| shown(Interval::Seconds(s))),
                ),
                ("basename", Some(quote(basename))),
                (
                    "format",
                    match format {
                        CheckpointFormat::Bundle => None,
                        CheckpointFormat::Safetensors => shown("safetensors"),
                    },
                ),
                (
                    "vars",
                    match vars.is_empty() {
                        true => None,
                        false => list(vars.iter().map(|pattern| quote(pattern))),
                    },
                ),
                ("best", best.as_ref().map(|best| best.metric.clone())),
                (
                    "mode",
                    best.as_ref().map(|best| best.mode.word().to_owned()),
                ),
                ("eval", best.as_ref().and_then(|best| best.eval.clone())),
            ],
            // Its values are written below it.
            HookKind::Summary { every, dir, .. } | HookKind::StepCounter { every, dir } => {
                vec![("every", shown(every)), ("dir", path(dir))]
            }
            HookKind::Profile {
                every,
                dir,
                show_dataflow,
                show_memory,
            } => vec![
                ("every", shown(every)),
                ("dir", path(dir)),
                ("show_dataflow", shown(show_dataflow)),
                ("show_memory", shown(show_memory)),
            ],
            HookKind::Log {
                names,
                every,
                at_end,
            } => vec![
                ("names", list(names)),
                ("every", shown(every)),
                ("at_end", shown(at_end)),
            ],
            HookKind::Nan { name, fail } => vec![("name", shown(name)), ("fail", shown(fail))],
            HookKind::StopAt(StopAt::LastStep(n)) => vec![("last_step", shown(n))],
            HookKind::StopAt(StopAt::NumSteps(n)) => vec![("num_steps", shown(n))],
            HookKind::EarlyStop(EarlyStop {
                metric,
                eval,
                patience,
                min_delta,
                goal,
            }) => vec![
                ("metric", shown(metric)),
                ("patience", shown(patience)),
                ("min_delta", shown(min_delta)),
                ("goal", shown(goal)),
                ("eval", shown(eval)),
            ],
            HookKind::WaitForStep { step, dir } => {
                vec![("step", shown(step)), ("dir", Some(quote(dir)))]
            }
            HookKind::FinalOps { names } => vec![("names", list(names))],
            HookKind::Registered(registered) | HookKind::Feed(registered) => {
                return write!(f, "{} {registered}", self.word());
            }
        };
        write_setting(f, self.word(), &arguments)
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = ("names", list(&self.names));
        match self.kind {
            SummaryKind::Scalar => write_setting(f, "scalar", &[names]),
            SummaryKind::Histogram => write_setting(f, "histogram", &[names]),
            SummaryKind::Image { max_outputs } => {
                write_setting(f, "image", &[names, ("max_outputs", shown(max_outputs))])
            }
            SummaryKind::Audio {
                sample_rate,
                max_outputs,
            } => {
                let arguments = [
                    names,
                    ("sample_rate", shown(sample_rate)),
                    ("max_outputs", shown(max_outputs)),
                ];
                write_setting(f, "audio", &arguments)
            }
            SummaryKind::Text => write_setting(f, "text", &[names]),
        }
    }
}
