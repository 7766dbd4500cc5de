//! Writes checkpoints of every format into a folder, for TensorFlow to read: `tests/interop/checkpoints.py` does.
//!
//! `cargo run -p trainspec-formats --example write_checkpoints FOLDER`

use std::error::Error;
use std::path::{Path, PathBuf};

use trainspec_formats::checkpoint::bundle::{Options, merge};
use trainspec_formats::checkpoint::numpy::{self, Compression};
use trainspec_formats::checkpoint::v1::shard_path;
use trainspec_formats::checkpoint::{
    BundleWriter, CheckpointList, DType, ObjectWriter, PathStyle, Slice, TableCheckpointWriter,
    Tensor, safetensors, update_checkpoint_state,
};
use trainspec_formats::files::Durability;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or("usage: write_checkpoints FOLDER")?;
    std::fs::create_dir_all(&folder)?;
    every_type(&folder)?;
    sharded(&folder)?;
    partitioned(&folder)?;
    merged(&folder)?;
    replaced(&folder)?;
    first_version(&folder)?;
    objects(&folder)?;
    many(&folder)?;
    archives(&folder)?;
    Ok(())
}

/// A tensor that the reader can reproduce: element i has the bytes of 37 i + 11, except for types with few values.
fn filled(dtype: DType, shape: &[usize]) -> trainspec_formats::Result<Tensor> {
    let size = dtype.size().unwrap_or(1);
    let count: usize = shape.iter().product();
    let bytes = (0..count * size).map(|i| match dtype {
        DType::Bool => (i % 2) as u8,
        // Of these types, only some bits are used.
        DType::Int2 | DType::UInt2 => (i % 2) as u8,
        DType::Int4 | DType::UInt4 | DType::Float4E2M1Fn => (i % 8) as u8,
        _ => (i * 37 + 11) as u8,
    });
    Tensor::new(dtype, shape, bytes.collect())
}

fn numeric() -> impl Iterator<Item = DType> {
    DType::all().filter(|dtype| dtype.size().is_some())
}

fn strings() -> trainspec_formats::Result<Tensor> {
    let strings = vec![b"".to_vec(), b"text\0\xff".to_vec(), vec![b'x'; 70_000]];
    Tensor::strings(&[3], strings)
}

fn every_type(folder: &Path) -> Result<(), Box<dyn Error>> {
    let prefix = folder.join("types/model.ckpt-7");
    let mut writer = BundleWriter::create(&prefix, Options::default())?;
    for dtype in numeric() {
        writer.add(&format!("t/{dtype}"), &filled(dtype, &[2, 3])?)?;
    }
    writer.add("t/string", &strings()?)?;
    writer.add("t/no_string", &Tensor::strings(&[0, 2], Vec::new())?)?;
    writer.add("t/nothing", &filled(DType::Float32, &[3, 0])?)?;
    writer.add("t/scalar", &Tensor::scalar(1.5_f32))?;
    // More than one chunk, so that every path is taken.
    writer.add("t/large", &filled(DType::Int32, &[1200, 1000])?)?;
    writer.finish()?;
    let listed = CheckpointList {
        newest: "model.ckpt-7",
        all: &["model.ckpt-3 \"quoted\" é", "model.ckpt-7"],
        timestamps: &[1.5, 1_700_000_000.123_456],
        last_preserved: Some(1e-7),
    };
    let (style, durability) = (PathStyle::AsGiven, Durability::Synced);
    // The folder is absolute to the function, so that the paths stay as they are.
    let folder = std::path::absolute(folder.join("types"))?;
    update_checkpoint_state(&folder, &listed, None, style, durability)?;
    Ok(())
}

fn sharded(folder: &Path) -> Result<(), Box<dyn Error>> {
    let options = Options {
        shards: 3,
        alignment: 64,
        ..Options::default()
    };
    let mut writer = BundleWriter::create(&folder.join("sharded/model.ckpt"), options)?;
    for i in 0..7 {
        let tensor = filled(DType::Float32, &[i + 1, 3])?;
        writer.add_to(i as u32 % 3, &format!("v{i}"), &tensor)?;
    }
    writer.finish()?;
    Ok(())
}

/// Slices of a matrix of 7 by 5, which is partitioned once by rows and once by columns.
fn slices() -> trainspec_formats::Result<Vec<(&'static str, Slice, Tensor)>> {
    let mut slices = Vec::new();
    for (name, specs) in [
        ("by_rows", ["0,3:-", "3,4:-"]),
        ("by_columns", ["-:0,2", "-:2,3"]),
    ] {
        for slice in specs {
            let slice: Slice = slice.parse()?;
            let shape = slice.shape(&[7, 5])?;
            slices.push((name, slice, filled(DType::Float32, &shape)?));
        }
    }
    Ok(slices)
}

fn partitioned(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut writer =
        BundleWriter::create(&folder.join("partitioned/model.ckpt"), Options::default())?;
    for (name, slice, tensor) in &slices()? {
        writer.add_slice(0, name, &[7, 5], slice, tensor)?;
    }
    writer.finish()?;
    Ok(())
}

fn merged(folder: &Path) -> Result<(), Box<dyn Error>> {
    let prefixes: Vec<PathBuf> = (0..2)
        .map(|i| folder.join(format!("merged/part-{i}")))
        .collect();
    for (i, prefix) in prefixes.iter().enumerate() {
        let mut writer = BundleWriter::create(prefix, Options::default())?;
        let (name, slice, tensor) = &slices()?[i];
        writer.add_slice(0, name, &[7, 5], slice, tensor)?;
        writer.add(&format!("v{i}"), &Tensor::scalar(i as i64))?;
        writer.finish()?;
    }
    let prefixes: Vec<&Path> = prefixes.iter().map(PathBuf::as_path).collect();
    merge(
        &prefixes,
        &folder.join("merged/model.ckpt"),
        Options::default(),
    )?;
    Ok(())
}

/// A checkpoint that replaced another with the same prefix.
fn replaced(folder: &Path) -> Result<(), Box<dyn Error>> {
    for value in [1.0_f32, 2.0] {
        let prefix = folder.join("replaced/model.ckpt");
        let mut writer = BundleWriter::create(&prefix, Options::default())?;
        writer.add("v", &Tensor::scalar(value))?;
        writer.finish()?;
    }
    Ok(())
}

fn first_version(folder: &Path) -> Result<(), Box<dyn Error>> {
    let folder = folder.join("v1");
    std::fs::create_dir_all(&folder)?;
    let mut tensors = Vec::new();
    for dtype in numeric() {
        tensors.push((format!("t/{dtype}"), filled(dtype, &[2, 3])?));
    }
    tensors.push(("t/string".into(), strings()?));
    tensors.push(("t/scalar".into(), Tensor::scalar(1.5_f32)));
    let mut writer = TableCheckpointWriter::new();
    for (name, tensor) in &tensors {
        // The format does not support some types.
        let _ = writer.add(name, tensor);
    }
    let slices = slices()?;
    for (name, slice, tensor) in &slices {
        writer.add_slice(name, &[7, 5], slice, tensor)?;
    }
    writer.write(&folder.join("model.ckpt"), Durability::Synced)?;
    for (i, (name, slice, tensor)) in slices[..2].iter().enumerate() {
        let mut writer = TableCheckpointWriter::new();
        writer.add_slice(name, &[7, 5], slice, tensor)?;
        let path = shard_path(&folder.join("sharded.ckpt"), i as u32, 2);
        writer.write(&path, Durability::Synced)?;
    }
    Ok(())
}

/// What `tf.train.Checkpoint(model=..., layers=[...], optimizer=AdamOptimizer(), step=...)` restores.
fn objects(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut writer = ObjectWriter::create(&folder.join("object/ckpt-1"), Options::default())?;
    let value = |first: f32| Tensor::from_values(&[3], &[first, first + 0.5, first + 1.0]);
    writer.variable(&["model", "w"], "w", &value(1.0)?)?;
    writer.variable(&["model", "with/slash.and.dots"], "b", &value(2.0)?)?;
    writer.variable(&["layers", "0"], "l0", &value(3.0)?)?;
    writer.variable(&["layers", "1"], "l1", &value(4.0)?)?;
    writer.variable(
        &["optimizer", "beta1_power"],
        "beta1_power",
        &Tensor::scalar(0.25_f32),
    )?;
    writer.variable(
        &["optimizer", "beta2_power"],
        "beta2_power",
        &Tensor::scalar(0.75_f32),
    )?;
    let slots = [("m", "w/Adam", 5.0), ("v", "w/Adam_1", 6.0)];
    for (slot, name, first) in slots {
        writer.slot(&["optimizer"], &["model", "w"], slot, name, &value(first)?)?;
    }
    writer.variable(&["step"], "Variable", &Tensor::scalar(9_i64))?;
    writer.save_counter(1)?;
    writer.finish()?;
    Ok(())
}

/// An index of more than one block.
fn many(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut writer = BundleWriter::create(&folder.join("many/model.ckpt"), Options::default())?;
    for i in 0..20_000 {
        writer.add(
            &format!("scope_{:03}/layer_{i:05}/kernel", i / 100),
            &Tensor::scalar(i),
        )?;
    }
    writer.finish()?;
    Ok(())
}

fn archives(folder: &Path) -> Result<(), Box<dyn Error>> {
    let folder = folder.join("archives");
    std::fs::create_dir_all(&folder)?;
    let types = [
        DType::Float32,
        DType::Float64,
        DType::Float16,
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::UInt8,
        DType::UInt16,
        DType::UInt32,
        DType::UInt64,
        DType::Bool,
        DType::Complex64,
    ];
    let tensors: Vec<(String, Tensor)> = types
        .into_iter()
        .map(|dtype| Ok((format!("t/{dtype}"), filled(dtype, &[2, 3])?)))
        .collect::<trainspec_formats::Result<_>>()?;
    let views: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.view()))
        .collect();
    let durability = Durability::Synced;
    numpy::write_npz(
        &folder.join("stored.npz"),
        &views,
        Compression::Stored,
        durability,
    )?;
    numpy::write_npz(
        &folder.join("deflated.npz"),
        &views,
        Compression::Deflated,
        durability,
    )?;
    numpy::write_npy(&folder.join("one.npy"), views[0].1, durability)?;
    let metadata = [("made_by".to_owned(), "trainspec".to_owned())].into();
    safetensors::write(&folder.join("a.safetensors"), &views, &metadata, durability)?;
    Ok(())
}
