//! The helpers of `tf.train` around checkpoints do what TensorFlow's do.

use std::path::Path;

use crate::support::tensors::{Fields, same, shape, tensor};
use crate::support::{Folder, json};
use serde_json::Value as Json;
use trainspec_formats::Code;
use trainspec_formats::checkpoint::{
    BundleWriter, CheckpointList, PathStyle, Version, checkpoint_exists,
    generate_checkpoint_state_proto, get_checkpoint_mtimes, get_checkpoint_state,
    latest_checkpoint, list_variables, load_checkpoint, load_variable, new_checkpoint_reader,
    remove_checkpoint, update_checkpoint_state,
};
use trainspec_formats::files::Durability;

/// Kinds of cases that other tests cover.
const OTHERS: [&str; 10] = [
    "timer",
    "saver_keep",
    "manager_keep",
    "warm_start",
    "warm_start_names",
    "init_from_checkpoint",
    "hooks",
    "hook_schedule",
    "hook_error",
    "coordinator",
];

#[test]
fn oracle_helpers_do_what_tensorflow_does() {
    let json = json("misc.json");
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for case in json["cases"].as_array().unwrap() {
        let mut fields = Fields::new("a case", case);
        let (name, kind) = (fields.text("name"), fields.text("kind"));
        match kind {
            "generate_checkpoint_state_proto" => state_proto(name, fields),
            "update_checkpoint_state" => update(name, fields),
            "checkpoint_helpers" => helpers(name, fields),
            "load_variable" => variable(name, fields),
            "list_variables" => variables(name, fields),
            other if OTHERS.contains(&other) => continue,
            other => panic!("{name}: the kind {other}"),
        }
        *counts.entry(kind).or_default() += 1;
    }
    println!("{counts:?}");
    assert_eq!(counts.len(), 5);
}

/// The owned arguments of a call.
struct Args {
    folder: String,
    newest: String,
    all: Vec<String>,
    timestamps: Vec<f64>,
    last_preserved: Option<f64>,
    file: Option<String>,
}

fn args(name: &str, json: &Json) -> Args {
    let mut fields = Fields::new(name, json);
    let list = |json: Option<&Json>| -> Vec<Json> {
        json.and_then(Json::as_array).cloned().unwrap_or_default()
    };
    let args = Args {
        folder: fields.text("save_dir").to_owned(),
        newest: fields.text("model_checkpoint_path").to_owned(),
        all: list(fields.take("all_model_checkpoint_paths"))
            .iter()
            .map(|path| path.as_str().unwrap().to_owned())
            .collect(),
        timestamps: list(fields.take("all_model_checkpoint_timestamps"))
            .iter()
            .map(|time| time.as_f64().unwrap())
            .collect(),
        last_preserved: fields
            .take("last_preserved_timestamp")
            .and_then(Json::as_f64),
        file: fields
            .take("latest_filename")
            .and_then(Json::as_str)
            .map(str::to_owned),
    };
    fields.end();
    args
}

impl Args {
    fn with<T>(&self, call: impl FnOnce(&CheckpointList<'_>) -> T) -> T {
        let all: Vec<&str> = self.all.iter().map(String::as_str).collect();
        call(&CheckpointList {
            newest: &self.newest,
            all: &all,
            timestamps: &self.timestamps,
            last_preserved: self.last_preserved,
        })
    }
}

fn class(json: &Json) -> Code {
    let mut fields = Fields::new("an error", json);
    let class = fields.text("type");
    fields.ignore("message");
    fields.end();
    match class {
        "ValueError" | "InvalidArgumentError" => Code::InvalidArgument,
        "NotFoundError" => Code::NotFound,
        other => panic!("the error {other}"),
    }
}

fn state_proto(name: &str, mut fields: Fields<'_>) {
    let args = args(name, fields.need("args"));
    let made = args.with(|listed| generate_checkpoint_state_proto(args.folder.as_ref(), listed));
    match fields.take("expected_error") {
        Some(error) => assert_eq!(made.unwrap_err().code, class(error), "{name}"),
        None => assert_eq!(made.unwrap().to_text(), fields.text("expected"), "{name}"),
    }
    fields.end();
}

/// Relative paths are relative to a folder of the test, which cannot be the working folder while others run: so the folder is given
/// as absolute, and what is written for a relative one is compared through the text alone.
fn update(name: &str, mut fields: Fields<'_>) {
    let args = args(name, fields.need("args"));
    let expected = fields.text("expected");
    let made = args
        .with(|listed| generate_checkpoint_state_proto(args.folder.as_ref(), listed))
        .unwrap();
    assert_eq!(made.to_text(), expected, "{name}");
    let root = Folder::new();
    let folder = root.file(&args.folder);
    std::fs::create_dir_all(&folder).unwrap();
    let listed = CheckpointList {
        newest: &made.model_checkpoint_path,
        all: &made
            .all_model_checkpoint_paths
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
        ..CheckpointList::default()
    };
    update_checkpoint_state(
        &folder,
        &listed,
        args.file.as_deref(),
        PathStyle::AsGiven,
        Durability::Unsynced,
    )
    .unwrap();
    let written = std::fs::read_to_string(root.file(fields.text("file"))).unwrap();
    // TensorFlow leads out of the folder by a relative path; here it is an absolute one.
    let out = format!("\"{}/../", folder.display());
    assert_eq!(written, expected.replace("\"../", &out), "{name}");
    let newest = get_checkpoint_state(&folder, args.file.as_deref()).unwrap();
    let newest = newest.unwrap().model_checkpoint_path;
    assert_eq!(
        newest,
        folder.join(&made.model_checkpoint_path).to_str().unwrap()
    );
    fields.end();
}

fn helpers(name: &str, mut fields: Fields<'_>) {
    let root = Folder::new();
    let folder_name = fields.text("directory");
    let folder = root.file(folder_name);
    std::fs::create_dir_all(&folder).unwrap();
    for file in fields.need("files").as_array().unwrap() {
        std::fs::write(folder.join(file.as_str().unwrap()), b"").unwrap();
    }
    let state = fields.text("state");
    std::fs::write(folder.join("checkpoint"), state).unwrap();
    let checkpoints: Vec<_> = fields
        .need("checkpoints")
        .as_array()
        .unwrap()
        .iter()
        .map(|path| root.file(path.as_str().unwrap()))
        .collect();
    let mut expected = Fields::new(name, fields.need("expected"));
    // Paths are stated relative to the folder in which TensorFlow ran.
    let seen = |path: &Path| {
        let path = path.strip_prefix(&root.0).unwrap_or(path);
        path.to_str().unwrap().to_owned()
    };
    let text = |json: &Json| json.as_str().map(str::to_owned);
    let latest = |folder: &Path| latest_checkpoint(folder, None).unwrap().map(|p| seen(&p));
    assert_eq!(latest(&folder), text(expected.need("latest_checkpoint")));
    let missing = root.file("missing");
    assert_eq!(
        latest(&missing),
        text(expected.need("latest_checkpoint_missing_dir"))
    );
    let get = |folder: &Path| {
        get_checkpoint_state(folder, None).unwrap().map(|state| {
            let root = format!("{}/", root.0.display());
            state.to_text().replace(&root, "")
        })
    };
    assert_eq!(get(&folder), text(expected.need("get_checkpoint_state")));
    assert_eq!(
        get(&missing),
        text(expected.need("get_checkpoint_state_missing"))
    );
    for (path, exists) in expected.need("checkpoint_exists").as_object().unwrap() {
        assert_eq!(
            checkpoint_exists(&root.file(path)),
            exists.as_bool().unwrap(),
            "{path}"
        );
    }
    let mut prefixes = checkpoints.clone();
    let times = |prefixes: &[_]| {
        get_checkpoint_mtimes::<std::path::PathBuf>(prefixes)
            .unwrap()
            .len()
    };
    assert_eq!(
        expected.need("get_checkpoint_mtimes_count"),
        times(&prefixes)
    );
    prefixes.push(folder.join("nope"));
    assert_eq!(
        expected.need("get_checkpoint_mtimes_with_missing_count"),
        times(&prefixes)
    );
    let version = match folder
        .join(format!(
            "{}.index",
            checkpoints[0].file_name().unwrap().to_str().unwrap()
        ))
        .exists()
    {
        true => Version::V2,
        false => Version::V1,
    };
    remove_checkpoint(&checkpoints[0], version, "meta").unwrap();
    let mut left: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let stated: Vec<&str> = expected
        .need("files_after_remove_checkpoint_of_first")
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file.as_str().unwrap())
        .collect();
    assert_eq!(left, stated, "{name}");
    remove_checkpoint(&checkpoints[1], version, "meta").unwrap();
    assert_eq!(
        latest(&folder),
        text(expected.need("latest_checkpoint_when_files_are_gone"))
    );
    std::fs::write(folder.join("checkpoint"), "this is no state").unwrap();
    assert_eq!(
        get(&folder),
        text(expected.need("get_checkpoint_state_of_garbage"))
    );
    expected.end();
    fields.end();
}

/// Writes the checkpoint of a case.
fn written(name: &str, json: &Json) -> (Folder, std::path::PathBuf) {
    let folder = Folder::new();
    let prefix = folder.file("model.ckpt");
    let mut writer = BundleWriter::create(&prefix, Default::default()).unwrap();
    for (variable, value) in json.as_object().unwrap() {
        writer.add(variable, &tensor(name, value)).unwrap();
    }
    writer.finish().unwrap();
    (folder, prefix)
}

fn variable(name: &str, mut fields: Fields<'_>) {
    let (_folder, prefix) = written(name, fields.need("checkpoint"));
    let variable_name = fields.text("variable");
    // A variable is read exactly, so that no tolerance is needed.
    fields.ignore("rtol");
    fields.ignore("atol");
    let found = load_variable(&prefix, variable_name);
    match fields.take("expected_error") {
        Some(error) => assert_eq!(found.unwrap_err().code, class(error), "{name}"),
        None => {
            let found = found.unwrap();
            assert!(
                same(&found, &tensor(name, fields.need("expected"))),
                "{name}"
            );
            let again = load_variable(&prefix, &format!("{variable_name}:0")).unwrap();
            assert!(same(&again, &found), "{name}");
            for reader in [load_checkpoint(&prefix), new_checkpoint_reader(&prefix)] {
                let read = reader.unwrap().get_tensor(variable_name).unwrap();
                assert!(same(&read, &found), "{name}");
            }
        }
    }
    fields.end();
}

fn variables(name: &str, mut fields: Fields<'_>) {
    let (_folder, prefix) = written(name, fields.need("checkpoint"));
    let expected: Vec<(String, Vec<usize>)> = fields
        .need("expected")
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (pair[0].as_str().unwrap().to_owned(), shape(&pair[1])))
        .collect();
    assert_eq!(list_variables(&prefix).unwrap(), expected, "{name}");
    fields.end();
}
