//! The bytes, characters and words of a string.

/// The characters of a string of UTF-8 (`tf.strings.unicode_split`); what is not UTF-8 becomes the replacement character U+FFFD, one for each
/// maximal part of a sequence that is broken off.
pub(super) fn characters(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    text.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|c| c.to_string().into_bytes());
        let broken = (!chunk.invalid().is_empty()).then(|| "\u{fffd}".as_bytes().to_vec());
        valid.chain(broken)
    })
}

/// The words of a string (`tf.strings.split`): what stands between ASCII white space.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let parts = text.split(is_space).filter(|part| !part.is_empty());
    parts.map(<[u8]>::to_vec)
}
