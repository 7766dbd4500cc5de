//! Files written by NumPy 2.4 read as the arrays that were saved.

use crate::support::{Folder, bytes};
use serde_json::json;
use trainspec_formats::Code;
use trainspec_formats::checkpoint::{CheckpointReader, DType, Tensor, numpy};

/// The header of an array: its dictionary is padded with spaces to 118 bytes.
fn header(dictionary: &str) -> String {
    let mut text = dictionary.to_owned();
    while text.len() < 117 {
        text.push(' ');
    }
    text.push('\n');
    let hex: String = text.bytes().map(|b| format!("{b:02x}")).collect();
    format!("934e554d505901007600{hex}")
}

fn read(dictionary: &str, elements: &str) -> trainspec_formats::Result<Tensor> {
    let folder = Folder::new();
    let path = folder.file("a.npy");
    let hex = json!(header(dictionary) + elements);
    std::fs::write(&path, bytes(&hex)).unwrap();
    numpy::read_npy(&path)
}

#[test]
fn column_major_and_big_endian_arrays_are_converted() {
    // numpy.asfortranarray(numpy.arange(6, dtype=">i2").reshape(2, 3))
    let found = read(
        "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }",
        "000000030001000400020005",
    );
    let expected = Tensor::from_values(&[2, 3], &[0_i16, 1, 2, 3, 4, 5]).unwrap();
    assert_eq!(found.unwrap(), expected);
}

#[test]
fn strings_lose_their_padding() {
    // numpy.array([["a", "é中"], ["", "xyz"]])
    let found = read(
        "{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2), }",
        "610000000000000000000000e90000002d4e00000000000000000000000000000000000078000000790000007a000000",
    );
    let strings = ["a", "é中", "", "xyz"].map(|text| text.as_bytes().to_vec());
    assert_eq!(
        found.unwrap(),
        Tensor::strings(&[2, 2], strings.to_vec()).unwrap()
    );
    // numpy.array([b"ab", b"", b"c\0d"])
    let found = read(
        "{'descr': '|S3', 'fortran_order': False, 'shape': (3,), }",
        "616200000000630064",
    );
    let strings = [&b"ab"[..], b"", b"c\0d"].map(<[u8]>::to_vec);
    assert_eq!(
        found.unwrap(),
        Tensor::strings(&[3], strings.to_vec()).unwrap()
    );
}

#[test]
fn objects_are_not_read() {
    let dictionary = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
    assert_eq!(
        read(dictionary, "8004").unwrap_err().code,
        Code::Unimplemented
    );
}

#[test]
fn archives_are_read() {
    let folder = Folder::new();
    let path = folder.file("a.npz");
    // numpy.savez_compressed(file, **{"a/b": numpy.arange(64, dtype="f4").reshape(8, 8) % 4, "s": numpy.float64(2.5)})
    let archive = "504b03042d000000080000002100b78f92a8ffffffffffffffff07001400612f622e6e7079010010008001000000000000\
        52000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e\
        058a17672416a402f91a163a0a169a3a0ab50a64032e063068b007120e40e430d2f800504b03042d00000008000000210035b43a93ffff\
        ffffffffffff05001400732e6e707901001000880000000000000047000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5\
        a06e9366a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a9a3a0ab50a14012e063060710000504b0102\
        2d032d000000080000002100b78f92a85200000080010000070000000000000000000000800100000000612f622e6e7079504b01022d03\
        2d00000008000000210035b43a93470000008800000005000000000000000000000080018b000000732e6e7079504b0506000000000200\
        020068000000090100000000";
    std::fs::write(&path, bytes(&json!(archive))).unwrap();
    let reader = CheckpointReader::open(&path).unwrap();
    assert_eq!(reader.names(), ["a/b", "s"]);
    let values: Vec<f32> = (0..64).map(|i| (i % 4) as f32).collect();
    assert_eq!(
        reader.get_tensor("a/b").unwrap(),
        Tensor::from_values(&[8, 8], &values).unwrap()
    );
    assert_eq!(reader.get_tensor("s").unwrap(), Tensor::scalar(2.5_f64));
    assert!(reader.verify().is_empty());
}

/// An archive of stored members.
fn archive(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    flagged_archive(0, members)
}

/// An archive of stored members with these flags. With bit 3, checksum and sizes follow the bytes.
fn flagged_archive(flags: u16, members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in members {
        // One byte for each character, as code pages have.
        let name: Vec<u8> = match flags & 0x800 {
            0 => name.chars().map(|c| c as u8).collect(),
            _ => name.as_bytes().to_vec(),
        };
        let start = out.len() as u32;
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let [low, high] = flags.to_le_bytes();
        let mut fields = vec![20, 0, low, high, 0, 0, 0, 0, 0x21, 0];
        let mut sizes = crc.sum().to_le_bytes().to_vec();
        sizes.extend((bytes.len() as u32).to_le_bytes());
        sizes.extend((bytes.len() as u32).to_le_bytes());
        fields.extend(&sizes);
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend([0, 0]);
        out.extend(b"PK\x03\x04");
        out.extend(&fields);
        out.extend(&name);
        out.extend(bytes);
        if flags & 8 != 0 {
            let at = start as usize + 14;
            out[at..at + 12].fill(0);
            out.extend(b"PK\x07\x08");
            out.extend(&sizes);
        }
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(fields);
        directory.extend([0; 10]);
        directory.extend(start.to_le_bytes());
        directory.extend(&name);
    }
    let count = (members.len() as u16).to_le_bytes();
    let (start, size) = (out.len() as u32, directory.len() as u32);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count, count].concat());
    out.extend(size.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn member(dictionary: &str, elements: &[u8]) -> Vec<u8> {
    [bytes(&json!(header(dictionary))), elements.to_vec()].concat()
}

#[test]
fn an_array_of_objects_does_not_hide_the_others() {
    let folder = Folder::new();
    let path = folder.file("a.npz");
    let objects = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
    let unknown = "{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }";
    let numbers = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
    let members = [
        ("a.npy", member(objects, b"\x80\x04.")),
        ("b.npy", member(numbers, &[7, 8])),
        ("c.npy", member(unknown, &[1, 2])),
    ];
    let whole = archive(&members);
    std::fs::write(&path, &whole).unwrap();
    let reader = CheckpointReader::open(&path).unwrap();
    assert_eq!(reader.names(), ["b"]);
    let expected = Tensor::from_values(&[2], &[7_u8, 8]).unwrap();
    assert_eq!(reader.get_tensor("b").unwrap(), expected);
    for (name, cause) in [
        ("a", "array `a`: elements of type `|O`"),
        ("c", "array `c`: elements of type `<V2`"),
    ] {
        let error = reader.get_tensor(name).unwrap_err();
        assert_eq!(
            (error.code, error.cause.as_str()),
            (Code::Unimplemented, cause)
        );
    }
    assert!(reader.verify().is_empty());
    let CheckpointReader::Npz(npz) = &reader else {
        panic!("an archive");
    };
    let left: Vec<&str> = npz.unsupported().map(|(name, _)| name).collect();
    assert_eq!(left, ["a", "c"]);
    // Its bytes are checked all the same.
    let mut changed = whole;
    let at = changed.windows(3).position(|bytes| bytes == b"\x80\x04.");
    changed[at.unwrap()] = 0;
    std::fs::write(&path, &changed).unwrap();
    assert_eq!(CheckpointReader::open(&path).unwrap().verify().len(), 1);
}

#[test]
fn an_array_shorter_than_its_header_says_is_found() {
    let folder = Folder::new();
    let path = folder.file("a.npz");
    let long = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000,), }";
    std::fs::write(&path, archive(&[("a.npy", member(long, &[0; 8]))])).unwrap();
    let reader = CheckpointReader::open(&path).unwrap();
    assert_eq!(reader.get_tensor("a").unwrap_err().code, Code::DataLoss);
    let found = reader.verify();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].code, Code::DataLoss);
}

#[test]
fn an_empty_array_may_have_any_other_dimension() {
    for order in ["True", "False"] {
        let shape = "(0, 1099511627776, 1099511627776)";
        let dictionary =
            format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': {shape}, }}");
        let found = read(&dictionary, "").unwrap();
        assert_eq!(found.shape(), [0, 1 << 40, 1 << 40]);
    }
}

#[test]
fn what_an_array_cannot_hold_is_known_before_it_is_written() {
    let string = |text: &[u8]| Tensor::strings(&[2], vec![b"a".to_vec(), text.to_vec()]).unwrap();
    let half = Tensor::new(DType::BFloat16, &[1], vec![0; 2]).unwrap();
    for (tensor, held) in [
        (string(b"x"), true),
        (string(b""), true),
        (string(b"\0x"), true),
        (string(b"x\0"), false),
        (string(b"\0"), false),
        (half, false),
        (Tensor::scalar(true), true),
    ] {
        let checked = numpy::check(tensor.view());
        let mut out = Vec::new();
        let put = numpy::put_npy(tensor.view(), &mut out);
        assert_eq!((checked.is_ok(), put.is_ok()), (held, held), "{tensor:?}");
        assert_eq!(out.is_empty(), !held);
        if let Err(error) = checked {
            assert_eq!(error.code, Code::InvalidArgument);
        }
    }
}

const NUMBERS: &str = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";

#[test]
fn members_without_the_ending_are_listed() {
    let folder = Folder::new();
    let path = folder.file("a.npz");
    // As NumPy does, `plain` is read as an array, and `note` is bytes.
    let members = [
        ("a.npy", member(NUMBERS, &[7, 8])),
        ("folder/", Vec::new()),
        ("note", b"hi".to_vec()),
        ("plain", member(NUMBERS, &[1, 2])),
    ];
    std::fs::write(&path, archive(&members)).unwrap();
    let reader = CheckpointReader::open(&path).unwrap();
    assert_eq!(reader.names(), ["a", "plain"]);
    let expected = Tensor::from_values(&[2], &[1_u8, 2]).unwrap();
    assert_eq!(reader.get_tensor("plain").unwrap(), expected);
    let others = reader.unsupported();
    assert_eq!(others.len(), 1);
    assert_eq!(others[0].0, "note");
    assert_eq!(others[0].1.cause, "array `note`: it is no array");
    assert!(reader.verify().is_empty());
    // Two arrays of one name.
    let members = [
        ("a", member(NUMBERS, &[7, 8])),
        ("a.npy", member(NUMBERS, &[1, 2])),
    ];
    std::fs::write(&path, archive(&members)).unwrap();
    let error = CheckpointReader::open(&path).unwrap_err();
    assert_eq!(error.code, Code::DataLoss);
    std::fs::write(&path, archive(&members[..0])).unwrap();
    assert!(CheckpointReader::open(&path).unwrap().names().is_empty());
    std::fs::write(&path, archive(&[("note", b"hi".to_vec())])).unwrap();
    let error = CheckpointReader::open(&path).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
}

#[test]
fn a_directory_that_disagrees_with_the_members_is_damaged() {
    let folder = Folder::new();
    let path = folder.file("a.npz");
    for flags in [0, 8, 0x800] {
        let whole = flagged_archive(flags, &[("a.npy", member(NUMBERS, &[7, 8]))]);
        std::fs::write(&path, &whole).unwrap();
        let reader = CheckpointReader::open(&path).unwrap();
        let expected = Tensor::from_values(&[2], &[7_u8, 8]).unwrap();
        assert_eq!(reader.get_tensor("a").unwrap(), expected);
        assert!(reader.verify().is_empty());
        let directory = whole.windows(4).position(|bytes| bytes == b"PK\x01\x02");
        let directory = directory.unwrap();
        // The flags, the method, the checksum, both sizes and the name.
        for at in [8, 10, 16, 20, 24, 46, 48, 50] {
            let mut changed = whole.clone();
            changed[directory + at] ^= 8;
            std::fs::write(&path, &changed).unwrap();
            let damage = trainspec_formats::checkpoint::verify(&path);
            assert!(!damage.is_empty(), "{flags:#x} {at}");
            assert_eq!(damage[0].path.as_deref(), Some(path.as_path()));
        }
    }
}

#[test]
fn names_are_read_in_their_code_page() {
    let folder = Folder::new();
    let path = folder.file("a.npz");
    for (flags, name, expected) in [
        (0, "\u{82}t\u{82}.npy", "été"),
        (0x800, "été.npy", "été"),
        (0, "a.npy", "a"),
    ] {
        let bytes = flagged_archive(flags, &[(name, member(NUMBERS, &[7, 8]))]);
        std::fs::write(&path, bytes).unwrap();
        let reader = CheckpointReader::open(&path).unwrap();
        assert_eq!(reader.names(), [expected]);
    }
}

#[test]
fn an_empty_archive_begins_as_numpy_expects() {
    let folder = Folder::new();
    let path = folder.file("a.npz");
    numpy::write_npz(&path, &[], Default::default(), Default::default()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.starts_with(b"PK\x05\x06"));
    assert_eq!(bytes.len(), 22);
    assert!(CheckpointReader::open(&path).unwrap().names().is_empty());
}

#[test]
fn an_array_has_as_many_dimensions_as_numpy_allows() {
    for (rank, held) in [(64, true), (65, false)] {
        let tensor = Tensor::from_values(&vec![1; rank], &[1.5_f32]).unwrap();
        assert_eq!(numpy::check(tensor.view()).is_ok(), held);
    }
}
