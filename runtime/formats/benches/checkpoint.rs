//! Throughput of saving and restoring checkpoints: 100 MB of floats in 20 tensors.
//!
//! Saving does not sync files (`fsync`), which is timed apart; restoring compares every checksum. Each is the best of several runs, in
//! MB/s of tensors.
//! `TMPDIR` says where the files are.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use trainspec_formats::checkpoint::bundle::{Options, Replace};
use trainspec_formats::checkpoint::{
    Bundle, BundleWriter, CheckpointReader, TableCheckpointWriter, TensorView, safetensors,
};
use trainspec_formats::files::Durability;

const TENSORS: usize = 20;
const SHAPE: [usize; 2] = [1000, 1250];
const ROUNDS: usize = 9;

fn main() {
    // Cargo asks every target for a list of tests.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("trainspec-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let names: Vec<String> = (0..TENSORS)
        .map(|i| format!("layer_{i:02}/kernel"))
        .collect();
    let tensors: Vec<Vec<f32>> = (0..TENSORS).map(values).collect();
    let prefix = folder.join("model.ckpt");

    let before = memory();
    let left = best("save", || {
        save(&prefix, &names, &tensors, Durability::Unsynced)
    });
    println!("  {} MB more memory at the most", memory() - before);
    let synced = best("save and fsync", || {
        save(&prefix, &names, &tensors, Durability::Synced);
    });
    println!("  {:.0} ms for the fsync", (synced - left) * 1e3);

    let mut into: Vec<Vec<f32>> = tensors.iter().map(|t| vec![1.0; t.len()]).collect();
    let before = memory();
    best("restore", || restore(&prefix, &names, &mut into));
    println!("  {} MB more memory at the most", memory() - before);
    assert!(into == tensors, "what is restored is what was saved");
    best("restore, one thread", || {
        let bundle = Bundle::open(&prefix).expect("a checkpoint").with_threads(1);
        for (name, into) in names.iter().zip(&mut into) {
            let into = bytemuck::cast_slice_mut(into);
            bundle.read_into(name, into).expect("a tensor");
        }
    });
    best("restore into new memory", || {
        let reader = CheckpointReader::open(&prefix).expect("a checkpoint");
        for name in &names {
            black_box(reader.get_tensor(name).expect("a tensor"));
        }
    });
    best("verify", || {
        let bundle = Bundle::open(&prefix).expect("a checkpoint");
        assert!(bundle.verify().is_empty());
    });

    let path = folder.join("v1.ckpt");
    best("save, first version", || {
        let mut writer = TableCheckpointWriter::new();
        for (name, tensor) in views(&names, &tensors) {
            writer.add(name, tensor).expect("a tensor");
        }
        writer
            .write(&path, Durability::Unsynced)
            .expect("a checkpoint");
    });
    best("restore, first version", || read_all(&path));
    let path = folder.join("a.safetensors");
    best("save, safetensors", || {
        let views: Vec<_> = views(&names, &tensors).collect();
        let none = Default::default();
        safetensors::write(&path, &views, &none, Durability::Unsynced).expect("a file");
    });
    best("restore, safetensors", || read_all(&path));
    std::fs::remove_dir_all(folder).expect("the folder of the files");
}

fn values(i: usize) -> Vec<f32> {
    let count = SHAPE[0] * SHAPE[1];
    let value = |k: usize| (k.wrapping_mul(2_654_435_761) >> 7) as f32 * 1e-6 + i as f32;
    (0..count).map(value).collect()
}

fn views<'a>(
    names: &'a [String],
    tensors: &'a [Vec<f32>],
) -> impl Iterator<Item = (&'a str, TensorView<'a>)> {
    names.iter().zip(tensors).map(|(name, tensor)| {
        let view = TensorView::of_values(&SHAPE, tensor).expect("as many as the shape says");
        (name.as_str(), view)
    })
}

fn save(prefix: &Path, names: &[String], tensors: &[Vec<f32>], durability: Durability) {
    let options = Options {
        durability,
        // TensorFlow's names, so that the same files are written each time.
        replace: Replace::SameNames,
        ..Options::default()
    };
    let mut writer = BundleWriter::create(prefix, options).expect("a writer");
    for (name, tensor) in views(names, tensors) {
        writer.add(name, tensor).expect("a tensor");
    }
    writer.finish().expect("a checkpoint");
}

fn restore(prefix: &Path, names: &[String], into: &mut [Vec<f32>]) {
    let bundle = Bundle::open(prefix).expect("a checkpoint");
    let pairs = names.iter().zip(into);
    let requests = pairs.map(|(name, into)| (name.as_str(), bytemuck::cast_slice_mut(into)));
    bundle
        .read_all_into(requests.collect())
        .expect("all tensors");
}

fn read_all(path: &Path) {
    let reader = CheckpointReader::open(path).expect("a checkpoint");
    for name in reader.names() {
        black_box(reader.get_tensor(name).expect("a tensor"));
    }
}

/// Runs it several times and returns the shortest time, in seconds.
fn best(what: &str, mut run: impl FnMut()) -> f64 {
    let megabytes = (TENSORS * SHAPE[0] * SHAPE[1] * 4) as f64 / 1e6;
    let times = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    let best = times.fold(f64::INFINITY, f64::min);
    println!("{what:<26} {:>7.0} MB/s", megabytes / best);
    best
}

/// The peak resident memory of the process in MB; zero on systems other than Linux.
fn memory() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<i64>().ok());
    kilobytes.unwrap_or(0) / 1000
}
