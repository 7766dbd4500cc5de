//! The checked-in Rust code of the protocol buffers is what prost-build generates from `proto/`.
//!
//! Users of the crate compile the generated code alone; the generator and its parser are needed by this test only. After a change of
//! `proto/`, `BLESS=1 cargo test -p trainspec-formats generated` writes the code again.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use protox::prost_reflect::prost::Message;
use protox::prost_reflect::{
    Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor,
};

#[test]
fn generated_code_is_what_prost_build_makes_of_the_protos() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checked_in = root.join("src/proto");
    let generated = generate(&root.join("proto"))?;
    for (name, text) in &generated {
        let path = checked_in.join(name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, text)?;
        }
        let found = std::fs::read_to_string(&path)?;
        assert!(
            found == *text,
            "{} is out of date: run `BLESS=1 cargo test -p trainspec-formats generated`",
            path.display()
        );
    }
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&checked_in)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    assert!(
        names.iter().eq(generated.keys()),
        "{names:?} are checked in, but {:?} are generated",
        generated.keys()
    );
    Ok(())
}

/// The generated files by name: one for each package of protocol buffers, and the table of `src/bounded.rs`.
fn generate(protos: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(protos)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    files.sort();
    let descriptors = protox::compile(&files, [protos])?;
    let pool = DescriptorPool::decode(descriptors.encode_to_vec().as_slice())?;
    let out = std::env::temp_dir().join(format!("trainspec-protos-{}", std::process::id()));
    std::fs::create_dir_all(&out)?;
    prost_build::Config::new()
        .btree_map(["."])
        .enable_type_names()
        .out_dir(&out)
        .compile_fds(descriptors)?;
    let mut generated = BTreeMap::from([("shapes.rs".to_owned(), shapes(&pool)?)]);
    for entry in std::fs::read_dir(&out)? {
        let path = entry?.path();
        let name = path.file_name().expect("an entry has a name");
        generated.insert(
            name.to_string_lossy().into_owned(),
            std::fs::read_to_string(&path)?,
        );
    }
    std::fs::remove_dir_all(&out)?;
    Ok(generated)
}

/// The table of `src/bounded.rs`: what each message takes in memory, and what is in its fields. Sorted by name.
fn shapes(pool: &DescriptorPool) -> Result<String, std::fmt::Error> {
    let messages: BTreeMap<String, MessageDescriptor> = pool
        .all_messages()
        .map(|message| (message.full_name().to_owned(), message))
        .collect();
    let places: BTreeMap<&String, usize> = messages.keys().zip(0..).collect();
    let mut text = "static SHAPES: &[Shape] = &[\n".to_owned();
    for (name, message) in &messages {
        let size = size(message, &mut Vec::new());
        write!(
            text,
            "    Shape {{ name: \"{name}\", size: {size}, fields: &["
        )?;
        for field in message.fields() {
            let number = field.number();
            let lists = field.cardinality() == Cardinality::Repeated;
            match field.kind() {
                Kind::Message(inside) => {
                    let place = places[&inside.full_name().to_owned()];
                    write!(text, "({number}, Part::Message({place})), ")?;
                }
                Kind::String | Kind::Bytes => write!(text, "({number}, Part::Bytes), ")?,
                kind if lists => write!(text, "({number}, Part::{}), ", numbers(&kind))?,
                // Has its place in the message.
                _ => {}
            }
        }
        text += "] },\n";
    }
    text += "];\n";
    Ok(text)
}

/// How the numbers of a list are stored: as many bytes as in the file, or each as much as the widest.
fn numbers(kind: &Kind) -> &'static str {
    match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => "Fixed",
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => "Fixed",
        _ => "Varints",
    }
}

/// What a message takes at most, without what its lists and strings point to.
fn size(message: &MessageDescriptor, outer: &mut Vec<String>) -> usize {
    let name = message.full_name().to_owned();
    // Recursive messages are boxed.
    if outer.contains(&name) {
        return 8;
    }
    outer.push(name);
    let mut field = |field: FieldDescriptor| match field.kind() {
        // A list, a map or a string: pointer, length and capacity.
        _ if field.cardinality() == Cardinality::Repeated => 24,
        Kind::String | Kind::Bytes => 24,
        Kind::Message(inside) => 8 + size(&inside, outer),
        _ => 16,
    };
    // A tree of entries is at least half full and has pointers.
    let mut sum = if message.is_map_entry() { 16 } else { 8 };
    for alone in message.fields().filter(|f| f.containing_oneof().is_none()) {
        sum += field(alone);
    }
    for choice in message.oneofs() {
        sum += 8 + choice.fields().map(&mut field).max().unwrap_or(0);
    }
    outer.pop();
    sum
}
