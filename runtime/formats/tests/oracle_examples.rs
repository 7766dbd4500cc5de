//! Examples as TensorFlow serializes and parses them.

use serde_json::{Map, Value as Json, json as literal};
use trainspec_formats::codecs::{
    CsvColumn, CsvDefault, CsvOptions, RawOptions, decode_csv, decode_raw, parse_tensor,
    serialize_tensor,
};
use trainspec_formats::examples::{
    BytesColumn, Column, Dtype, Example, ExampleParser, Feature, FeatureSpec, Level, ListColumn,
    Ragged, Schema, SequenceExample, SequenceParser, SequenceSchema, Values, decode,
    decode_sequence, encode, encode_sequence, example, sequence_example,
};
use trainspec_formats::tensor::DType;
use trainspec_formats::{Code, FormatError, Result};

use crate::support::{bytes, json, tensors};

/// Fails on a field that is not known, so that nothing is left out unseen.
fn known(what: &Json, fields: &[&str]) {
    for field in what.as_object().expect("an object").keys() {
        assert!(
            fields.contains(&field.as_str()),
            "unknown field {field} in {what}"
        );
    }
}

fn list(json: &Json) -> &Vec<Json> {
    json.as_array()
        .unwrap_or_else(|| panic!("a list, not {json}"))
}

fn object(json: &Json) -> &Map<String, Json> {
    json.as_object()
        .unwrap_or_else(|| panic!("an object, not {json}"))
}

/// A number that may not be finite.
fn number(json: &Json) -> f64 {
    match json {
        Json::String(text) => text.parse().expect("nan, inf or -inf"),
        _ => json.as_f64().expect("a number"),
    }
}

fn hex(bytes: &[u8]) -> Json {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .into()
}

#[test]
fn oracle_protos() {
    let file = json("tfrecord/protos.json");
    let mut count = 0;
    for case in list(&file["cases"]) {
        let serialized = bytes(&case["serialized_hex"]);
        match case["kind"].as_str().expect("a kind") {
            "example" => {
                known(case, &["name", "kind", "features", "serialized_hex"]);
                let made = example_of(&case["features"]);
                assert_eq!(hex(&encode(&made)), hex(&serialized), "{}", case["name"]);
                same(&decode(&serialized).unwrap(), &made, case);
            }
            "sequence_example" => {
                known(
                    case,
                    &["name", "kind", "context", "feature_lists", "serialized_hex"],
                );
                let context = object(&case["context"]).iter();
                let lists = object(&case["feature_lists"]).iter();
                let made = sequence_example(
                    context.map(|(name, feature)| (name, feature_of(feature))),
                    lists.map(|(name, steps)| (name, list(steps).iter().map(feature_of).collect())),
                );
                assert_eq!(
                    hex(&encode_sequence(&made)),
                    hex(&serialized),
                    "{}",
                    case["name"]
                );
                let decoded: SequenceExample = decode_sequence(&serialized).unwrap();
                assert_eq!(
                    hex(&encode_sequence(&decoded)),
                    hex(&serialized),
                    "{}",
                    case["name"]
                );
            }
            "unpacked" => {
                known(
                    case,
                    &[
                        "name",
                        "kind",
                        "features",
                        "serialized_hex",
                        "reserialized_hex",
                    ],
                );
                let made = example_of(&case["features"]);
                let decoded = decode(&serialized).unwrap();
                same(&decoded, &made, case);
                assert_eq!(
                    hex(&encode(&decoded)),
                    case["reserialized_hex"],
                    "{}",
                    case["name"]
                );
            }
            other => panic!("{}: unknown kind {other}", case["name"]),
        }
        count += 1;
    }
    println!("{count} messages");
    assert!(count > 0);
}

/// Two messages with equal bytes: NaN is not equal to itself.
fn same(a: &Example, b: &Example, case: &Json) {
    assert_eq!(hex(&encode(a)), hex(&encode(b)), "{}", case["name"]);
}

fn example_of(features: &Json) -> Example {
    example(
        object(features)
            .iter()
            .map(|(name, feature)| (name, feature_of(feature))),
    )
}

fn feature_of(feature: &Json) -> Feature {
    known(feature, &["type", "values"]);
    let values = list(&feature["values"]).iter();
    match feature["type"].as_str().expect("a type") {
        "bytes" => values.map(bytes).collect::<Vec<_>>().into(),
        "float" => values.map(|v| number(v) as f32).collect::<Vec<_>>().into(),
        "int64" => values
            .map(|v| v.as_i64().expect("an integer"))
            .collect::<Vec<_>>()
            .into(),
        "none" => Feature::default(),
        other => panic!("unknown type {other}"),
    }
}

#[test]
fn oracle_parse() {
    let file = json("tfrecord/parse.json");
    let mut counts = std::collections::BTreeMap::new();
    for case in list(&file["cases"]) {
        let kind = case["kind"].as_str().expect("a kind");
        let found = match kind {
            "parse_example" => {
                known(
                    case,
                    &[
                        "name",
                        "kind",
                        "serialized_hex",
                        "features",
                        "expected",
                        "expected_error",
                    ],
                );
                parse_example(case, Shape::Batch)
            }
            "parse_single_example" => {
                known(
                    case,
                    &[
                        "name",
                        "kind",
                        "serialized_hex",
                        "features",
                        "expected",
                        "expected_error",
                    ],
                );
                parse_example(case, Shape::Single)
            }
            "parse_sequence_example" | "parse_single_sequence_example" => {
                known(
                    case,
                    &[
                        "name",
                        "kind",
                        "serialized_hex",
                        "context_features",
                        "sequence_features",
                        "expected",
                        "expected_error",
                    ],
                );
                match kind {
                    "parse_sequence_example" => parse_sequence(case, Shape::Batch),
                    _ => parse_sequence(case, Shape::Single),
                }
            }
            "decode_raw" => {
                known(
                    case,
                    &[
                        "name",
                        "kind",
                        "serialized_hex",
                        "out_type",
                        "little_endian",
                        "fixed_length",
                        "expected",
                        "expected_error",
                    ],
                );
                raw(case)
            }
            "decode_csv" => {
                known(
                    case,
                    &[
                        "name",
                        "kind",
                        "records",
                        "record_defaults",
                        "dtypes",
                        "field_delim",
                        "use_quote_delim",
                        "na_value",
                        "select_cols",
                        "expected",
                        "expected_error",
                    ],
                );
                csv(case)
            }
            "serialize_tensor" => {
                known(case, &["name", "kind", "tensor", "serialized_hex"]);
                serialize(case);
                *counts.entry(kind).or_insert(0) += 1;
                continue;
            }
            other => panic!("{}: unknown kind {other}", case["name"]),
        };
        match (found, case.get("expected"), case.get("expected_error")) {
            (Ok(found), Some(expected), None) => {
                compare(&case["name"].to_string(), &found, expected)
            }
            (Err(error), None, Some(expected)) => {
                // What TensorFlow refuses while a graph is built is refused here when the schema is made.
                let code = match expected["type"].as_str() {
                    Some("InvalidArgumentError" | "ValueError") => Code::InvalidArgument,
                    other => panic!("{}: unknown error {other:?}", case["name"]),
                };
                assert_eq!(error.code, code, "{}: {error}", case["name"]);
            }
            (found, _, _) => panic!("{}: {found:?}", case["name"]),
        }
        *counts.entry(kind).or_insert(0) += 1;
    }
    println!("{counts:?}");
    assert!(!counts.is_empty());
}

/// Whether there is a dimension for records.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Batch,
    Single,
}

impl Shape {
    /// A shape without the dimension for records, if there is none.
    fn of<T: Clone>(self, shape: &[T]) -> Vec<T> {
        match self {
            Shape::Batch => shape.to_vec(),
            Shape::Single => shape[1..].to_vec(),
        }
    }

    /// Indices without those of records, if there are none.
    fn indices(self, indices: &[i64], rank: usize) -> Json {
        let width = rank - usize::from(self == Shape::Single);
        let rows = indices
            .chunks(rank)
            .flat_map(|index| index[rank - width..].iter().copied());
        literal!({"dtype": "int64", "shape": [indices.len() / rank, width], "data": rows.collect::<Vec<i64>>()})
    }

    fn sparse(self, indices: &[i64], values: &Values, dense_shape: &[i64]) -> Json {
        let dense = self.of(dense_shape);
        literal!({
            "indices": self.indices(indices, dense_shape.len()),
            "values": tensor(values, &[values.len()]),
            "dense_shape": {"dtype": "int64", "shape": [dense.len()], "data": dense},
        })
    }
}

/// Values as the reference data give them.
fn tensor(values: &Values, shape: &[usize]) -> Json {
    assert_eq!(values.len(), shape.iter().product::<usize>());
    match values {
        Values::Float(values) => {
            let data: Vec<Json> = values.iter().map(|v| float(f64::from(*v))).collect();
            literal!({"dtype": "float32", "shape": shape, "data": data})
        }
        Values::Int64(values) => literal!({"dtype": "int64", "shape": shape, "data": values}),
        Values::Bytes(values) => {
            let data: Vec<Json> = values.iter().map(hex).collect();
            literal!({"dtype": "string", "shape": shape, "data_hex": data})
        }
    }
}

fn float(value: f64) -> Json {
    match value.is_finite() {
        true => value.into(),
        false => format!("{value}").to_lowercase().into(),
    }
}

/// Compares what was found with what is expected: numbers in their own type, all else exactly.
fn compare(place: &str, found: &Json, expected: &Json) {
    match (found, expected) {
        (Json::Object(a), Json::Object(b)) => {
            let keys = |o: &Map<String, Json>| o.keys().cloned().collect::<Vec<_>>();
            let (mut ka, mut kb) = (keys(a), keys(b));
            ka.sort();
            kb.sort();
            assert_eq!(ka, kb, "{place}");
            let float = b
                .get("dtype")
                .and_then(Json::as_str)
                .is_some_and(|d| d.starts_with("float"));
            for (key, value) in a {
                let place = format!("{place}.{key}");
                match float && key == "data" {
                    true => {
                        let numbers = |json: &Json| {
                            list(json)
                                .iter()
                                .map(|v| number(v) as f32)
                                .collect::<Vec<_>>()
                        };
                        let (a, b) = (numbers(value), numbers(&b[key]));
                        let same = a.len() == b.len()
                            && a.iter()
                                .zip(&b)
                                .all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
                        assert!(same, "{place}: {a:?} and {b:?}");
                    }
                    false => compare(&place, value, &b[key]),
                }
            }
        }
        (Json::Array(a), Json::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{place}");
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{place}[{i}]"), a, b);
            }
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

fn dtype(json: &Json) -> Dtype {
    match json.as_str() {
        Some("float32") => Dtype::Float,
        Some("int64") => Dtype::Int64,
        Some("string") => Dtype::Bytes,
        other => panic!("unknown type {other:?}"),
    }
}

/// A default: a value, or a list of them.
fn values(json: &Json, dtype: Dtype) -> Option<Values> {
    let given: Vec<&Json> = match json {
        Json::Null => return None,
        Json::Array(_) => flat(json),
        _ => vec![json],
    };
    Some(match dtype {
        Dtype::Float => given
            .iter()
            .map(|v| number(v) as f32)
            .collect::<Vec<_>>()
            .into(),
        Dtype::Int64 => given
            .iter()
            .map(|v| v.as_i64().unwrap())
            .collect::<Vec<_>>()
            .into(),
        Dtype::Bytes => given
            .iter()
            .map(|v| bytes(&v["hex"]))
            .collect::<BytesColumn>()
            .into(),
    })
}

fn flat(json: &Json) -> Vec<&Json> {
    match json {
        Json::Array(parts) => parts.iter().flat_map(flat).collect(),
        _ => vec![json],
    }
}

fn usizes(json: &Json) -> Vec<usize> {
    list(json)
        .iter()
        .map(|n| n.as_u64().expect("an extent") as usize)
        .collect()
}

fn spec(json: &Json) -> FeatureSpec {
    let kind = dtype(&json["dtype"]);
    match json["class"].as_str().expect("a class") {
        "FixedLenFeature" => {
            known(json, &["class", "shape", "dtype", "default_value"]);
            FeatureSpec::FixedLen {
                dtype: kind,
                shape: usizes(&json["shape"]),
                default: values(&json["default_value"], kind),
            }
        }
        "VarLenFeature" => {
            known(json, &["class", "dtype"]);
            FeatureSpec::var_len(kind)
        }
        "FixedLenSequenceFeature" => {
            known(
                json,
                &["class", "shape", "dtype", "allow_missing", "default_value"],
            );
            FeatureSpec::FixedLenSequence {
                dtype: kind,
                shape: usizes(&json["shape"]),
                allow_missing: json["allow_missing"].as_bool().unwrap(),
                default: values(&json["default_value"], kind),
            }
        }
        "SparseFeature" => {
            known(
                json,
                &[
                    "class",
                    "index_key",
                    "value_key",
                    "dtype",
                    "size",
                    "already_sorted",
                ],
            );
            let strings = |json: &Json| {
                flat(json)
                    .iter()
                    .map(|key| key.as_str().unwrap().to_owned())
                    .collect()
            };
            FeatureSpec::Sparse {
                index_keys: strings(&json["index_key"]),
                value_key: json["value_key"].as_str().unwrap().to_owned(),
                dtype: kind,
                sizes: flat(&json["size"])
                    .iter()
                    .map(|size| size.as_i64().unwrap())
                    .collect(),
                already_sorted: json["already_sorted"].as_bool().unwrap(),
            }
        }
        "RaggedFeature" => {
            known(
                json,
                &[
                    "class",
                    "dtype",
                    "value_key",
                    "partitions",
                    "row_splits_dtype",
                    "validate",
                ],
            );
            assert!(
                list(&json["partitions"]).is_empty(),
                "unknown form of partitions: {json}"
            );
            FeatureSpec::Ragged {
                dtype: kind,
                value_key: json["value_key"].as_str().map(str::to_owned),
                partitions: Vec::new(),
            }
        }
        other => panic!("unknown class {other}"),
    }
}

fn specs(json: &Json) -> Vec<(String, FeatureSpec)> {
    object(json)
        .iter()
        .map(|(name, json)| (name.clone(), spec(json)))
        .collect()
}

fn ragged(ragged: Ragged<'_>, shape: Shape, spec: &Json) -> Json {
    let values = tensor(ragged.values, &[ragged.values.len()]);
    let mut levels = match shape {
        Shape::Batch => ragged.levels,
        Shape::Single => &ragged.levels[1..],
    };
    // From the inside to the outside.
    let mut found = values;
    while let [outer @ .., Level::Splits(splits)] = levels {
        let splits =
            literal!({"dtype": spec["row_splits_dtype"], "shape": [splits.len()], "data": splits});
        found = literal!({"values": found, "row_splits": splits});
        levels = outer;
    }
    found
}

fn column(column: Column<'_>, shape: Shape, spec: &Json) -> Json {
    match column {
        Column::Dense(dense) => tensor(dense.values, &shape.of(&dense.shape())),
        Column::VarLen(list) => shape.sparse(&list.indices(), list.values, &list.dense_shape()),
        Column::Sparse(sparse) => {
            shape.sparse(&sparse.indices, &sparse.values, &sparse.dense_shape)
        }
        Column::Ragged(column) => ragged(column, shape, spec),
    }
}

fn parse_example(case: &Json, shape: Shape) -> Result<Json> {
    let schema = Schema::new(specs(&case["features"]))?;
    let mut parser = ExampleParser::new(&schema);
    // Twice: a batch must not depend on the one before it.
    let mut found = Vec::new();
    for _ in 0..2 {
        for record in list(&case["serialized_hex"]) {
            parser.push(&bytes(record))?;
        }
        let batch = parser.finish()?;
        let columns = batch.names().iter().map(|name| {
            let column = column(batch.column(name).unwrap(), shape, &case["features"][name]);
            (name.clone(), column)
        });
        found.push(Json::Object(columns.collect()));
    }
    assert_eq!(
        found[0].to_string(),
        found[1].to_string(),
        "{}",
        case["name"]
    );
    Ok(found.remove(0))
}

fn parse_sequence(case: &Json, shape: Shape) -> Result<Json> {
    let (context, lists) = (&case["context_features"], &case["sequence_features"]);
    let schema = SequenceSchema::new(specs(context), specs(lists))?;
    let mut parser = SequenceParser::new(&schema);
    let mut found = Vec::new();
    for _ in 0..2 {
        for record in list(&case["serialized_hex"]) {
            parser.push(&bytes(record))?;
        }
        let batch = parser.finish()?;
        let of_context = batch.context.names().iter().map(|name| {
            let column = column(batch.context.column(name).unwrap(), shape, &context[name]);
            (name.clone(), column)
        });
        let mut lengths = Map::new();
        let mut sequence = Map::new();
        for name in batch.lists() {
            let made = match batch.list(name).unwrap() {
                ListColumn::Steps(steps) => {
                    let counts = literal!({"dtype": "int64", "shape": [steps.lengths.len()], "data": steps.lengths});
                    lengths.insert(name.clone(), counts);
                    tensor(steps.values, &shape.of(&steps.shape()))
                }
                ListColumn::VarLen(steps) => {
                    shape.sparse(&steps.indices(), steps.values, &steps.dense_shape())
                }
                ListColumn::Ragged(column) => ragged(column, shape, &lists[name]),
            };
            sequence.insert(name.clone(), made);
        }
        let mut all = Map::new();
        all.insert("context".to_owned(), Json::Object(of_context.collect()));
        all.insert("sequence".to_owned(), Json::Object(sequence));
        if shape == Shape::Batch {
            all.insert("lengths".to_owned(), Json::Object(lengths));
        }
        found.push(Json::Object(all));
    }
    assert_eq!(
        found[0].to_string(),
        found[1].to_string(),
        "{}",
        case["name"]
    );
    Ok(found.remove(0))
}

fn raw(case: &Json) -> Result<Json> {
    let strings: Vec<Vec<u8>> = list(&case["serialized_hex"]).iter().map(bytes).collect();
    let options = RawOptions {
        little_endian: case["little_endian"].as_bool().expect("a boolean"),
        fixed_length: case
            .get("fixed_length")
            .and_then(Json::as_u64)
            .map(|n| n as usize),
    };
    let found = decode_raw(
        strings.iter().map(Vec::as_slice),
        tensors::dtype(&case["out_type"]),
        &options,
    )?;
    let expected = tensors::tensor(&case["name"].to_string(), &case["expected"]);
    assert_eq!(found, expected, "{}", case["name"]);
    // They are equal, to the byte.
    Ok(case["expected"].clone())
}

fn csv(case: &Json) -> Result<Json> {
    let lines: Vec<&str> = list(&case["records"])
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    let defaults: Vec<CsvDefault> = list(&case["dtypes"])
        .iter()
        .zip(list(&case["record_defaults"]))
        .map(|(dtype, default)| {
            let given = !default.is_null();
            match tensors::dtype(dtype) {
                DType::Int32 => CsvDefault::Int32(given.then(|| default.as_i64().unwrap() as i32)),
                DType::Int64 => CsvDefault::Int64(given.then(|| default.as_i64().unwrap())),
                DType::Float32 => CsvDefault::Float(given.then(|| number(default) as f32)),
                DType::Float64 => CsvDefault::Double(given.then(|| number(default))),
                DType::String => CsvDefault::Bytes(given.then(|| default.as_str().unwrap().into())),
                other => panic!("unknown type of a field {other:?}"),
            }
        })
        .collect();
    let text = |field: &str| case.get(field).and_then(Json::as_str);
    let mut options = CsvOptions::default();
    if let Some(delimiter) = text("field_delim") {
        options.delimiter = delimiter.as_bytes()[0];
    }
    if let Some(missing) = text("na_value") {
        options.missing = missing.as_bytes().to_vec();
    }
    if let Some(quotes) = case.get("use_quote_delim").and_then(Json::as_bool) {
        options.quotes = quotes;
    }
    options.select = case
        .get("select_cols")
        .filter(|json| !json.is_null())
        .map(usizes);
    let columns = decode_csv(
        lines.iter().map(|line| line.as_bytes()),
        &defaults,
        &options,
    )?;
    let rows = lines.len();
    let columns = columns.iter().map(|column| match column {
        CsvColumn::Int32(values) => literal!({"dtype": "int32", "shape": [rows], "data": values}),
        CsvColumn::Int64(values) => literal!({"dtype": "int64", "shape": [rows], "data": values}),
        CsvColumn::Float(values) => tensor(&values.clone().into(), &[rows]),
        CsvColumn::Double(values) => {
            let data: Vec<Json> = values.iter().map(|v| float(*v)).collect();
            literal!({"dtype": "float64", "shape": [rows], "data": data})
        }
        CsvColumn::Bytes(values) => tensor(&values.clone().into(), &[rows]),
    });
    Ok(Json::Array(columns.collect()))
}

fn serialize(case: &Json) {
    let tensor = tensors::tensor(&case["name"].to_string(), &case["tensor"]);
    let [serialized] = list(&case["serialized_hex"]).as_slice() else {
        panic!("{}: one string", case["name"]);
    };
    let found =
        serialize_tensor(&tensor).unwrap_or_else(|e: FormatError| panic!("{}: {e}", case["name"]));
    assert_eq!(hex(&found), *serialized, "{}", case["name"]);
    assert_eq!(
        parse_tensor(&bytes(serialized)).unwrap(),
        tensor,
        "{}",
        case["name"]
    );
}
