//! Checkpoints written to the `checkpoint` state file are found through it.

use std::fs;
use std::path::Path;

use crate::support::Folder;
use trainspec_formats::Code;
use trainspec_formats::checkpoint::{
    BundleWriter, CheckpointList, CheckpointReader, Latest, PathStyle, Tensor, Version,
    checkpoint_exists, find_latest, get_checkpoint_state, latest_checkpoint, remove_checkpoint,
    update_checkpoint_state,
};
use trainspec_formats::files::Durability;

fn save(prefix: &Path) {
    let mut writer = BundleWriter::create(prefix, Default::default()).unwrap();
    writer.add("v", &Tensor::scalar(1.5_f32)).unwrap();
    writer.finish().unwrap();
}

fn list(folder: &Path, newest: &str, style: PathStyle) {
    fs::create_dir_all(folder).unwrap();
    let listed = CheckpointList {
        newest,
        ..CheckpointList::default()
    };
    update_checkpoint_state(folder, &listed, None, style, Durability::Unsynced).unwrap();
}

#[test]
fn a_checkpoint_elsewhere_is_found_again() {
    let folder = Folder::new();
    let prefix = folder.file("other/m");
    save(&prefix);
    let run = folder.file("run/deep");
    for style in [PathStyle::AsGiven, PathStyle::Relative] {
        for newest in [prefix.to_str().unwrap(), "../../other/m"] {
            list(&run, newest, style);
            let found = latest_checkpoint(&run, None).unwrap().unwrap();
            assert!(found.is_absolute());
            assert_eq!(
                fs::canonicalize(found.parent().unwrap()).unwrap(),
                fs::canonicalize(folder.file("other")).unwrap()
            );
            assert!(CheckpointReader::open(&run).is_ok());
        }
    }
    // One inside stays relative, so that the folder can be moved.
    save(&run.join("m"));
    list(&run, run.join("m").to_str().unwrap(), PathStyle::Relative);
    let text = fs::read_to_string(run.join("checkpoint")).unwrap();
    assert!(text.starts_with("model_checkpoint_path: \"m\"\n"), "{text}");
}

#[test]
fn paths_below_the_working_folder_are_found_again() {
    // Tests run in the folder of the package; nothing else is written there.
    let root = format!("target-lists-{}", std::process::id());
    let root = Path::new(&root);
    save(&root.join("other/m"));
    let run = root.join("run");
    for style in [PathStyle::AsGiven, PathStyle::Relative] {
        list(&run, root.join("other/m").to_str().unwrap(), style);
        let found = latest_checkpoint(&run, None).unwrap().unwrap();
        assert!(found.is_absolute());
        assert!(CheckpointReader::open(&run).is_ok());
        // An absolute path into a relative folder is made relative once, not twice.
        let inside = std::env::current_dir().unwrap().join(&run).join("m");
        save(&inside);
        list(&run, inside.to_str().unwrap(), style);
        let found = latest_checkpoint(&run, None).unwrap().unwrap();
        assert!(found.ends_with("run/m"), "{}", found.display());
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_path_out_of_the_folder_is_dropped() {
    let folder = Folder::new();
    save(&folder.file("m-2"));
    let state = "model_checkpoint_path: \"m-2\"\n\
        all_model_checkpoint_paths: \"m-1\"\n\
        all_model_checkpoint_paths: \"../other/m\"\n\
        all_model_checkpoint_paths: \"m-2\"\n\
        all_model_checkpoint_timestamps: [1, 2, 3]\n";
    fs::write(folder.file("checkpoint"), state).unwrap();
    let state = get_checkpoint_state(&folder.0, None).unwrap().unwrap();
    let expected = ["m-1", "m-2"].map(|name| folder.file(name).to_str().unwrap().to_owned());
    assert_eq!(state.all_model_checkpoint_paths, expected);
    assert_eq!(state.all_model_checkpoint_timestamps, [1.0, 3.0]);
    assert_eq!(
        latest_checkpoint(&folder.0, None).unwrap(),
        Some(folder.file("m-2"))
    );
}

#[test]
#[cfg(unix)]
fn a_folder_whose_name_is_not_utf8_has_checkpoints_too() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let odd = folder.0.join(std::ffi::OsStr::from_bytes(b"run-\xff"));
    let prefix = odd.join("m-1");
    save(&prefix);
    fs::write(odd.join("m-1.meta"), b"").unwrap();
    list(&odd, "m-1", PathStyle::AsGiven);
    assert_eq!(latest_checkpoint(&odd, None).unwrap(), Some(prefix.clone()));
    assert!(CheckpointReader::open(&odd).is_ok());
    assert!(CheckpointReader::open(&odd.join("m-1.index")).is_ok());
    // An absolute path through it has no UTF-8 form.
    let listed = CheckpointList {
        newest: "../m",
        ..CheckpointList::default()
    };
    let (style, durability) = (PathStyle::AsGiven, Durability::Unsynced);
    let error = update_checkpoint_state(&odd, &listed, None, style, durability).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    remove_checkpoint(&prefix, Version::V2, "meta").unwrap();
    assert!(!checkpoint_exists(&prefix));
    assert_eq!(fs::read_dir(&odd).unwrap().count(), 1);
}

#[test]
fn a_list_that_names_no_checkpoint_says_why() {
    let folder = Folder::new();
    let run = folder.file("run");
    save(&run.join("model.ckpt-7"));
    assert!(matches!(find_latest(&run), Latest::Unlisted));
    let error = || CheckpointReader::open(&run).unwrap_err();
    assert_eq!(error().code, Code::NotFound);
    list(&run, "model.ckpt-7", PathStyle::Relative);
    assert!(matches!(find_latest(&run), Latest::Listed(_)));
    // The folder was moved, and the list has absolute paths.
    let state = run.join("checkpoint");
    fs::write(
        &state,
        "model_checkpoint_path: \"/nowhere/run/model.ckpt-7\"\n",
    )
    .unwrap();
    match find_latest(&run) {
        Latest::Missing { listed, beside } => {
            assert_eq!(listed, "/nowhere/run/model.ckpt-7");
            assert_eq!(beside, Some(run.join("model.ckpt-7")));
        }
        other => panic!("{other:?}"),
    }
    let cause = error().cause;
    assert!(
        cause.contains("`/nowhere/run/model.ckpt-7`, which is not there"),
        "{cause}"
    );
    assert!(
        cause.contains(run.join("model.ckpt-7").to_str().unwrap()),
        "{cause}"
    );
    fs::write(&state, "model_checkpoint_path: \"model.ckpt-8\"\n").unwrap();
    assert!(matches!(
        find_latest(&run),
        Latest::Missing { beside: None, .. }
    ));
    assert_eq!(error().code, Code::NotFound);
    // It is cut off.
    fs::write(&state, "model_checkpoint_path: \"model.ckp").unwrap();
    assert!(matches!(find_latest(&run), Latest::Broken(_)));
    let error = error();
    assert_eq!((error.code, error.path), (Code::DataLoss, Some(state)));
    assert!(error.offset.is_some());
}
