//! The last value of a tag, as short text and as JSON.

use serde_json::{Map, Value as Json, json};
use trainspec_formats::checkpoint::{Elements, Tensor};
use trainspec_formats::events::{Kind, Run, Series};
use trainspec_formats::proto::hparams::h_params_plugin_data::Data;
use trainspec_formats::proto::hparams::{HParamsPluginData, Value, value};
use trainspec_formats::proto::summary::value::Value as Field;
use trainspec_formats::{FileKind, FormatError, bounded};

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
    let value = match run.value(point) {
        Ok(value) => value.value?,
        Err(e) => return Some(unreadable(&e)),
    };
    match value {
        Field::SimpleValue(_) | Field::ObsoleteOldStyleHistogram(_) => None,
        Field::Histo(h) => Some(histogram(h.num, (h.num != 0.0).then_some((h.min, h.max)))),
        Field::Image(image) => Some(picture(image.width.into(), image.height.into())),
        Field::Audio(sound) => {
            let text = format!("{} frames at {} Hz", sound.length_frames, sound.sample_rate);
            let (frames, rate) = (sound.length_frames, sound.sample_rate);
            Some((text, json!({ "frames": frames, "rate": rate })))
        }
        Field::Tensor(message) => match Tensor::from_message(message) {
            Ok(value) => tensor(&series.kind, &value),
            Err(e) => Some(unreadable(&e)),
        },
    }
}

/// A value that cannot be read, with the reason in JSON.
fn unreadable(error: &FormatError) -> (String, Json) {
    let text = "unreadable".to_owned();
    (text, json!({ "error": error.to_string() }))
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
    let mut named: Vec<_> = info.hparams.iter().collect();
    named.sort_by_key(|(name, _)| *name);
    let all: Map<String, Json> = named
        .into_iter()
        .map(|(name, value)| (name.clone(), json_value(value)))
        .collect();
    let words = all.iter().map(|(name, value)| format!("{name}={value}"));
    let text = words.collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(MAX_CHARS).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    Some((format!("{short}{more}"), all.into()))
}

/// A JSON-like value as JSON (`google.protobuf.Value`).
fn json_value(value: &Value) -> Json {
    match &value.kind {
        Some(value::Kind::NumberValue(x)) => json_of(Number::Real(*x)),
        Some(value::Kind::StringValue(string)) => json!(string),
        Some(value::Kind::BoolValue(flag)) => json!(flag),
        Some(value::Kind::ListValue(list)) => list.values.iter().map(json_value).collect(),
        Some(value::Kind::StructValue(all)) => {
            let fields = all.fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), json_value(value)));
            fields.collect::<Map<_, _>>().into()
        }
        Some(value::Kind::NullValue(_)) | None => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainspec_formats::proto::hparams::{ListValue, Struct};

    #[test]
    fn hyperparameters_may_be_lists_and_structures() {
        let of = |kind| Value { kind: Some(kind) };
        let number = of(value::Kind::NumberValue(f64::NAN));
        let list = ListValue {
            values: vec![number, of(value::Kind::BoolValue(true)), Value::default()],
        };
        let fields = [("a\u{7f}".to_owned(), of(value::Kind::ListValue(list)))];
        let all = of(value::Kind::StructValue(Struct {
            fields: fields.into(),
        }));
        assert_eq!(json_value(&all), json!({ "a\u{7f}": ["NaN", true, null] }));
    }

    #[test]
    fn histograms_without_values_are_empty() {
        assert_eq!(histogram(0.0, None).0, "empty");
        let (text, object) = histogram(f64::NAN, Some((f64::NAN, f64::NAN)));
        assert_eq!(text, "NaN from NaN to NaN");
        assert_eq!(object["count"], "NaN");
        assert_eq!(histogram(3.0, Some((0.5, 2.0))).0, "3 from 0.5 to 2");
    }
}
