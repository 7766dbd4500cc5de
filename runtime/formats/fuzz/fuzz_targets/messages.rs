//! Arbitrary bytes: an example or an error, never a crash. Where the bytes are a message, the columns equal the decoded message.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use trainspec_formats::codecs::{
    CsvDefault, CsvOptions, RawOptions, decode_csv, decode_raw, parse_tensor, serialize_tensor,
};
use trainspec_formats::examples::{
    Column, Dtype, ExampleParser, FeatureSpec, Partition, Schema, SequenceParser, SequenceSchema,
    Values, decode, decode_sequence, encode, encode_sequence,
};
use trainspec_formats::proto::feature::Kind;
use trainspec_formats::tensor::DType;

static LISTS: LazyLock<ExampleParser> = LazyLock::new(|| {
    let schema = Schema::new([
        ("f", FeatureSpec::var_len(Dtype::Float)),
        ("i", FeatureSpec::var_len(Dtype::Int64)),
        ("b", FeatureSpec::var_len(Dtype::Bytes)),
    ]);
    ExampleParser::new(&schema.expect("it is in order"))
});

static ALL: LazyLock<ExampleParser> = LazyLock::new(|| {
    let ragged = |partition| FeatureSpec::Ragged {
        dtype: Dtype::Int64,
        value_key: Some("i".to_owned()),
        partitions: vec![Partition::UniformRowLength(1), partition],
    };
    let schema = Schema::new([
        ("f", FeatureSpec::fixed_or([2], vec![1.0_f32, 2.0])),
        ("b", FeatureSpec::sequence(Dtype::Bytes, [2])),
        ("r", ragged(Partition::RowSplits("p".to_owned()))),
        ("s", ragged(Partition::ValueRowIds("q".to_owned()))),
        ("t", ragged(Partition::RowLengths("i".to_owned()))),
        (
            "v",
            FeatureSpec::Sparse {
                index_keys: vec!["j".to_owned(), "k".to_owned()],
                value_key: "k".to_owned(),
                dtype: Dtype::Int64,
                sizes: vec![5, 5],
                already_sorted: false,
            },
        ),
    ]);
    ExampleParser::new(&schema.expect("it is in order"))
});

static STEPS: LazyLock<SequenceParser> = LazyLock::new(|| {
    let schema = SequenceSchema::new(
        [("f", FeatureSpec::var_len(Dtype::Float))],
        [
            ("i", FeatureSpec::var_len(Dtype::Int64)),
            ("b", FeatureSpec::sequence(Dtype::Bytes, [])),
            ("r", FeatureSpec::ragged(Dtype::Float)),
        ],
    );
    SequenceParser::new(&schema.expect("it is in order"))
});

fuzz_target!(|bytes: &[u8]| {
    lists(bytes);
    let mut all = ALL.clone();
    for _ in 0..2 {
        let _ = all.push(bytes);
    }
    let _ = all.finish();
    let mut steps = STEPS.clone();
    for _ in 0..2 {
        let _ = steps.push(bytes);
    }
    let _ = steps.finish();
    if let Ok(message) = decode_sequence(bytes) {
        let again = encode_sequence(&message);
        let read = decode_sequence(&again).expect("what is written can be read");
        assert_eq!(encode_sequence(&read), again);
    }
    if let Ok(tensor) = parse_tensor(bytes) {
        let written = serialize_tensor(&tensor).expect("what is read can be written");
        assert_eq!(parse_tensor(&written).expect("it can be read"), tensor);
    }
    let fields = [
        CsvDefault::Int32(Some(1)),
        CsvDefault::Float(None),
        CsvDefault::Bytes(None),
    ];
    let _ = decode_csv(
        bytes.split(|byte| *byte == b'|'),
        &fields,
        &CsvOptions::default(),
    );
    let _ = decode_raw([bytes], DType::Int16, &RawOptions::default());
});

/// The columns equal the decoded message.
fn lists(bytes: &[u8]) {
    let mut parser = LISTS.clone();
    // The second time, the keys are cached.
    let _ = parser.parse(bytes);
    let parsed = parser.parse(bytes);
    let Ok(message) = decode(bytes) else {
        return;
    };
    let again = encode(&message);
    assert_eq!(
        encode(&decode(&again).expect("what is written can be read")),
        again
    );
    let features = message.features.unwrap_or_default();
    let kind = |name: &str| {
        features
            .feature
            .get(name)
            .and_then(|feature| feature.kind.clone())
    };
    let fits = !matches!(kind("f"), Some(Kind::BytesList(_) | Kind::Int64List(_)))
        && !matches!(kind("i"), Some(Kind::BytesList(_) | Kind::FloatList(_)))
        && !matches!(kind("b"), Some(Kind::FloatList(_) | Kind::Int64List(_)));
    let batch = match parsed {
        Ok(batch) if fits => batch,
        Ok(_) => panic!("a feature has another type"),
        Err(_) if !fits => return,
        Err(error) => panic!("{error}"),
    };
    for name in ["f", "i", "b"] {
        let Some(Column::VarLen(column)) = batch.column(name) else {
            panic!("a list");
        };
        let same = match (column.values, kind(name)) {
            (values, None) => values.is_empty(),
            (Values::Float(found), Some(Kind::FloatList(list))) => {
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                bits(found) == bits(&list.value)
            }
            (Values::Int64(found), Some(Kind::Int64List(list))) => *found == list.value,
            (Values::Bytes(found), Some(Kind::BytesList(list))) => {
                found.iter().eq(list.value.iter())
            }
            _ => false,
        };
        assert!(same, "{name}");
    }
}
