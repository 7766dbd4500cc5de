//! The last value of a tag, as short text and as JSON.

use serde_json::{Map, Value as Json, json};
use trainspec_formats::checkpoint::{Elements, Tensor};
use trainspec_formats::events::{Kind, Run, Series};
use trainspec_formats::proto::hparams::h_params_plugin_data::Data;
use trainspec_formats::proto::hparams::{HParamsPluginData, Value, value};
use trainspec_formats::proto::summary::value::Value as Field;
use trainspec_formats::{FileKind, bounded};

use crate::columns;
use crate::tensors::{Number, json_bytes, json_of, typed};

/// The most characters of a string that are shown.
const MAX_CHARS: usize = 40;

/// The last value, as text and as JSON; `None` if it is empty or no longer stored.
pub(super) fn value(run: &Run, series: &Series) -> Option<(String, Json)> {
    if series.kind == Kind::HParams {
        return hparams(series);
    }
    let point = series.points.last()?;
    if let Some(number) = point.scalar {
        return Some((columns::number(number), json_of(Number::Real(number))));
    }
    match run.value(point).ok()?.value? {
        Field::SimpleValue(_) | Field::ObsoleteOldStyleHistogram(_) => None,
        Field::Histo(h) => Some(histogram(h.num, (h.num != 0.0).then_some((h.min, h.max)))),
        Field::Image(image) => Some(picture(image.width.into(), image.height.into())),
        Field::Audio(sound) => {
            let text = format!("{} frames at {} Hz", sound.length_frames, sound.sample_rate);
            let (frames, rate) = (sound.length_frames, sound.sample_rate);
            Some((text, json!({ "frames": frames, "rate": rate })))
        }
        Field::Tensor(message) => tensor(&series.kind, &Tensor::from_message(message).ok()?),
    }
}

fn tensor(kind: &Kind, tensor: &Tensor) -> Option<(String, Json)> {
    match (kind, tensor.elements()) {
        (Kind::Text, Elements::Strings(strings)) => {
            let string = strings.first()?;
            let text = String::from_utf8_lossy(string);
            let short: String = text.chars().take(MAX_CHARS).collect();
            let more = if short.len() < text.len() { "..." } else { "" };
            Some((format!("{short:?}{more}"), json_bytes(string)))
        }
        (Kind::Image, Elements::Strings(strings)) => {
            let number = |i: usize| -> Option<i64> {
                std::str::from_utf8(strings.get(i)?).ok()?.parse().ok()
            };
            Some(picture(number(0)?, number(1)?))
        }
        (Kind::Audio, Elements::Strings(strings)) => {
            let bytes = strings.first()?.len();
            Some((columns::bytes(bytes as u64), json!({ "bytes": bytes })))
        }
        (Kind::Histogram, Elements::Bytes(_)) => {
            let numbers = tensor.to_f64s().ok()?;
            let (buckets, _) = numbers.as_chunks::<3>();
            // The limits are those of filled buckets. TensorFlow counts nothing where a value is NaN, and makes all limits NaN.
            let is_bound = |b: &&[f64; 3]| b[2] != 0.0 || b[0].is_nan() || b[1].is_nan();
            let mut filled = buckets.iter().filter(is_bound);
            let count = buckets.iter().map(|[_, _, count]| count).sum();
            let first = filled.next();
            let last = filled.next_back().or(first);
            let bounds = first.zip(last).map(|(first, last)| (first[0], last[1]));
            Some(histogram(count, bounds))
        }
        _ => {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            let about = json!({ "dtype": dtype.name(), "shape": shape });
            Some((typed(dtype, shape), about))
        }
    }
}

/// A histogram by the number of its values, and the least and greatest of them, if there are any.
fn histogram(count: f64, bounds: Option<(f64, f64)>) -> (String, Json) {
    let number = |x: f64| json_of(Number::Real(x));
    let text = match bounds {
        Some((min, max)) if count == 0.0 && (min.is_nan() || max.is_nan()) => "NaN".to_owned(),
        Some((min, max)) => format!(
            "{} from {} to {}",
            columns::number(count),
            columns::number(min),
            columns::number(max)
        ),
        None => "empty".to_owned(),
    };
    let about = json!({
        "count": number(count),
        "min": bounds.map(|(min, _)| number(min)),
        "max": bounds.map(|(_, max)| number(max)),
    });
    (text, about)
}

fn picture(width: i64, height: i64) -> (String, Json) {
    let text = format!("{width} x {height}");
    (text, json!({ "width": width, "height": height }))
}

/// Hyperparameters are in the metadata of their tag.
fn hparams(series: &Series) -> Option<(String, Json)> {
    let content = &series.metadata.as_ref()?.plugin_data.as_ref()?.content;
    let message: HParamsPluginData =
        bounded::decode(FileKind::Events, content, bounded::DEFAULT_MEMORY_LIMIT).ok()?;
    let Data::SessionStartInfo(info) = message.data? else {
        return None;
    };
    let simple = |value: &Value| match &value.kind {
        Some(value::Kind::NumberValue(x)) => json_of(Number::Real(*x)),
        Some(value::Kind::StringValue(string)) => json!(string),
        Some(value::Kind::BoolValue(flag)) => json!(flag),
        _ => Json::Null,
    };
    let mut named: Vec<_> = info.hparams.iter().collect();
    named.sort_by_key(|(name, _)| *name);
    let all: Map<String, Json> = named
        .into_iter()
        .map(|(name, value)| (name.clone(), simple(value)))
        .collect();
    let words = all.iter().map(|(name, value)| format!("{name}={value}"));
    let text = words.collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(MAX_CHARS).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    Some((format!("{short}{more}"), all.into()))
}
