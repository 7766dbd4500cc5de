//! Hostile checkpoints that claim more than they hold: an error, never a panic, and little memory.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use crate::support::Folder;
use trainspec_formats::checkpoint::bundle::{data_path, index_path};
use trainspec_formats::checkpoint::v1::shard_path;
use trainspec_formats::checkpoint::{
    Bundle, CheckpointReader, DType, ObjectGraph, Safetensors, TableCheckpoint,
    TableCheckpointWriter, Tensor, numpy, safetensors, v1,
};
use trainspec_formats::files::Durability;
use trainspec_formats::table::{self, TableBuilder};
use trainspec_formats::{Code, FormatError};

/// A length-delimited field of a message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut all = vec![number << 3 | 2];
    put_varint(&mut all, bytes.len() as u64);
    all.extend_from_slice(bytes);
    all
}

/// A varint field of a message.
fn number(number: u8, value: u64) -> Vec<u8> {
    let mut all = vec![number << 3];
    put_varint(&mut all, value);
    all
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The message of a shape.
fn shape(extents: &[u64]) -> Vec<u8> {
    let dims = extents.iter().map(|&extent| field(2, &number(1, extent)));
    dims.collect::<Vec<_>>().concat()
}

/// Writes the index of a bundle with one data file.
fn index(prefix: &Path, entries: &[(&[u8], Vec<u8>)], options: table::Options) {
    let mut table = TableBuilder::with_options(Vec::new(), options);
    let header = [number(1, 1), field(3, &number(1, 1))].concat();
    table.add(b"", &header).unwrap();
    for (key, entry) in entries {
        table.add(key, entry).unwrap();
    }
    fs::write(index_path(prefix), table.finish().unwrap()).unwrap();
}

/// An array with a header of the first version and no bytes after it.
fn array(dictionary: &str) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dictionary.len() as u16).to_le_bytes());
    bytes.extend(dictionary.bytes());
    bytes
}

fn read_array(dictionary: &str) -> Result<Tensor, FormatError> {
    let folder = Folder::new();
    let path = folder.file("a.npy");
    fs::write(&path, array(dictionary)).unwrap();
    numpy::read_npy(&path)
}

#[test]
fn strings_of_no_length_are_no_more_than_the_file_has_bytes() {
    for form in ["|S0", "<U0"] {
        for extent in ["1152921504606846976", "1099511627776", "1000"] {
            let dictionary =
                format!("{{'descr': '{form}', 'fortran_order': False, 'shape': ({extent},), }}");
            let error = read_array(&dictionary).unwrap_err();
            assert_eq!(error.code, Code::DataLoss, "{form} {extent}");
        }
        let few = format!("{{'descr': '{form}', 'fortran_order': False, 'shape': (3,), }}");
        assert_eq!(read_array(&few).unwrap().shape(), [3]);
    }
}

#[test]
fn strings_of_one_entry_are_no_more_than_their_bytes() {
    let folder = Folder::new();
    let prefix = folder.file("m");
    fs::write(data_path(&prefix, 0, 1), [0; 16]).unwrap();
    let entry = [number(1, 7), field(2, &shape(&[1 << 40])), number(5, 16)].concat();
    index(&prefix, &[(b"s", entry)], Default::default());
    let bundle = Bundle::open(&prefix).unwrap();
    for slice in ["-", "0,1099511627776", "5,1000000000"] {
        let error = bundle.slice("s", &slice.parse().unwrap()).unwrap_err();
        assert_eq!(error.code, Code::DataLoss, "{slice}");
    }
    assert_eq!(bundle.tensor("s").unwrap_err().code, Code::DataLoss);
    assert!(!CheckpointReader::open(&prefix).unwrap().verify().is_empty());
}

#[test]
fn an_unknown_type_hides_no_other_tensor() {
    let folder = Folder::new();
    let prefix = folder.file("m");
    fs::write(data_path(&prefix, 0, 1), [7; 2]).unwrap();
    let known = [number(1, 4), field(2, &shape(&[1])), number(5, 1)].concat();
    let other = [
        number(1, 99),
        field(2, &shape(&[1])),
        number(4, 1),
        number(5, 1),
    ]
    .concat();
    index(&prefix, &[(b"a", other), (b"b", known)], Default::default());
    let reader = CheckpointReader::open(&prefix).unwrap();
    assert_eq!(reader.names(), ["b"]);
    let left: Vec<&str> = reader
        .unsupported()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(left, ["a"]);
    let error = reader.get_tensor("a").unwrap_err();
    assert_eq!(error.code, Code::Unimplemented);
    assert!(error.cause.contains("the type 99 is not known"), "{error}");
    // It cannot be verified.
    let damage = reader.verify();
    assert!(damage.iter().any(|e| e.code == Code::Unimplemented));
}

#[test]
fn shapes_have_as_many_dimensions_as_a_tensor_can_have() {
    let folder = Folder::new();
    let path = folder.file("a");
    for rank in [254, 255, 300, 20_000] {
        let fits = rank == 254;
        let ones = vec![1; rank];
        let tensor = Tensor::from_values(&ones, &[1.5_f32]);
        assert_eq!(tensor.is_ok(), fits);
        assert_eq!(Tensor::strings(&ones, vec![vec![7]]).is_ok(), fits);
        // A file of `safetensors`.
        let list = vec!["1"; rank].join(",");
        let header =
            format!("{{\"a\":{{\"dtype\":\"U8\",\"shape\":[{list}],\"data_offsets\":[0,1]}}}}");
        let length = (header.len() as u64).to_le_bytes();
        fs::write(&path, [&length[..], header.as_bytes(), b"x"].concat()).unwrap();
        let read = Safetensors::open(&path).unwrap().tensor("a");
        match fits {
            true => assert_eq!(read.unwrap().shape(), ones),
            false => assert_eq!(read.unwrap_err().code, Code::Unimplemented),
        }
        // An array of NumPy, which has at most 64 dimensions.
        let dictionary = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({list}), }}");
        let bytes = [array(&dictionary), b"x".to_vec()].concat();
        fs::write(&path, bytes).unwrap();
        assert_eq!(numpy::read_npy(&path).is_ok(), fits);
        // What is announced to a writer.
        let entries: &[(&str, DType, &[usize])] = &[("a", DType::Float32, &ones)];
        let value = || match &tensor {
            Ok(tensor) => Ok(tensor.clone()),
            Err(_) => panic!("refused before it is asked for"),
        };
        let (metadata, durability) = (Default::default(), Default::default());
        let written = safetensors::write_each(&path, entries, &metadata, durability, |_| value());
        assert_eq!(written.is_ok(), fits);
        // TensorFlow reads no more than eight in the first version.
        assert!(v1::write_each(&path, entries, durability, |_| value()).is_err());
    }
}

#[test]
fn values_do_not_repeat_a_long_path_beyond_bounds() {
    let long = "n".repeat(100_000);
    let child = [number(1, 1), field(2, long.as_bytes())].concat();
    let root = field(1, &field(1, &child));
    let node = field(1, &field(2, &[]).repeat(20_000));
    let graph = ObjectGraph::decode(&[root, node].concat()).unwrap();
    let variables = graph.variables();
    assert_eq!(variables.len(), 20_000);
    assert_eq!(variables[0].path, long);
    let bytes: usize = variables.iter().map(|variable| variable.path.len()).sum();
    assert!(bytes <= 64 << 20, "{bytes} bytes");
}

#[test]
fn a_file_longer_than_the_memory_is_an_error() {
    // Other systems overcommit memory, or have no sparse files.
    if !cfg!(target_os = "linux") {
        println!("skipped: needs Linux");
        return;
    }
    const SPARSE_FILE_BYTES: u64 = 10 << 40;
    let folder = Folder::new();
    let lengthened = |path: &Path, front: &[u8], tail: &[u8]| {
        let mut file = fs::File::create(path).unwrap();
        file.write_all(front).unwrap();
        let whole = front.len() as u64 + SPARSE_FILE_BYTES;
        if file.set_len(whole).is_err() {
            // Not every file system has such files.
            return false;
        }
        file.seek(SeekFrom::Start(whole)).unwrap();
        file.write_all(tail).unwrap();
        true
    };
    let path = folder.file("a");
    let dictionary =
        format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({SPARSE_FILE_BYTES},), }}");
    if !lengthened(&path, &array(&dictionary), b"") {
        return;
    }
    let exhausted = |error: FormatError, path: &Path| {
        assert_eq!(error.code, Code::ResourceExhausted, "{error}");
        assert_eq!(error.path.as_deref(), Some(path));
        assert!(error.offset.is_some());
    };
    exhausted(numpy::read_npy(&path).unwrap_err(), &path);
    let header = format!(
        "{{\"a\":{{\"dtype\":\"U8\",\"shape\":[{SPARSE_FILE_BYTES}],\"data_offsets\":[0,{SPARSE_FILE_BYTES}]}}}}"
    );
    let length = (header.len() as u64).to_le_bytes();
    lengthened(&path, &[&length[..], header.as_bytes()].concat(), b"");
    let file = Safetensors::open(&path).unwrap();
    exhausted(file.tensor("a").unwrap_err(), &path);
    let prefix = folder.file("m");
    let data = data_path(&prefix, 0, 1);
    lengthened(&data, b"", b"");
    let entry = [
        number(1, 4),
        field(2, &shape(&[SPARSE_FILE_BYTES])),
        number(5, SPARSE_FILE_BYTES),
    ]
    .concat();
    index(&prefix, &[(b"a", entry)], Default::default());
    let bundle = Bundle::open(&prefix).unwrap();
    exhausted(bundle.tensor("a").unwrap_err(), &data);
    let part = bundle.slice("a", &"1,10000000000000".parse().unwrap());
    assert_eq!(part.unwrap_err().code, Code::ResourceExhausted);
    // The index block of a table is nearly all of it.
    let mut footer = vec![0, 0, 0];
    put_varint(&mut footer, SPARSE_FILE_BYTES - 5);
    footer.resize(40, 0);
    footer.extend(0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    lengthened(&path, b"", &footer);
    exhausted(TableCheckpoint::open(&path).unwrap_err(), &path);
}

#[test]
fn an_entry_lists_no_more_than_there_is() {
    let folder = Folder::new();
    let prefix = folder.file("m");
    fs::write(data_path(&prefix, 0, 1), [0; 16]).unwrap();
    let packed = table::Options {
        compression: table::Compression::Snappy,
        ..Default::default()
    };
    let float = number(1, 1);
    let part = [&float[..], &field(2, &shape(&[1]))].concat();
    let refused = |entries: &[(&[u8], Vec<u8>)], options: table::Options| {
        index(&prefix, entries, options);
        let error = Bundle::open(&prefix).unwrap_err();
        assert_eq!(error.code, Code::DataLoss);
        error.cause
    };
    // Dimensions of two bytes, in one shape or in several.
    for dims in [
        field(2, &field(2, &[]).repeat(1_000_000)),
        field(2, &field(2, &[])).repeat(300),
    ] {
        let cause = refused(&[(b"a", [&float[..], &dims].concat())], packed);
        assert!(cause.contains("dimensions"), "{cause}");
    }
    // Slices of two bytes, none of which is there.
    let slices = field(7, &[]).repeat(1_000_000);
    let cause = refused(
        &[(b"a", [&float[..], &slices].concat())],
        Default::default(),
    );
    assert!(cause.contains("more slices than there are"), "{cause}");
    // Extents of two bytes, which take far more in memory.
    let slice = field(7, &field(1, &[]).repeat(2_000_000));
    let entries: &[(&[u8], Vec<u8>)] = &[(b"\0p", part), (b"a", [&float[..], &slice].concat())];
    let cause = refused(entries, packed);
    assert!(cause.contains("more than the file can hold"), "{cause}");
}

#[test]
fn a_checkpoint_of_the_first_version_without_one_of_its_files_is_not_opened() {
    let folder = Folder::new();
    let prefix = folder.file("model.ckpt-5");
    let tensor = Tensor::scalar(1.5_f32);
    for shard in 0..3 {
        let mut writer = TableCheckpointWriter::new();
        writer.add(&format!("t{shard}"), &tensor).unwrap();
        let path = shard_path(&prefix, shard, 3);
        writer.write(&path, Durability::Unsynced).unwrap();
    }
    let pattern = folder.file("model.ckpt-5-?????-of-00003");
    assert_eq!(CheckpointReader::open(&pattern).unwrap().names().len(), 3);
    let missing = shard_path(&prefix, 1, 3);
    fs::remove_file(&missing).unwrap();
    let error = CheckpointReader::open(&pattern).unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    assert_eq!(error.path, Some(missing));
    // One of them by its own name is what was asked for.
    let one = shard_path(&prefix, 2, 3);
    assert_eq!(CheckpointReader::open(&one).unwrap().names(), ["t2"]);
}

#[test]
fn strings_of_the_first_version_take_no_memory_before_they_are_read() {
    let folder = Folder::new();
    let path = folder.file("v1");
    let count = 400_000_000;
    let half = |start: u64| {
        field(
            4,
            &field(1, &[number(1, start), number(2, count / 2)].concat()),
        )
    };
    let tensor = [
        field(1, b"s"),
        field(2, &shape(&[count])),
        number(3, 7),
        half(0),
        half(count / 2),
    ];
    let meta = [field(1, &tensor.concat()), field(2, &number(1, 1))].concat();
    let mut table = TableBuilder::new(Vec::new());
    table.add(b"", &field(1, &meta)).unwrap();
    // Bytes that could hold as many, packed as tightly as can be.
    table.add(b"filler", &vec![0; 20_000_000]).unwrap();
    fs::write(&path, table.finish().unwrap()).unwrap();
    let checkpoint = TableCheckpoint::open(&path).unwrap();
    let error = checkpoint.tensor("s").unwrap_err();
    assert!(error.cause.contains("is missing"), "{error}");
}
