//! Random damage of every kind of file, in little memory: no panic, no abort, and no other value without an error where a checksum or
//! the structure covers it.
//!
//! `TRAINSPEC_DAMAGE_COUNT` and `TRAINSPEC_DAMAGE_SEED` say how much and which; `.ci/damage` sets them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::records::framed;
use crate::support::{Folder, limited, oracle};
use trainspec_formats::FormatError;
use trainspec_formats::checkpoint::bundle::{data_path, index_path};
use trainspec_formats::checkpoint::{
    self, BundleWriter, CheckpointReader, CheckpointState, TableCheckpointWriter, Tensor, numpy,
    safetensors,
};
use trainspec_formats::events::{EventReader, Run, Tail};
use trainspec_formats::examples::{encode, example};
use trainspec_formats::records::{Check, Compression, RecordIndex, Recovering};

/// The damaged files in the ordinary tests.
const COUNT: u64 = 3000;
/// The address space of the process that reads them.
const LIMIT_MIB: u64 = 1024;

#[test]
fn damaged_files_of_every_kind() {
    let (count, seed) = ("TRAINSPEC_DAMAGE_COUNT", "TRAINSPEC_DAMAGE_SEED");
    let set = |name: &str, other: u64| std::env::var(name).unwrap_or_else(|_| other.to_string());
    let environment = [(count, set(count, COUNT)), (seed, set(seed, 1))];
    limited(
        "damage::damage_in_little_memory",
        LIMIT_MIB,
        &environment,
        || (),
    );
}

#[test]
fn damage_in_little_memory() {
    limited("", 0, &[], || {
        let number = |name: &str| std::env::var(name).unwrap().parse().unwrap();
        damage_files(
            number("TRAINSPEC_DAMAGE_COUNT"),
            number("TRAINSPEC_DAMAGE_SEED"),
        );
    });
}

/// What a reader found in a file: its values as text, one item each, or that it is damaged.
type Found = Result<Vec<String>, FormatError>;

/// A file that is damaged.
struct Sample {
    file: PathBuf,
    bytes: Vec<u8>,
    read: Box<dyn Fn() -> Found>,
    covered: Covered,
    whole: Vec<String>,
}

/// What of a file is covered by checksums or by its structure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covered {
    /// Every value: what is read without an error is unchanged.
    All,
    /// Every value, but a file that is cut between two of them has fewer.
    AllButTheEnd,
    /// Nothing is promised.
    Nothing,
}

fn damage_files(count: u64, seed: u64) {
    let folder = Folder::new();
    let samples = samples(&folder.0);
    let mut random = Random(seed);
    let (mut found, mut unchanged) = (0_u64, 0_u64);
    for round in 0..count {
        let sample = &samples[random.below(samples.len() as u64) as usize];
        let damaged = random.damaged(&sample.bytes);
        fs::write(&sample.file, &damaged).unwrap();
        let what = || {
            let name = sample.file.file_name().unwrap().display();
            format!("seed {seed}, round {round}: {name}")
        };
        match (sample.read)() {
            Err(_) => found += 1,
            Ok(values) => {
                let fits = match sample.covered {
                    Covered::All => values == sample.whole,
                    Covered::AllButTheEnd => sample.whole.starts_with(&values),
                    Covered::Nothing => true,
                };
                assert!(fits, "{}: {values:?}", what());
                unchanged += 1;
            }
        }
        fs::write(&sample.file, &sample.bytes).unwrap();
    }
    for sample in &samples {
        assert_eq!((sample.read)().unwrap(), sample.whole);
    }
    println!("{count} damaged files: {found} found, {unchanged} read");
    assert!(found > count / 2);
}

fn samples(folder: &Path) -> Vec<Sample> {
    use Covered::{All, AllButTheEnd, Nothing};
    let mut samples = Vec::new();
    let mut add = |file: PathBuf, covered, read: Box<dyn Fn() -> Found>| {
        let whole = read().unwrap();
        assert!(!whole.is_empty(), "{}", file.display());
        samples.push(Sample {
            bytes: fs::read(&file).unwrap(),
            file,
            read,
            covered,
            whole,
        });
    };
    let records: Vec<Vec<u8>> = (0_i64..12)
        .map(|i| encode(&example([("x", vec![i; 3 * i as usize].into())])))
        .collect();
    for (name, compression, covered) in [
        ("plain.tfrecord", Compression::None, AllButTheEnd),
        // An empty file is one without records.
        ("gzip.tfrecord", Compression::Gzip, AllButTheEnd),
        ("zlib.tfrecord", Compression::Zlib, AllButTheEnd),
    ] {
        let path = folder.join(name);
        fs::write(&path, framed(&records, compression)).unwrap();
        let read = path.clone();
        add(path, covered, Box::new(move || read_records(&read)));
    }
    let records = folder.join("plain.tfrecord");
    let index = RecordIndex::beside(&records);
    let built = RecordIndex::build(&records, Check::All).unwrap();
    built.save(&index, &records).unwrap();
    let read = index.clone();
    add(
        index,
        All,
        Box::new(move || {
            let saved = fs::read(&read).unwrap();
            // The records were written again, so that only damage counts here.
            let index = RecordIndex::load(&read, &records);
            assert!(fs::read(&read).unwrap() == saved);
            match index {
                Err(e) if e.code != trainspec_formats::Code::FailedPrecondition => Err(e),
                _ => Ok(vec!["an index".to_owned()]),
            }
        }),
    );
    for name in ["v1.tfevents", "v2.tfevents"] {
        let path = folder.join(name);
        fs::copy(oracle().join("events").join(name), &path).unwrap();
        let read = path.clone();
        add(path, AllButTheEnd, Box::new(move || read_events(&read)));
    }
    let tensors = tensors();
    let prefix = folder.join("model.ckpt-1");
    let mut writer = BundleWriter::create(&prefix, Default::default()).unwrap();
    let first = folder.join("model.ckpt-0");
    let mut table = TableCheckpointWriter::new();
    for (name, tensor) in &tensors {
        writer.add(name, tensor).unwrap();
        table.add(name, tensor).unwrap();
    }
    writer.finish().unwrap();
    table.write(&first, Default::default()).unwrap();
    for file in [index_path(&prefix), data_path(&prefix, 0, 1)] {
        let prefix = prefix.clone();
        add(file, All, Box::new(move || read_tensors(&prefix)));
    }
    let views: Vec<_> = tensors.iter().map(|(name, t)| (*name, t.view())).collect();
    for (name, compression) in [
        ("stored.npz", numpy::Compression::Stored),
        ("deflated.npz", numpy::Compression::Deflated),
    ] {
        let path = folder.join(name);
        numpy::write_npz(&path, &views, compression, Default::default()).unwrap();
    }
    let numbers = &views[..views.len() - 1];
    let path = folder.join("a.safetensors");
    safetensors::write(&path, numbers, &Default::default(), Default::default()).unwrap();
    for (name, covered) in [
        ("model.ckpt-0", All),
        ("stored.npz", All),
        ("deflated.npz", All),
        ("a.safetensors", Nothing),
    ] {
        let (path, read) = (folder.join(name), folder.join(name));
        add(path, covered, Box::new(move || read_tensors(&read)));
    }
    let path = folder.join("a.npy");
    numpy::write_npy(&path, views[0].1, Default::default()).unwrap();
    let read = path.clone();
    let array = move || numpy::read_npy(&read).map(|tensor| vec![format!("{tensor:?}")]);
    add(path, Nothing, Box::new(array));
    let path = folder.join(checkpoint::STATE_FILE);
    let text =
        "model_checkpoint_path: \"model.ckpt-1\"\nall_model_checkpoint_paths: \"model.ckpt-0\"\n";
    fs::write(&path, text).unwrap();
    let read = path.clone();
    let list = move || CheckpointState::read(&read).map(|state| state.listed());
    add(path, Nothing, Box::new(list));
    samples
}

/// Tensors of several types; the last has strings.
fn tensors() -> Vec<(&'static str, Tensor)> {
    let strings: Vec<Vec<u8>> = [&b"a"[..], b"", b"long enough to matter"]
        .map(<[u8]>::to_vec)
        .into();
    let floats: Vec<f32> = (0..40).map(|i| i as f32 / 7.0).collect();
    vec![
        ("a/b", Tensor::from_values(&[5, 8], &floats).unwrap()),
        ("c", Tensor::from_values(&[3], &[1_i64, -2, 3]).unwrap()),
        ("d", Tensor::from_values(&[2], &[true, false]).unwrap()),
        ("e", Tensor::from_values::<u8>(&[0, 4], &[]).unwrap()),
        ("f", Tensor::scalar(2.5_f64)),
        ("s", Tensor::strings(&[3], strings).unwrap()),
    ]
}

fn read_tensors(path: &Path) -> Found {
    let damage = checkpoint::verify(path);
    let reader = CheckpointReader::open(path)?;
    let mut values = Vec::new();
    for name in reader.names() {
        let tensor = reader.get_tensor(name);
        // What cannot be read is found by verification too.
        assert!(tensor.is_ok() || !damage.is_empty(), "{tensor:?}");
        values.push(format!("{name}: {:?}", tensor?));
    }
    let unsupported = reader.unsupported().into_iter();
    values.extend(unsupported.map(|(name, why)| format!("{name}: {why}")));
    match damage.into_iter().next() {
        Some(e) => Err(e),
        None => Ok(values),
    }
}

fn read_records(path: &Path) -> Found {
    let mut records = Recovering::open(path)?;
    let mut values = Vec::new();
    while let Some(record) = records.next()? {
        values.push(format!("{record:?}"));
    }
    let mut checked = Recovering::open(path)?;
    while checked.check_next()?.is_some() {}
    assert_eq!(checked.skipped(), records.skipped());
    assert_eq!(checked.records(), records.records());
    match records.skipped().first() {
        Some(skipped) => Err(FormatError::data_loss(
            trainspec_formats::FileKind::Record,
            skipped.cause.clone(),
        )),
        None => Ok(values),
    }
}

fn read_events(path: &Path) -> Found {
    let run = Run::read(path, Default::default())?;
    for series in run.series.values() {
        for point in &series.points {
            let _ = run.value(point)?;
        }
    }
    let mut reader = EventReader::open(path, Default::default())?;
    let mut values = Vec::new();
    while let Some((_, event)) = reader.poll()? {
        values.push(format!("{event:?}"));
    }
    match (reader.tail()?, run.damage.into_iter().next()) {
        (Tail::Complete, None) => Ok(values),
        (_, Some(e)) => Err(e),
        (tail, None) => Err(FormatError::data_loss(
            trainspec_formats::FileKind::Events,
            format!("{tail:?}"),
        )),
    }
}

/// Pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Bytes with up to three flipped bits, with a block of other bytes, or cut.
    fn damaged(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut damaged = bytes.to_vec();
        let length = bytes.len() as u64;
        match self.below(8) {
            0 => damaged.truncate(self.below(length) as usize),
            1 => {
                let from = self.below(length) as usize;
                let to = (from + 1 + self.below(16) as usize).min(bytes.len());
                for byte in &mut damaged[from..to] {
                    *byte = self.next() as u8;
                }
            }
            2 => {
                let at = self.below(length) as usize;
                damaged[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5) as usize];
            }
            _ => {
                for _ in 0..=self.below(3) {
                    let at = self.below(length) as usize;
                    damaged[at] ^= 1 << self.below(8);
                }
            }
        }
        damaged
    }
}
