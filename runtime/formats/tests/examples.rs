//! Parsing of examples. The expected values are those of TensorFlow 2.21, where no other reason is given.

use trainspec_formats::examples::{
    Batch, BytesColumn, Column, Dtype, Example, ExampleParser, Feature, FeatureList, FeatureLists,
    FeatureSpec, Features, Int64List, Level, ListColumn, Partition, Schema, SequenceExample,
    SequenceParser, SequenceSchema, Values, decode, decode_sequence, encode, encode_sequence,
    example, sequence_example,
};
use trainspec_formats::proto::feature::Kind;
use trainspec_formats::{Code, FormatError, Result};

/// A field of a message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

fn floats(values: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    field(2, &field(1, &bytes))
}

fn entry(key: &str, feature: &[u8]) -> Vec<u8> {
    field(1, &[field(1, key.as_bytes()), field(2, feature)].concat())
}

fn message(entries: &[Vec<u8>]) -> Vec<u8> {
    field(1, &entries.concat())
}

fn batch(spec: FeatureSpec, records: &[Vec<u8>]) -> Result<Batch> {
    let mut parser = ExampleParser::new(&Schema::new([("x", spec)])?);
    for record in records {
        parser.push(record)?;
    }
    parser.finish().cloned()
}

fn fixed(record: &[u8]) -> Result<Vec<f32>> {
    let batch = batch(FeatureSpec::fixed(Dtype::Float, [1]), &[record.to_vec()])?;
    match batch.column("x") {
        Some(Column::Dense(x)) => Ok(x.values.floats().unwrap().to_vec()),
        other => panic!("{other:?}"),
    }
}

fn var_len(record: &[u8]) -> Result<Vec<f32>> {
    let batch = batch(FeatureSpec::var_len(Dtype::Float), &[record.to_vec()])?;
    match batch.column("x") {
        Some(Column::VarLen(x)) => Ok(x.values.floats().unwrap().to_vec()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_later_entry_of_the_same_key_wins() {
    let (one, two) = (entry("x", &floats(&[1.0])), entry("x", &floats(&[2.0])));
    assert_eq!(fixed(&message(&[one.clone(), two.clone()])).unwrap(), [2.0]);
    assert_eq!(
        var_len(&[message(std::slice::from_ref(&one)), message(&[two])].concat()).unwrap(),
        [2.0]
    );
    // Also over one of another type, and one that holds nothing.
    let ids = entry("x", &field(3, &field(1, &[7])));
    assert_eq!(fixed(&message(&[ids.clone(), one.clone()])).unwrap(), [1.0]);
    assert_eq!(
        fixed(&message(&[one.clone(), ids])).unwrap_err().code,
        Code::InvalidArgument
    );
    assert_eq!(
        fixed(&message(&[entry("x", b""), one.clone()])).unwrap(),
        [1.0]
    );
    assert_eq!(
        var_len(&message(&[one, entry("x", b"")])).unwrap(),
        [0.0; 0]
    );
}

#[test]
fn entries_may_be_written_in_any_way_that_the_wire_format_allows() {
    let one = floats(&[1.0]);
    let whole = message(&[entry("x", &one)]);
    // Unknown fields, before and after.
    assert_eq!(
        fixed(&[field(5, b"abc"), whole.clone()].concat()).unwrap(),
        [1.0]
    );
    assert_eq!(
        fixed(&[whole.clone(), vec![0x28, 1]].concat()).unwrap(),
        [1.0]
    );
    // The value before the key.
    let value_first = field(1, &[field(2, &one), field(1, b"x")].concat());
    assert_eq!(fixed(&message(&[value_first])).unwrap(), [1.0]);
    // TensorFlow refuses these or drops a part; by the wire format they are messages like any other.
    let no_value = field(1, &field(1, b"x"));
    assert_eq!(
        fixed(&message(&[no_value])).unwrap_err().code,
        Code::InvalidArgument
    );
    let extra = field(
        1,
        &[field(1, b"x"), field(2, &one), field(7, b"q")].concat(),
    );
    assert_eq!(fixed(&message(&[extra])).unwrap(), [1.0]);
    let two_lists = [floats(&[1.0]), floats(&[2.0])].concat();
    assert_eq!(
        var_len(&message(&[entry("x", &two_lists)])).unwrap(),
        [1.0, 2.0]
    );
    let two_pieces = field(
        2,
        &[
            field(1, &1_f32.to_le_bytes()),
            field(1, &2_f32.to_le_bytes()),
        ]
        .concat(),
    );
    assert_eq!(
        var_len(&message(&[entry("x", &two_pieces)])).unwrap(),
        [1.0, 2.0]
    );
    let another_first = [field(3, &field(1, &[7])), floats(&[2.0])].concat();
    assert_eq!(
        var_len(&message(&[entry("x", &another_first)])).unwrap(),
        [2.0]
    );
    for (bytes, keys) in [(two_lists, 2), (two_pieces, 2), (another_first, 1)] {
        let decoded = decode(&message(&[entry("x", &bytes)])).unwrap();
        let Some(Kind::FloatList(list)) = &decoded.features.unwrap().feature["x"].kind else {
            panic!("floats");
        };
        assert_eq!(list.value.len(), keys);
    }
}

#[test]
fn features_outside_the_schema_are_not_decoded() {
    let broken = entry("y", &[0xff, 0xff]);
    assert_eq!(
        fixed(&message(&[broken.clone(), entry("x", &floats(&[1.0]))])).unwrap(),
        [1.0]
    );
    let no_text = [
        vec![0x0a, 0x05, 0x0a, 0x01, 0xff, 0x12, 0x00],
        entry("x", &floats(&[1.0])),
    ]
    .concat();
    assert_eq!(fixed(&field(1, &no_text)).unwrap(), [1.0]);
}

#[test]
fn malformed_records_are_refused_and_the_batch_stays() {
    let schema = Schema::new([
        ("x", FeatureSpec::fixed(Dtype::Float, [1])),
        ("y", FeatureSpec::var_len(Dtype::Int64)),
    ])
    .unwrap();
    let mut parser = ExampleParser::new(&schema);
    let good = encode(&example([
        ("x", [1.0_f32].into()),
        ("y", [7_i64, 8].into()),
    ]));
    parser.push(&good).unwrap();
    let bad: Vec<(&str, Vec<u8>)> = vec![
        (
            "record 1: feature `x` holds 2 float values, and not 1",
            encode(&example([("x", [1.0_f32, 2.0].into())])),
        ),
        (
            "record 1: feature `x` (float) is required and is not there",
            encode(&example([("y", 1_i64.into())])),
        ),
        (
            "record 1: feature `y` holds bytes values, and int64 values are required",
            encode(&example([("x", 1_f32.into()), ("y", "no".into())])),
        ),
        (
            "record 1: feature `x`: a list of floats ends inside one",
            message(&[entry("x", &field(2, &field(1, &[0; 5])))]),
        ),
        (
            "record 1: feature `y`: a varint has more than 64 bits",
            message(&[
                entry("x", &floats(&[1.0])),
                entry("y", &field(3, &field(1, &[0xff; 11]))),
            ]),
        ),
        (
            "record 1 is no example: a field is longer than what is left",
            vec![0x0a, 0x7f, b'a', b'b', b'c'],
        ),
        (
            "record 1 is no example: a field has no number",
            [message(&[]), vec![0]].concat(),
        ),
    ];
    for (cause, record) in bad {
        let error = parser.push(&record).unwrap_err();
        assert_eq!(
            (error.code, error.cause.as_str()),
            (Code::InvalidArgument, cause)
        );
        assert_eq!(parser.rows(), 1);
    }
    parser.push(&good).unwrap();
    let batch = parser.finish().unwrap();
    let (Some(Column::Dense(x)), Some(Column::VarLen(y))) = (batch.column("x"), batch.column("y"))
    else {
        panic!("{batch:?}");
    };
    assert_eq!(x.values.floats(), Some(&[1.0, 1.0][..]));
    assert_eq!(
        (y.values.int64s(), y.ends),
        (Some(&[7, 8, 7, 8][..]), &[2, 4][..])
    );
}

#[test]
fn batches_are_swapped() {
    let schema = Schema::new([("x", FeatureSpec::var_len(Dtype::Int64))]).unwrap();
    let mut parser = ExampleParser::new(&schema);
    let mut batch = schema.batch();
    for round in 0..3_i64 {
        for i in 0..=round {
            parser.push(&encode(&example([("x", i.into())]))).unwrap();
        }
        parser.finish_into(&mut batch).unwrap();
        assert_eq!((parser.rows(), batch.rows()), (0, round as usize + 1));
        let Some(Column::VarLen(x)) = batch.column("x") else {
            panic!()
        };
        let expected: Vec<i64> = (0..=round).collect();
        assert_eq!(x.values.int64s(), Some(expected.as_slice()));
    }
    let mut another = Schema::new([("x", FeatureSpec::var_len(Dtype::Int64))])
        .unwrap()
        .batch();
    assert_eq!(
        parser.finish_into(&mut another).unwrap_err().code,
        Code::InvalidArgument
    );
}

#[test]
fn sequences_are_padded() {
    let of = |values: &[f32]| encode(&example([("x", values.into())]));
    let records = [
        of(&[1.0, 2.0]),
        of(&[1.0, 2.0, 3.0, 4.0]),
        encode(&Example::default()),
    ];
    let mut spec = FeatureSpec::sequence(Dtype::Float, [2]);
    for (default, filled) in [(None, 0.0), (Some(Values::from(5.0)), 5.0)] {
        if let FeatureSpec::FixedLenSequence { default: given, .. } = &mut spec {
            given.clone_from(&default);
        }
        let batch = batch(spec.clone(), &records).unwrap();
        let Some(Column::Dense(x)) = batch.column("x") else {
            panic!()
        };
        let f = filled;
        assert_eq!(x.shape(), [3, 2, 2]);
        let expected = [1.0, 2.0, f, f, 1.0, 2.0, 3.0, 4.0, f, f, f, f];
        assert_eq!(x.values.floats(), Some(&expected[..]));
    }
    let error = batch(spec, &[of(&[1.0, 2.0, 3.0])]).unwrap_err();
    assert_eq!(
        error.cause,
        "record 0: feature `x` holds 3 float values, which is no multiple of 2"
    );
    let strings = |values: &[&str]| encode(&example([("x", values.into())]));
    let batch = batch(
        FeatureSpec::sequence(Dtype::Bytes, []),
        &[strings(&["a", "bc"]), strings(&[])],
    )
    .unwrap();
    let Some(Column::Dense(x)) = batch.column("x") else {
        panic!()
    };
    let expected: BytesColumn = ["a", "bc", "", ""].into_iter().collect();
    assert_eq!(x.values, &Values::Bytes(expected));
}

#[test]
fn schemas_that_contradict_themselves_are_refused() {
    let float = Dtype::Float;
    let sparse = |index: &str, value: &str| FeatureSpec::Sparse {
        index_keys: vec![index.to_owned()],
        value_key: value.to_owned(),
        dtype: float,
        sizes: vec![5],
        already_sorted: false,
    };
    let refused: Vec<Vec<(&str, FeatureSpec)>> = vec![
        vec![
            ("x", FeatureSpec::fixed(float, [])),
            ("x", FeatureSpec::var_len(float)),
        ],
        vec![("x", FeatureSpec::fixed_or([2], 1.0_f32))],
        vec![(
            "x",
            FeatureSpec::FixedLen {
                dtype: Dtype::Int64,
                shape: vec![],
                default: Some(1.0_f32.into()),
            },
        )],
        vec![("x", FeatureSpec::sequence(float, [0]))],
        vec![(
            "x",
            FeatureSpec::FixedLenSequence {
                dtype: float,
                shape: vec![],
                allow_missing: false,
                default: None,
            },
        )],
        vec![("x", FeatureSpec::fixed(float, [usize::MAX, 2]))],
        vec![
            ("s", sparse("i", "v")),
            ("v", FeatureSpec::fixed(float, [])),
        ],
        vec![
            ("s", sparse("i", "v")),
            ("v", FeatureSpec::var_len(Dtype::Int64)),
        ],
        vec![("s", sparse("i", "v")), ("v", FeatureSpec::ragged(float))],
        vec![("s", sparse("v", "v"))],
        vec![(
            "x",
            FeatureSpec::Ragged {
                dtype: float,
                value_key: None,
                partitions: vec![Partition::UniformRowLength(0)],
            },
        )],
    ];
    for features in refused {
        let shown = format!("{features:?}");
        assert_eq!(
            Schema::new(features).unwrap_err().code,
            Code::InvalidArgument,
            "{shown}"
        );
    }
    // Several forms may read a list.
    Schema::new([
        ("s", sparse("i", "v")),
        ("v", FeatureSpec::var_len(float)),
        ("i", FeatureSpec::var_len(Dtype::Int64)),
    ])
    .unwrap();
}

#[test]
fn sparse_features_are_sorted_by_their_indices() {
    let spec = |keys: &[&str], sizes: &[i64], already_sorted| FeatureSpec::Sparse {
        index_keys: keys.iter().map(|key| key.to_string()).collect(),
        value_key: "v".to_owned(),
        dtype: Dtype::Float,
        sizes: sizes.to_vec(),
        already_sorted,
    };
    let check =
        |spec: FeatureSpec, record: &Example, indices: &[i64], values: &[f32], shape: &[i64]| {
            let batch = batch(spec, &[encode(record)]).unwrap();
            let Some(Column::Sparse(x)) = batch.column("x") else {
                panic!()
            };
            assert_eq!(x.indices, indices);
            assert_eq!(x.values.floats(), Some(values));
            assert_eq!(x.dense_shape, shape);
        };
    let two = example([
        ("i", [3_i64, 1, 1].into()),
        ("j", [0_i64, 5, 2].into()),
        ("v", [1.0_f32, 2.0, 3.0].into()),
    ]);
    check(
        spec(&["i", "j"], &[10, 20], false),
        &two,
        &[0, 1, 2, 0, 1, 5, 0, 3, 0],
        &[3.0, 2.0, 1.0],
        &[1, 10, 20],
    );
    let again = example([
        ("i", [3_i64, 1, 3, 1].into()),
        ("v", [1.0_f32, 2.0, 3.0, 4.0].into()),
    ]);
    check(
        spec(&["i"], &[10], false),
        &again,
        &[0, 1, 0, 1, 0, 3, 0, 3],
        &[2.0, 4.0, 1.0, 3.0],
        &[1, 10],
    );
    check(
        spec(&["i"], &[10], true),
        &again,
        &[0, 3, 0, 1, 0, 3, 0, 1],
        &[1.0, 2.0, 3.0, 4.0],
        &[1, 10],
    );
    let negative = example([("i", [3_i64, -1].into()), ("v", [1.0_f32, 2.0].into())]);
    check(
        spec(&["i"], &[10], false),
        &negative,
        &[0, -1, 0, 3],
        &[2.0, 1.0],
        &[1, 10],
    );
    check(
        spec(&["i"], &[0], false),
        &Example::default(),
        &[],
        &[],
        &[1, 0],
    );
    let uneven = example([("i", [3_i64].into()), ("v", [1.0_f32, 2.0].into())]);
    let error = batch(spec(&["i"], &[10], false), &[encode(&uneven)]).unwrap_err();
    assert_eq!(
        error.cause,
        "feature `x`: record 0 has 2 values and 1 indices"
    );
}

/// A ragged column as nested lists.
fn nested(
    levels: &[Level],
    inner: &[usize],
    values: &[f32],
    range: std::ops::Range<usize>,
) -> String {
    let parts: Vec<String> = match levels {
        [] => match inner {
            [] => return format!("{:?}", &values[range]),
            [length, inner @ ..] => {
                let part = |i: usize| nested(&[], inner, values, i * length..(i + 1) * length);
                range.map(part).collect()
            }
        },
        [level, rest @ ..] => range
            .map(|row| {
                let inside = match level {
                    Level::Splits(splits) => splits[row] as usize..splits[row + 1] as usize,
                    Level::Uniform { length, .. } => row * length..(row + 1) * length,
                };
                nested(rest, inner, values, inside)
            })
            .collect(),
    };
    format!("[{}]", parts.join(", "))
}

fn shown(batch: &Batch) -> String {
    let Some(Column::Ragged(x)) = batch.column("x") else {
        panic!()
    };
    nested(
        x.levels,
        x.inner,
        x.values.floats().unwrap(),
        0..batch.rows(),
    )
}

#[test]
fn ragged_features_are_partitioned_by_others() {
    let records = [
        example([
            ("v", [1.0_f32, 2.0, 3.0, 4.0].into()),
            ("splits", [0_i64, 1, 4].into()),
            ("lengths", [1_i64, 3].into()),
            ("starts", [0_i64, 1].into()),
            ("limits", [1_i64, 4].into()),
            ("ids", [0_i64, 1, 1, 1].into()),
        ]),
        Example::default(),
        example([
            ("v", [5.0_f32, 6.0].into()),
            ("splits", [0_i64, 0, 2].into()),
            ("lengths", [0_i64, 2].into()),
            ("starts", [0_i64, 0].into()),
            ("limits", [0_i64, 2].into()),
            ("ids", [1_i64, 1].into()),
        ]),
    ];
    let records = records.map(|record| encode(&record));
    let ragged = |partitions: Vec<Partition>| {
        let spec = FeatureSpec::Ragged {
            dtype: Dtype::Float,
            value_key: Some("v".to_owned()),
            partitions,
        };
        batch(spec, &records).map(|batch| shown(&batch))
    };
    let uniform = Partition::UniformRowLength;
    for partition in [
        Partition::RowSplits("splits".to_owned()),
        Partition::RowLengths("lengths".to_owned()),
        Partition::RowStarts("starts".to_owned()),
        Partition::RowLimits("limits".to_owned()),
        Partition::ValueRowIds("ids".to_owned()),
    ] {
        let found = ragged(vec![partition.clone()]).unwrap();
        assert_eq!(
            found, "[[[1.0], [2.0, 3.0, 4.0]], [], [[], [5.0, 6.0]]]",
            "{partition:?}"
        );
        let found = ragged(vec![partition.clone(), uniform(1)]).unwrap();
        assert_eq!(
            found, "[[[[1.0]], [[2.0], [3.0], [4.0]]], [], [[], [[5.0], [6.0]]]]",
            "{partition:?}"
        );
        let found = ragged(vec![uniform(1), partition.clone()]).unwrap();
        assert_eq!(
            found, "[[[[1.0]], [[2.0, 3.0, 4.0]]], [], [[[]], [[5.0, 6.0]]]]",
            "{partition:?}"
        );
    }
    assert_eq!(
        ragged(vec![]).unwrap(),
        "[[1.0, 2.0, 3.0, 4.0], [], [5.0, 6.0]]"
    );
    assert_eq!(
        ragged(vec![uniform(2)]).unwrap(),
        "[[[1.0, 2.0], [3.0, 4.0]], [], [[5.0, 6.0]]]"
    );
    assert_eq!(
        ragged(vec![uniform(2), uniform(1)]).unwrap(),
        "[[[[1.0], [2.0]], [[3.0], [4.0]]], [], [[[5.0], [6.0]]]]"
    );
    assert_eq!(
        ragged(vec![uniform(1), uniform(2)]).unwrap(),
        "[[[[1.0, 2.0]], [[3.0, 4.0]]], [], [[[5.0, 6.0]]]]"
    );
    // Inconsistent partitions are an error, whereas TensorFlow moves values from one record to another.
    for partition in [
        uniform(4),
        Partition::RowLengths("splits".to_owned()),
        Partition::RowSplits("lengths".to_owned()),
        Partition::RowLimits("starts".to_owned()),
        Partition::ValueRowIds("limits".to_owned()),
        Partition::RowLengths("nothing".to_owned()),
    ] {
        let error: FormatError = ragged(vec![partition.clone()]).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument, "{partition:?}");
    }
}

#[test]
fn row_partitions_may_be_hostile() {
    for ids in [
        vec![i64::MAX],
        vec![i64::MIN],
        vec![-1],
        vec![1 << 40],
        vec![5, 4],
    ] {
        for partition in [
            Partition::RowSplits("p".to_owned()),
            Partition::RowLengths("p".to_owned()),
            Partition::RowStarts("p".to_owned()),
            Partition::RowLimits("p".to_owned()),
            Partition::ValueRowIds("p".to_owned()),
        ] {
            let spec = FeatureSpec::Ragged {
                dtype: Dtype::Float,
                value_key: Some("v".to_owned()),
                partitions: vec![partition],
            };
            let values = vec![1.0_f32; ids.len()];
            let record = encode(&example([("v", values.into()), ("p", ids.clone().into())]));
            assert_eq!(
                batch(spec, &[record]).unwrap_err().code,
                Code::InvalidArgument,
                "{ids:?}"
            );
        }
    }
}

/// What the builders make are messages of the types that TensorFlow's protos have.
#[test]
fn examples_are_made_of_tensorflows_messages() {
    let numbers: Feature = [1_i64, 2].into();
    let list = Int64List { value: vec![1, 2] };
    let kind = Some(Kind::Int64List(list));
    assert_eq!(numbers, Feature { kind });
    let features = Features {
        feature: [("n".to_owned(), numbers.clone())].into(),
    };
    let own = Example {
        features: Some(features.clone()),
    };
    assert_eq!(example([("n", numbers.clone())]), own);
    let steps = FeatureList {
        feature: vec![numbers.clone(), Feature::default()],
    };
    let lists = FeatureLists {
        feature_list: [("t".to_owned(), steps)].into(),
    };
    let own = SequenceExample {
        context: Some(features),
        feature_lists: Some(lists),
    };
    let built = sequence_example(
        [("n", numbers.clone())],
        [("t", vec![numbers, Feature::default()])],
    );
    assert_eq!(built, own);
    assert_eq!(decode_sequence(&encode_sequence(&built)).unwrap(), own);
}

#[test]
fn sequence_examples_have_steps() {
    let empty: Vec<(&str, Feature)> = vec![];
    let first = encode_sequence(&sequence_example(
        [("id", 7_i64.into())],
        [
            (
                "t",
                vec![
                    [1_i64, 2].into(),
                    Feature::from(Vec::<i64>::new()),
                    3_i64.into(),
                ],
            ),
            ("u", vec![1.0_f32.into(), 2.0_f32.into()]),
            ("l", vec![[1_i64, 1].into(), [0_i64].into(), 1_i64.into()]),
        ],
    ));
    let second = encode_sequence(&sequence_example(
        empty.clone(),
        [
            ("t", vec![Feature::default(), 5_i64.into()]),
            ("l", vec![[0_i64].into(), 1_i64.into()]),
        ],
    ));
    let schema = SequenceSchema::new(
        [("id", FeatureSpec::var_len(Dtype::Int64))],
        [
            ("t", FeatureSpec::var_len(Dtype::Int64)),
            ("u", FeatureSpec::sequence(Dtype::Float, [])),
        ],
    )
    .unwrap();
    let mut parser = SequenceParser::new(&schema);
    parser.push(&first).unwrap();
    parser.push(&second).unwrap();
    let found = parser.finish().unwrap();
    let Some(ListColumn::VarLen(t)) = found.list("t") else {
        panic!()
    };
    assert_eq!(t.indices(), [0, 0, 0, 0, 0, 1, 0, 2, 0, 1, 1, 0]);
    assert_eq!(
        (t.values.int64s(), t.dense_shape()),
        (Some(&[1, 2, 3, 5][..]), [2, 3, 2])
    );
    let Some(ListColumn::Steps(u)) = found.list("u") else {
        panic!()
    };
    assert_eq!((u.lengths, u.shape()), (&[2, 0][..], vec![2, 2]));
    assert_eq!(u.values.floats(), Some(&[1.0, 2.0, 0.0, 0.0][..]));

    let ragged = |partitions| FeatureSpec::Ragged {
        dtype: Dtype::Int64,
        value_key: Some("t".to_owned()),
        partitions,
    };
    let schema = SequenceSchema::new(
        Vec::<(&str, FeatureSpec)>::new(),
        [
            ("r", ragged(vec![])),
            ("c", ragged(vec![Partition::RowLengths("l".to_owned())])),
        ],
    )
    .unwrap();
    let mut parser = SequenceParser::new(&schema);
    parser.push(&first).unwrap();
    parser.push(&second).unwrap();
    let found = parser.finish().unwrap();
    let Some(ListColumn::Ragged(r)) = found.list("r") else {
        panic!()
    };
    assert_eq!(
        r.levels,
        [
            Level::Splits(vec![0, 3, 5]),
            Level::Splits(vec![0, 2, 2, 3, 3, 4])
        ]
    );
    let Some(ListColumn::Ragged(c)) = found.list("c") else {
        panic!()
    };
    let cut = vec![
        Level::Splits(vec![0, 3, 5]),
        Level::Splits(vec![0, 2, 3, 4, 5, 6]),
        Level::Splits(vec![0, 1, 2, 2, 3, 3, 4]),
    ];
    assert_eq!(c.levels, cut);
}

#[test]
fn steps_that_do_not_match_the_schema_are_refused() {
    let none: Vec<(&str, FeatureSpec)> = vec![];
    let schema = SequenceSchema::new(
        none,
        [(
            "t",
            FeatureSpec::FixedLenSequence {
                dtype: Dtype::Int64,
                shape: vec![],
                allow_missing: false,
                default: None,
            },
        )],
    )
    .unwrap();
    let mut parser = SequenceParser::new(&schema);
    let of = |steps: Vec<Feature>| {
        let context: Vec<(&str, Feature)> = vec![];
        encode_sequence(&sequence_example(context, [("t", steps)]))
    };
    parser.push(&of(vec![1_i64.into()])).unwrap();
    for (cause, record) in [
        (
            "record 1: list `t` is required and is not there",
            Vec::new(),
        ),
        (
            "record 1: list `t` holds 2 values in step 0, and not 1",
            of(vec![[1_i64, 2].into()]),
        ),
        (
            "record 1: list `t` holds nothing in step 1, and 1 values are required",
            of(vec![1_i64.into(), Feature::default()]),
        ),
        (
            "record 1: list `t` holds float values in step 0, and int64 values are required",
            of(vec![1_f32.into()]),
        ),
        (
            "record 1 is no example: a field is longer than what is left",
            vec![0x12, 0x7f, b'a', b'b'],
        ),
    ] {
        let error = parser.push(&record).unwrap_err();
        assert_eq!(
            (error.code, error.cause.as_str()),
            (Code::InvalidArgument, cause)
        );
    }
    parser.push(&of(vec![])).unwrap();
    let found = parser.finish().unwrap();
    let Some(ListColumn::Steps(t)) = found.list("t") else {
        panic!()
    };
    assert_eq!(
        (t.lengths, t.values.int64s()),
        (&[1, 0][..], Some(&[1, 0][..]))
    );
}

/// Any bytes give a result or an error; where they are a message, the columns equal the decoded message.
fn agrees(parser: &mut ExampleParser, bytes: &[u8]) {
    let parsed = parser.parse(bytes).cloned();
    let Ok(message) = decode(bytes) else {
        return;
    };
    let features = message.features.unwrap_or_default();
    let kind = |name: &str| {
        features
            .feature
            .get(name)
            .and_then(|feature| feature.kind.clone())
    };
    let fits = [
        !matches!(kind("f"), Some(Kind::BytesList(_) | Kind::Int64List(_))),
        !matches!(kind("i"), Some(Kind::BytesList(_) | Kind::FloatList(_))),
        !matches!(kind("b"), Some(Kind::FloatList(_) | Kind::Int64List(_))),
    ];
    if fits.contains(&false) {
        assert!(parsed.is_err(), "{bytes:?}");
        return;
    }
    let batch = parsed.unwrap_or_else(|e| panic!("{e}: {bytes:?}"));
    for name in ["f", "i", "b"] {
        let Some(Column::VarLen(column)) = batch.column(name) else {
            panic!()
        };
        let same = match (column.values, kind(name)) {
            (values, None) => values.is_empty(),
            (Values::Float(found), Some(Kind::FloatList(list))) => found
                .iter()
                .map(|v| v.to_bits())
                .eq(list.value.iter().map(|v| v.to_bits())),
            (Values::Int64(found), Some(Kind::Int64List(list))) => *found == list.value,
            (Values::Bytes(found), Some(Kind::BytesList(list))) => {
                found.iter().eq(list.value.iter())
            }
            _ => false,
        };
        assert!(same, "{name}: {bytes:?}");
    }
}

#[test]
fn a_damaged_example_is_an_error_or_equals_the_decoded_message() {
    let schema = Schema::new([
        ("f", FeatureSpec::var_len(Dtype::Float)),
        ("i", FeatureSpec::var_len(Dtype::Int64)),
        ("b", FeatureSpec::var_len(Dtype::Bytes)),
    ])
    .unwrap();
    let mut parser = ExampleParser::new(&schema);
    let long = vec![1.5_f32; 40];
    let wholes = [
        encode(&example([
            ("f", [1.0_f32, -2.0].into()),
            ("i", [3_i64, -1, 300, i64::MAX].into()),
            ("b", ["", "abc"].into()),
            ("another", 1.0_f32.into()),
        ])),
        encode(&example([
            ("f", long.into()),
            ("i", 200_i64.into()),
            ("b", "x".into()),
        ])),
    ];
    for whole in wholes {
        agrees(&mut parser, &whole);
        for cut in 0..whole.len() {
            agrees(&mut parser, &whole[..cut]);
        }
        for place in 0..whole.len() {
            for value in 0..=255 {
                let mut changed = whole.clone();
                changed[place] = value;
                agrees(&mut parser, &changed);
            }
            let mut without = whole.clone();
            without.remove(place);
            agrees(&mut parser, &without);
        }
    }
}

#[test]
fn keys_and_entries_of_any_length_follow_each_other() {
    // The parser caches the key at each entry index of the last record, and compares it word by word.
    let key = |length: usize| "k".repeat(length);
    for length in 0..40 {
        let schema = Schema::new([(key(length), FeatureSpec::var_len(Dtype::Int64))]).unwrap();
        for other in 0..40 {
            let mut parser = ExampleParser::new(&schema);
            let long = example([
                (key(length), [640_i64].into()),
                (key(other) + "z", [3_i64].into()),
            ]);
            let short = example([(key(other), Vec::<i64>::new().into())]);
            let values = vec![7_i64; other];
            let values = example([(key(length), values.into())]);
            for record in [&long, &short, &values, &long] {
                parser.push(&encode(record)).unwrap();
            }
            let batch = parser.finish().unwrap();
            let Some(Column::VarLen(found)) = batch.column(&key(length)) else {
                panic!("a list");
            };
            let lengths: Vec<usize> = (0..4).map(|row| found.row(row).len()).collect();
            assert_eq!(lengths, [1, 0, other, 1], "{length} {other}");
        }
    }
}
