//! A checksum in the metadata of a `safetensors` file: the format has none, and readers pass over keys that they do not know.

use std::collections::BTreeMap;

use crate::checkpoint::{DType, Safetensors, safetensors};
use crate::crc;
use crate::error::Result;
use crate::tensor::{ElementsView, TensorView};

/// The key of the metadata that holds a CRC-32C of names, types, shapes and bytes of all tensors and of the other metadata, in
/// hexadecimal digits.
pub const CHECKSUM_KEY: &str = "_trainspec/crc32c";

/// The checksum of a file that is to be written: the value of [`CHECKSUM_KEY`].
///
/// ```
/// use trainspec_formats::checkpoint::{Safetensors, Tensor, safetensors};
///
/// # let path = &std::env::temp_dir().join(format!("trainspec-doc-sum-{}.safetensors", std::process::id()));
/// let bias = Tensor::from_values(&[2], &[1.0_f32, 2.0])?;
/// let tensors = [("bias", bias.view())];
/// let mut metadata = std::collections::BTreeMap::from([("made by".to_owned(), "hand".to_owned())]);
/// metadata.insert(safetensors::CHECKSUM_KEY.to_owned(), safetensors::checksum(&tensors, &metadata));
/// safetensors::write(path, &tensors, &metadata, Default::default())?;
/// assert!(Safetensors::open(path)?.verify().is_empty());
/// let mut bytes = std::fs::read(path).unwrap();
/// *bytes.last_mut().unwrap() ^= 1;
/// std::fs::write(path, bytes).unwrap();
/// assert!(Safetensors::open(path)?.verify()[0].to_string().contains("checksum"));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn checksum(tensors: &[(&str, TensorView<'_>)], metadata: &BTreeMap<String, String>) -> String {
    let mut sorted: Vec<&(&str, TensorView<'_>)> = tensors.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    let mut sum = Sum::of(metadata);
    for (name, view) in sorted {
        // The format has no strings: writing them is an error.
        if let ElementsView::Bytes(bytes) = view.elements() {
            sum.add(name, view.dtype(), view.shape(), bytes);
        }
    }
    sum.text()
}

impl Safetensors {
    /// Compares the checksum of the metadata with the contents; nothing where there is none.
    pub(super) fn compare_checksum(&self) -> Result<()> {
        let Some(stored) = self.metadata().get(CHECKSUM_KEY) else {
            return Ok(());
        };
        let mut sum = Sum::of(self.metadata());
        for (name, dtype, shape) in self.entries() {
            let tensor = self.tensor(name)?;
            if let ElementsView::Bytes(bytes) = tensor.view().elements() {
                sum.add(name, dtype, shape, bytes);
            }
        }
        let found = sum.text();
        match found == *stored {
            true => Ok(()),
            false => Err(safetensors::loss(format!(
                "its checksum is {stored}, and that of its contents {found}"
            ))
            .in_file(self.path())),
        }
    }
}

/// A checksum under way.
struct Sum(u32);

impl Sum {
    fn of(metadata: &BTreeMap<String, String>) -> Sum {
        let mut sum = Sum(0);
        for (key, text) in metadata.iter().filter(|(key, _)| *key != CHECKSUM_KEY) {
            sum.append(&format!("{key:?} {text:?}\n"));
        }
        sum
    }

    fn append(&mut self, text: &str) {
        self.0 = crc::append(self.0, text.as_bytes());
    }

    fn add(&mut self, name: &str, dtype: DType, shape: &[usize], bytes: &[u8]) {
        self.append(&format!("{name:?} {dtype} {shape:?}\n"));
        self.0 = crc::append(self.0, bytes);
    }

    fn text(&self) -> String {
        format!("{:08x}", self.0)
    }
}
