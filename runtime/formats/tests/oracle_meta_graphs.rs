//! `MetaGraphDef` files beside checkpoints hold what is stated, and round-trip without loss.

use std::path::{Path, PathBuf};

use crate::support::messages::{fields, number};
use crate::support::{bytes, json, oracle};
use prost::Message;
use serde_json::{Value as Json, json as value};
use trainspec_formats::FileKind;
use trainspec_formats::bounded::{DEFAULT_MEMORY_LIMIT, decode};
use trainspec_formats::proto::collection_def::Kind;
use trainspec_formats::proto::{
    ClusterDef, CollectionDef, JobDef, MetaGraphDef, QueueRunnerDef, ServerDef, VariableDef,
};

/// The files `.meta` below a folder of the reference data.
fn meta_files(of: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let folders = list(of).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = folders.flat_map(|folder| list(&folder)).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "meta"));
    files.sort();
    files
}

fn read(path: &Path) -> (Vec<u8>, MetaGraphDef) {
    let bytes = std::fs::read(path).unwrap();
    let graph = decode(FileKind::Other, &bytes, DEFAULT_MEMORY_LIMIT).unwrap();
    (bytes, graph)
}

#[test]
fn oracle_graphs_beside_checkpoints_hold_what_is_stated() {
    let mut compared = 0;
    for kind in ["checkpoints", "metagraph"] {
        for path in meta_files(&oracle().join(kind)) {
            let folder = path
                .parent()
                .unwrap()
                .file_name()
                .unwrap()
                .to_str()
                .unwrap();
            let stated = json(format!("{kind}/{folder}.json"));
            // Of several checkpoints, the last is stated.
            let prefix = path.file_stem().unwrap().to_str().unwrap();
            if stated["prefix"] != prefix {
                continue;
            }
            assert_graph(&read(&path).1, &stated["meta"], folder);
            compared += 1;
        }
    }
    println!("{compared} graphs");
    assert!(compared >= 6);
}

fn assert_graph(graph: &MetaGraphDef, stated: &Json, name: &str) {
    fields(stated, &["saver_def", "nodes", "collections", "producer"]);
    let inner = graph.graph_def.as_ref().unwrap();
    let nodes = inner
        .node
        .iter()
        .map(|node| vec![node.name.clone(), node.op.clone()]);
    assert_eq!(Json::from_iter(nodes), stated["nodes"], "{name}");
    let producer = inner.versions.as_ref().unwrap().producer;
    assert_eq!(stated["producer"], producer, "{name}");

    let saver = graph.saver_def.as_ref().unwrap();
    let expected = &stated["saver_def"];
    let known = [
        "filename_tensor_name",
        "save_tensor_name",
        "restore_op_name",
        "max_to_keep",
        "sharded",
        "keep_checkpoint_every_n_hours",
        "version",
    ];
    fields(expected, &known);
    assert_eq!(saver.filename_tensor_name, expected["filename_tensor_name"]);
    assert_eq!(saver.save_tensor_name, expected["save_tensor_name"]);
    assert_eq!(saver.restore_op_name, expected["restore_op_name"]);
    assert_eq!(expected["max_to_keep"], saver.max_to_keep);
    assert_eq!(expected["sharded"], saver.sharded);
    let hours = f64::from(saver.keep_checkpoint_every_n_hours);
    assert_eq!(hours, number(&expected["keep_checkpoint_every_n_hours"]));
    assert_eq!(saver.version().as_str_name(), expected["version"]);

    let count = |collection: &CollectionDef| match collection.kind.as_ref().unwrap() {
        Kind::NodeList(list) => list.value.len(),
        Kind::BytesList(list) => list.value.len(),
        Kind::Int64List(list) => list.value.len(),
        Kind::FloatList(list) => list.value.len(),
        Kind::AnyList(list) => list.value.len(),
    };
    let collections: serde_json::Map<String, Json> = graph
        .collection_def
        .iter()
        .map(|(name, collection)| (name.clone(), value!(count(collection))))
        .collect();
    assert_eq!(Json::Object(collections), stated["collections"], "{name}");
}

/// As many bytes come out as went in, and they say the same: no field is unknown to us.
#[test]
fn oracle_graphs_lose_nothing() {
    let mut files = meta_files(&oracle().join("checkpoints"));
    files.extend(meta_files(&oracle().join("metagraph")));
    println!("{} graphs", files.len());
    for path in files {
        let (bytes, graph) = read(&path);
        let again = graph.encode_to_vec();
        assert_eq!(again.len(), bytes.len(), "{}", path.display());
        assert!(
            decode::<MetaGraphDef>(FileKind::Other, &again, DEFAULT_MEMORY_LIMIT).unwrap() == graph
        );
        for (name, collection) in &graph.collection_def {
            let Some(Kind::BytesList(list)) = &collection.kind else {
                continue;
            };
            for bytes in &list.value {
                let again = match name.as_str() {
                    "queue_runners" => {
                        decode::<QueueRunnerDef>(FileKind::Other, bytes, DEFAULT_MEMORY_LIMIT)
                            .unwrap()
                            .encode_to_vec()
                    }
                    _ => decode::<VariableDef>(FileKind::Other, bytes, DEFAULT_MEMORY_LIMIT)
                        .unwrap()
                        .encode_to_vec(),
                };
                assert_eq!(&again, bytes, "{name}");
            }
        }
    }
}

/// Clusters have the addresses that are stated, and servers the names, where there are any.
#[test]
fn oracle_clusters_and_servers_read_as_stated() {
    if !oracle().join("cluster.json").exists() {
        println!("no clusters");
        return;
    }
    let all = json("cluster.json");
    let mut compared = 0;
    for case in all["cases"].as_array().unwrap() {
        let expected = &case["expected"];
        if let Some(hex) = expected.get("cluster_def_hex") {
            let cluster: ClusterDef =
                decode(FileKind::Other, &bytes(hex), DEFAULT_MEMORY_LIMIT).unwrap();
            let jobs = cluster.job.iter().map(|job: &JobDef| {
                let tasks = job.tasks.iter();
                let tasks = tasks.map(|(index, task)| (index.to_string(), value!(task)));
                (job.name.clone(), Json::Object(tasks.collect()))
            });
            assert_eq!(Json::Object(jobs.collect()), expected["task_address"]);
            let again = decode::<ClusterDef>(
                FileKind::Other,
                &cluster.encode_to_vec(),
                DEFAULT_MEMORY_LIMIT,
            );
            assert_eq!(again.unwrap(), cluster);
            compared += 1;
        }
        if let Some(hex) = expected.get("server_def_hex") {
            let server: ServerDef =
                decode(FileKind::Other, &bytes(hex), DEFAULT_MEMORY_LIMIT).unwrap();
            assert_eq!(server.job_name, expected["job_name"]);
            assert_eq!(expected["task_index"], server.task_index);
            assert_eq!(server.protocol, expected["protocol"]);
            let again = decode::<ServerDef>(
                FileKind::Other,
                &server.encode_to_vec(),
                DEFAULT_MEMORY_LIMIT,
            );
            assert_eq!(again.unwrap(), server);
            compared += 1;
        }
    }
    println!("{compared} clusters and servers");
}
