//! Every checkpoint of the reference data reads as TensorFlow reads it, and is written again byte for byte.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::tensors::{Fields, dtype, same, shape, tensor};
use crate::support::{Folder, json, oracle, sha256};
use serde_json::Value as Json;
use trainspec_formats::checkpoint::bundle::{Entry, Options, data_path, index_path};
use trainspec_formats::checkpoint::object::{OBJECT_GRAPH_KEY, StoredValue};
use trainspec_formats::checkpoint::{
    Bundle, BundleWriter, CheckpointReader, CheckpointState, Elements, Extent, Slice,
    TableCheckpoint, TableCheckpointWriter, Tensor, get_checkpoint_state,
};
use trainspec_formats::{Code, FormatError, crc};

/// The names of the files of one kind, sorted.
fn cases() -> Vec<String> {
    let folder = oracle().join("checkpoints");
    let names = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut cases: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
        .collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases
}

#[test]
fn oracle_checkpoints_read_as_tensorflow_reads_them() {
    let (mut whole, mut damaged, mut tensors) = (0, 0, 0);
    for case in cases() {
        let json = json(format!("checkpoints/{case}.json"));
        match json.get("defect") {
            None => {
                tensors += read(&case, &json);
                whole += 1;
            }
            Some(_) => {
                read_damaged(&case, &json);
                damaged += 1;
            }
        }
    }
    println!("{whole} checkpoints with {tensors} tensors, {damaged} damaged ones");
    assert!(whole > 0 && damaged > 0);
}

fn read(case: &str, json: &Json) -> usize {
    let mut fields = Fields::new(case, json);
    assert_eq!(fields.need("format"), 1);
    let folder = oracle().join("checkpoints").join(fields.text("directory"));
    let prefix = folder.join(fields.text("prefix"));
    let reader = CheckpointReader::open(&prefix).unwrap_or_else(|e| panic!("{case}: {e}"));
    match (fields.text("version"), &reader) {
        ("V2", CheckpointReader::Bundle(_)) | ("V1", CheckpointReader::Table(_)) => {}
        (version, _) => panic!("{case}: {version} was not recognised"),
    }
    // TensorFlow's view of the meta graph is not tested here.
    fields.ignore("meta");
    check_files(case, &folder, fields.need("files"));
    let count = check_tensors(case, &reader, fields.need("tensors"));
    check_state(case, &folder, fields.need("state"));
    if let CheckpointReader::Bundle(bundle) = &reader {
        check_header(case, bundle, fields.need("header"));
        let entries = fields.need("entries").as_array().unwrap();
        let names: Vec<&str> = entries
            .iter()
            .map(|e| e["name"].as_str().unwrap())
            .collect();
        assert_eq!(reader.names(), names, "{case}");
        for entry in entries {
            let name = entry["name"].as_str().unwrap();
            check_entry(case, bundle.entry(name).unwrap(), entry);
        }
        let parts: Vec<&Entry> = bundle
            .entries()
            .flat_map(|(name, entry)| {
                let parts = entry.slices.iter();
                parts.map(move |slice| bundle.slice_entry(name, slice).unwrap())
            })
            .collect();
        let stated = fields.take("slice_entries");
        let stated = stated.map_or(&[][..], |list| list.as_array().unwrap());
        assert_eq!(parts.len(), stated.len(), "{case}");
        // The keys sort as the slices are listed.
        for (part, stated) in parts.into_iter().zip(stated) {
            check_entry(case, part, stated);
        }
    }
    if let Some(graph) = fields.take("object_graph") {
        check_objects(case, &reader, graph);
    }
    fields.end();
    let damage = reader.verify();
    assert!(damage.is_empty(), "{case}: {damage:?}");
    let from_folder = CheckpointReader::open(&folder).unwrap();
    assert_eq!(from_folder.names(), reader.names(), "{case}");
    count
}

fn check_files(case: &str, folder: &Path, files: &Json) {
    let mut names = BTreeSet::new();
    for file in files.as_array().unwrap() {
        let mut fields = Fields::new(case, file);
        let name = fields.text("name");
        let bytes = std::fs::read(folder.join(name)).unwrap();
        assert_eq!(fields.need("size"), bytes.len(), "{case}: {name}");
        assert_eq!(fields.text("sha256"), sha256::of(&bytes), "{case}: {name}");
        fields.end();
        names.insert(name.to_owned());
    }
    let found: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, found, "{case}");
}

fn check_tensors(case: &str, reader: &CheckpointReader, stated: &Json) -> usize {
    let stated = stated.as_array().unwrap();
    for tensor_json in stated {
        let mut fields = Fields::new(case, tensor_json);
        let name = fields.text("name");
        let what = format!("{case}: {name}");
        let found = reader
            .get_tensor(name)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let (dtype, shape) = (dtype(fields.need("dtype")), shape(fields.need("shape")));
        assert_eq!(
            (found.dtype(), found.shape()),
            (dtype, &shape[..]),
            "{what}"
        );
        assert_eq!(reader.entry(name), Some((dtype, &shape[..])), "{what}");
        // A note says where TensorFlow's value comes from.
        fields.ignore("note");
        if let Some(value) = fields.take("value") {
            let expected = tensor(&what, value);
            assert!(same(&found, &expected), "{what}: {found:?} {expected:?}");
        } else if name != OBJECT_GRAPH_KEY {
            assert_eq!(fields.need("bytes"), found.bytes().len(), "{what}");
            assert_eq!(fields.text("sha256"), sha256::of(found.bytes()), "{what}");
            assert_eq!(fields.need("crc32c"), crc::of(found.bytes()), "{what}");
            let first = tensor(&what, fields.need("first"));
            assert!(found.bytes().starts_with(first.bytes()), "{what}");
        }
        if dtype.size().is_some() {
            let mut into = vec![0xaa; found.bytes().len()];
            reader.read_into(name, &mut into).unwrap();
            assert_eq!(into, found.bytes(), "{what}");
            check_slices(&what, reader, name, &found);
        }
        fields.end();
    }
    let names: Vec<&str> = stated.iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(reader.names(), names, "{case}");
    stated.len()
}

/// Every row of a tensor, read by itself, is that row.
fn check_slices(what: &str, reader: &CheckpointReader, name: &str, whole: &Tensor) {
    let shape = whole.shape();
    let (Some(&rows), Some(size)) = (shape.first(), whole.dtype().size()) else {
        return;
    };
    let row = shape[1..].iter().product::<usize>() * size;
    for start in 0..rows.min(8) {
        let mut slice = Slice::full(shape.len());
        slice.0[0] = Extent::Part { start, length: 1 };
        let found = reader.get_slice(name, &slice).unwrap();
        let expected = &whole.bytes()[start * row..(start + 1) * row];
        assert_eq!(found.bytes(), expected, "{what} {slice}");
    }
}

fn check_state(case: &str, folder: &Path, stated: &Json) {
    let mut fields = Fields::new(case, stated);
    fields.ignore("note");
    let text = std::fs::read_to_string(folder.join("checkpoint")).unwrap();
    assert_eq!(fields.text("text"), text, "{case}");
    assert_eq!(
        CheckpointState::parse(&text).unwrap().to_text(),
        text,
        "{case}"
    );
    let state = get_checkpoint_state(folder, None).unwrap().unwrap();
    let root = oracle().join("checkpoints");
    let path = |path: &Json| {
        let path = root.join(path.as_str().unwrap());
        path.to_str().unwrap().to_owned()
    };
    assert_eq!(
        state.model_checkpoint_path,
        path(fields.need("model_checkpoint_path")),
        "{case}"
    );
    let all = fields
        .need("all_model_checkpoint_paths")
        .as_array()
        .unwrap();
    let all: Vec<String> = all.iter().map(path).collect();
    assert_eq!(state.all_model_checkpoint_paths, all, "{case}");
    let times = fields.need("all_model_checkpoint_timestamps");
    let times: Vec<f64> = times
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t.as_f64().unwrap())
        .collect();
    assert_eq!(state.all_model_checkpoint_timestamps, times, "{case}");
    let last = fields.need("last_preserved_timestamp").as_f64().unwrap();
    assert_eq!(state.last_preserved_timestamp, last, "{case}");
    fields.end();
}

fn check_header(case: &str, bundle: &Bundle, stated: &Json) {
    let mut fields = Fields::new(case, stated);
    let header = bundle.header();
    assert_eq!(fields.need("num_shards"), header.shards, "{case}");
    assert_eq!(
        fields.need("endianness"),
        header.endianness as u32,
        "{case}"
    );
    let mut version = Fields::new(case, fields.need("version"));
    assert_eq!(version.need("producer"), header.producer, "{case}");
    assert_eq!(version.need("min_consumer"), header.min_consumer, "{case}");
    version.end();
    fields.end();
}

fn check_entry(case: &str, found: &Entry, stated: &Json) {
    let mut fields = Fields::new(case, stated);
    let what = format!("{case}: {stated}");
    // One of them says which entry it is.
    fields.ignore("name");
    fields.ignore("key_hex");
    assert_eq!(found.dtype, dtype(fields.need("dtype")), "{what}");
    assert_eq!(found.shape, shape(fields.need("shape")), "{what}");
    assert_eq!(fields.need("shard_id"), found.shard, "{what}");
    assert_eq!(fields.need("offset"), found.offset, "{what}");
    assert_eq!(fields.need("size"), found.size, "{what}");
    assert_eq!(fields.need("crc32c"), found.crc, "{what}");
    let slices = fields.take("slices");
    let slices = slices.map_or(&[][..], |list| list.as_array().unwrap());
    let slices: Vec<Slice> = slices
        .iter()
        .map(|extents| {
            let extent = |extent: &Json| match extent.as_array() {
                None => Extent::Full,
                Some(pair) => Extent::Part {
                    start: pair[0].as_u64().unwrap() as usize,
                    length: pair[1].as_u64().unwrap() as usize,
                },
            };
            Slice(extents.as_array().unwrap().iter().map(extent).collect())
        })
        .collect();
    assert_eq!(found.slices, slices, "{what}");
    fields.end();
}

fn check_objects(case: &str, reader: &CheckpointReader, stated: &Json) {
    let graph = reader.object_graph().unwrap().unwrap();
    let stated = stated.as_array().unwrap();
    assert_eq!(graph.nodes.len(), stated.len(), "{case}");
    for (id, (node, stated)) in graph.nodes.iter().zip(stated).enumerate() {
        let mut fields = Fields::new(format!("{case}: object {id}"), stated);
        assert_eq!(fields.need("id"), id);
        let children = fields.need("children").as_object().unwrap();
        assert_eq!(node.children.len(), children.len());
        for (name, child) in &node.children {
            assert_eq!(children[name], *child, "{case}: {name}");
        }
        let values = fields.need("attributes").as_array().unwrap();
        let values: Vec<StoredValue> = values
            .iter()
            .map(|value| {
                let mut fields = Fields::new(case, value);
                let value = StoredValue {
                    name: fields.text("name").to_owned(),
                    full_name: fields.text("full_name").to_owned(),
                    key: fields.text("checkpoint_key").to_owned(),
                };
                fields.end();
                value
            })
            .collect();
        assert_eq!(node.values, values, "{case}");
        let slots = fields.need("slot_variables").as_array().unwrap();
        assert_eq!(node.slots.len(), slots.len(), "{case}");
        for (slot, stated) in node.slots.iter().zip(slots) {
            let mut fields = Fields::new(case, stated);
            assert_eq!(fields.need("original_variable_node_id"), slot.variable);
            assert_eq!(fields.text("slot_name"), slot.name);
            assert_eq!(fields.need("slot_variable_node_id"), slot.slot);
            fields.end();
        }
        fields.end();
    }
    let Elements::Strings(bytes) = reader.get_tensor(OBJECT_GRAPH_KEY).unwrap().into_elements()
    else {
        panic!("{case}: the graph is no string");
    };
    assert_eq!(graph.encode(), bytes[0], "{case}");
    for variable in graph.variables() {
        let by_key = reader.get_tensor(&variable.value.key).unwrap();
        let by_path = reader.get_variable(&variable.path).unwrap();
        assert_eq!(by_key, by_path, "{case}: {}", variable.path);
        if let [only] = graph.named(&variable.value.full_name)[..] {
            let by_name = reader.get_variable(&only.full_name).unwrap();
            assert_eq!(by_key, by_name, "{case}: {}", only.full_name);
        }
    }
}

/// TensorFlow's outcome of opening or reading: `None` for success, or an error code.
fn verdict(json: &Json) -> Option<Code> {
    if json == "ok" {
        return None;
    }
    let mut fields = Fields::new("an error", json);
    let (class, message) = (fields.text("type"), fields.text("message"));
    fields.end();
    Some(match class {
        "DataLossError" => Code::DataLoss,
        "NotFoundError" => Code::NotFound,
        // Python's exception for `OutOfRange`.
        "OutOfRangeError" | "IndexError" => Code::OutOfRange,
        // The reader drops the class; the message still shows it.
        "OpError" if message.contains("No such file") => Code::NotFound,
        "OpError" if message.contains("hecksum") || message.contains("not an sstable") => {
            Code::DataLoss
        }
        other => panic!("the error {other}: {message}"),
    })
}

fn read_damaged(case: &str, json: &Json) {
    let mut fields = Fields::new(case, json);
    assert_eq!(fields.need("format"), 1);
    let root = oracle().join("checkpoints");
    let folder = root.join(fields.text("directory"));
    let prefix = folder.join(fields.text("prefix"));
    let whole = CheckpointReader::open(&root.join(fields.text("undamaged"))).unwrap();
    let mut defect = Fields::new(case, fields.need("defect"));
    let kind = defect.text("kind");
    let file = folder.join(defect.text("file"));
    let place = match kind {
        "flipped_data" | "flipped_index" => {
            defect.need("xor");
            Some(defect.need("offset").as_u64().unwrap())
        }
        "truncated_data" | "truncated_index" => Some(defect.need("kept_bytes").as_u64().unwrap()),
        "missing_data" => None,
        other => panic!("{case}: the defect {other}"),
    };
    defect.ignore("inside_tensor");
    defect.end();
    let mut says = Fields::new(case, fields.need("tensorflow"));
    let opened = CheckpointReader::open(&prefix);
    let check_location = |e: &FormatError| {
        assert_eq!(e.path.as_deref(), Some(file.as_path()), "{case}: {e}");
        assert_eq!(e.offset.is_some(), place.is_some(), "{case}: {e}");
        assert!(!e.cause.is_empty());
    };
    let mut first = None;
    match (verdict(says.need("open")), &opened) {
        (None, Ok(_)) => {}
        (Some(code), Err(e)) => {
            assert_eq!(e.code, code, "{case}: {e}");
            check_location(e);
            first = Some(e.code);
        }
        (expected, found) => panic!("{case}: {expected:?}, found {found:?}"),
    }
    if let Some(names) = says.take("names") {
        let names: Vec<&str> = names
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_str().unwrap())
            .collect();
        assert_eq!(opened.as_ref().unwrap().names(), names, "{case}");
    }
    let mut wrong = 0;
    for (name, stated) in says.need("read").as_object().unwrap() {
        let found = opened.as_ref().unwrap().get_tensor(name);
        match (verdict(stated), found) {
            (None, Ok(tensor)) => {
                assert_eq!(tensor, whole.get_tensor(name).unwrap(), "{case}: {name}");
            }
            (Some(code), Err(e)) => {
                assert_eq!(e.code, code, "{case}: {name}: {e}");
                check_location(&e);
                if kind.starts_with("flipped") {
                    assert!(e.offset <= place, "{case}: {e}");
                }
                first.get_or_insert(e.code);
                wrong += 1;
            }
            (expected, found) => panic!("{case}: {name}: {expected:?}, found {found:?}"),
        }
    }
    assert_eq!(verdict(says.need("restore")), first, "{case}");
    says.end();
    fields.end();
    let damage = trainspec_formats::checkpoint::verify(&prefix);
    // A missing file is reported once, whatever was in it.
    let expected = match first {
        Some(Code::NotFound) => 1,
        _ => wrong.max(1),
    };
    assert_eq!(damage.len(), expected, "{case}: {damage:?}");
    damage.iter().for_each(check_location);
}

#[test]
fn oracle_checkpoints_are_written_byte_for_byte() {
    let mut count = 0;
    for case in cases() {
        let json = json(format!("checkpoints/{case}.json"));
        if json.get("defect").is_some() {
            continue;
        }
        let folder = oracle().join("checkpoints").join(&case);
        let name = json["prefix"].as_str().unwrap();
        let out = Folder::new();
        match CheckpointReader::open(&folder.join(name)).unwrap() {
            CheckpointReader::Bundle(bundle) => {
                copy_bundle(&bundle, &out.file(name));
                let shards = bundle.header().shards;
                let paths = |prefix: &Path| {
                    let mut paths = vec![index_path(prefix)];
                    paths.extend((0..shards).map(|shard| data_path(prefix, shard, shards)));
                    paths
                };
                for (ours, theirs) in paths(&out.file(name)).iter().zip(paths(&folder.join(name))) {
                    let (ours, theirs) = (
                        std::fs::read(ours).unwrap(),
                        std::fs::read(&theirs).unwrap(),
                    );
                    assert!(ours == theirs, "{case}");
                }
            }
            CheckpointReader::Table(table) => {
                copy_table(&table, &out.file(name));
                let ours = std::fs::read(out.file(name)).unwrap();
                let theirs = std::fs::read(folder.join(name)).unwrap();
                assert!(ours == theirs, "{case}");
            }
            other => panic!("{case}: {other:?}"),
        }
        count += 1;
    }
    println!("{count} checkpoints written again");
}

/// Writes the tensors of a bundle again, in the order of their offsets.
fn copy_bundle(from: &Bundle, to: &Path) {
    /// An entry with bytes, its tensor, and the slice of a partitioned tensor.
    type Piece<'a> = (&'a Entry, &'a str, Option<(&'a Entry, &'a Slice)>);
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for (name, entry) in from.entries() {
        match entry.slices.is_empty() {
            true => pieces.push((entry, name, None)),
            false => pieces.extend(entry.slices.iter().map(|slice| {
                let part = from.slice_entry(name, slice).unwrap();
                (part, name, Some((entry, slice)))
            })),
        }
    }
    pieces.sort_by_key(|(entry, _, _)| (entry.offset, entry.size));
    let options = Options {
        shards: from.header().shards,
        ..Options::default()
    };
    let mut writer = BundleWriter::create(to, options).unwrap();
    for (entry, name, part) in pieces {
        let shard = entry.shard as u32;
        match part {
            None => writer
                .add_to(shard, name, &from.tensor(name).unwrap())
                .unwrap(),
            Some((whole, slice)) => {
                let tensor = from.slice(name, slice).unwrap();
                writer
                    .add_slice(shard, name, &whole.shape, slice, &tensor)
                    .unwrap();
            }
        }
    }
    writer.finish().unwrap();
}

fn copy_table(from: &TableCheckpoint, to: &Path) {
    let parts: Vec<(&str, Vec<usize>, &Slice, Tensor)> = from
        .entries()
        .flat_map(|(name, _, shape)| {
            let slices = from.slices(name).unwrap().into_iter();
            slices.map(move |slice| {
                let tensor = from.slice(name, slice).unwrap();
                (name, shape.to_vec(), slice, tensor)
            })
        })
        .collect();
    let mut writer = TableCheckpointWriter::new();
    for (name, shape, slice, tensor) in &parts {
        writer.add_slice(name, shape, slice, tensor).unwrap();
    }
    writer.write(to, Default::default()).unwrap();
}
