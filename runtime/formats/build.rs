//! Turns `proto/*.proto` into Rust; needs no compiler of protocol buffers on the machine.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut files: Vec<PathBuf> = std::fs::read_dir("proto")?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    files.sort();
    prost_build::Config::new()
        .btree_map(["."])
        .compile_fds(protox::compile(&files, ["proto"])?)?;
    Ok(())
}
