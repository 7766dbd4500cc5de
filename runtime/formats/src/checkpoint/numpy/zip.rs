//! Zip archives (APPNOTE.TXT, with Zip64), as far as `npz` needs them: members that are stored or deflated, of any size.
//!
//! Everything an archive says of a member twice, in the central directory and in its local header, must agree: nothing else protects
//! the directory, and a flipped bit in it would rename an array.

use std::io::{self, Read, Write};
use std::sync::Arc;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::ReadAt;
use crate::memory::{self, Headroom, zeros};
use crate::storage::WriteFile;

const LOCAL_HEADER_SIGNATURE: u32 = 0x0403_4b50;
const CENTRAL_HEADER_SIGNATURE: u32 = 0x0201_4b50;
const EOCD_SIGNATURE: u32 = 0x0605_4b50;
const ZIP64_EOCD_SIGNATURE: u32 = 0x0606_4b50;
const ZIP64_LOCATOR_SIGNATURE: u32 = 0x0706_4b50;
/// The version of the format that a reader needs for Zip64: 4.5.
const ZIP64_VERSION: u16 = 45;
/// The id of the Zip64 extra field.
const ZIP64_EXTRA: u16 = 1;
/// The flags (general purpose bits) of encryption, of sizes that follow the data, and of names in UTF-8.
const ENCRYPTED: u16 = 1;
const SIZES_FOLLOW: u16 = 1 << 3;
const UTF8_NAME: u16 = 1 << 11;
/// The memory of a member in the directory and in the lists made of it, besides its name.
const MEMBER_BYTES: usize = 1024;
/// The characters 128 to 255 of code page 437, in which names are without [`UTF8_NAME`].
const CODE_PAGE_437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";
/// The maximum compression ratio of DEFLATE.
const MAX_DEFLATE_RATIO: u64 = 1032;

/// A member of an archive.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    /// The bytes of the name, as the local header has them too.
    stored_name: Vec<u8>,
    flags: u16,
    deflated: bool,
    crc: u32,
    compressed_size: u64,
    /// The uncompressed size in bytes.
    pub(super) size: u64,
    /// The offset of its compressed bytes.
    pub(super) offset: u64,
}

/// Reads the central directory of an archive. No two members share bytes, and none is larger than its compressed bytes allow.
pub(super) fn members(file: &dyn ReadAt) -> Result<Vec<Member>> {
    let length = file.length().map_err(failed)?;
    let (start, size, count) = directory(file, length)?;
    let end = start.checked_add(size).filter(|&end| end <= length);
    let end = end.ok_or_else(|| loss("the directory is outside the archive").at(start))?;
    let mut bytes = zeros(FileKind::Numpy, size as usize).map_err(|e| e.at(start))?;
    file.read_exact_at(start, &mut bytes)
        .map_err(|e| failed(e).at(start))?;
    let mut rest = ByteCursor { bytes: &bytes };
    let mut found = Vec::new();
    let mut headroom = Headroom::new(FileKind::Numpy);
    while !rest.bytes.is_empty() {
        let at = end - rest.bytes.len() as u64;
        headroom.take(MEMBER_BYTES).map_err(|e| e.at(at))?;
        let entry = central_header(&mut rest)
            .ok_or_else(|| loss("an entry of the directory is broken").at(at))?;
        let entry = entry.map_err(|e| e.at(at))?;
        headroom.take(4 * entry.name.len()).map_err(|e| e.at(at))?;
        memory::push(FileKind::Numpy, &mut found, entry).map_err(|e| e.at(at))?;
    }
    if found.len() as u64 != count {
        return Err(loss(format!(
            "the directory has {} entries instead of {count}",
            found.len()
        ))
        .at(start));
    }
    // Besides its entry in the central directory, each has a local header before its bytes.
    found.sort_by_key(|member| member.offset);
    let mut previous_end = 0;
    for member in &mut found {
        let header = member.offset;
        if header < previous_end {
            return Err(loss(format!("`{}` overlaps another", member.name)).at(header));
        }
        member.offset = data_offset(file, member, start)?;
        previous_end = member.offset + member.compressed_size;
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = found.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(loss(format!("`{}` is there twice", pair[0].name)).at(start));
    }
    Ok(found)
}

/// Opens a member; its CRC-32 is compared at the end.
pub(super) fn open(file: &Arc<dyn ReadAt>, member: &Member) -> MemberReader {
    let stored = StoredBytes {
        file: file.clone(),
        offset: member.offset,
        left: member.compressed_size,
    };
    let stored = io::BufReader::with_capacity(64 * 1024, stored);
    MemberReader {
        source: match member.deflated {
            true => Source::Deflated(DeflateDecoder::new(stored)),
            false => Source::Stored(stored),
        },
        crc: Crc::new(),
        expected: member.crc,
        left: member.size,
    }
}

/// A reader of the uncompressed bytes of a member.
pub(super) struct MemberReader {
    source: Source,
    crc: Crc,
    expected: u32,
    left: u64,
}

enum Source {
    Stored(io::BufReader<StoredBytes>),
    Deflated(DeflateDecoder<io::BufReader<StoredBytes>>),
}

impl Read for MemberReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let into = &mut into[..most];
        let read = match &mut self.source {
            Source::Stored(source) => source.read(into)?,
            Source::Deflated(source) => source.read(into)?,
        };
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.crc.update(&into[..read]);
        self.left -= read as u64;
        // The last bytes are only returned once the checksum is right.
        if self.left == 0 && read > 0 {
            self.check_end()?;
        }
        Ok(read)
    }
}

impl MemberReader {
    /// Checks the CRC-32, and that the compressed bytes end with the member.
    fn check_end(&mut self) -> io::Result<()> {
        let damaged = |cause: String| Err(io::Error::new(io::ErrorKind::InvalidData, cause));
        let (found, expected) = (self.crc.sum(), self.expected);
        if found != expected {
            return damaged(format!(
                "the checksum is {found:#010x} instead of {expected:#010x}"
            ));
        }
        if let Source::Deflated(source) = &mut self.source {
            if source.read(&mut [0])? != 0 {
                return damaged("the compressed bytes hold more than its size".to_owned());
            }
            let rest = source.get_ref();
            let unused = rest.buffer().len() as u64 + rest.get_ref().left;
            if unused > 0 {
                return damaged(format!("{unused} bytes follow the compressed stream"));
            }
        }
        Ok(())
    }
}

/// A reader of the bytes of a member as the archive has them.
struct StoredBytes {
    file: Arc<dyn ReadAt>,
    offset: u64,
    left: u64,
}

impl Read for StoredBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.file.read_exact_at(self.offset, &mut into[..most])?;
        self.offset += most as u64;
        self.left -= most as u64;
        Ok(most)
    }
}

/// A cursor over bytes, whose numbers are little-endian; `None` past their end.
struct ByteCursor<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteCursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

/// The offset and size of the central directory, and its number of entries.
fn directory(file: &dyn ReadAt, length: u64) -> Result<(u64, u64, u64)> {
    // The end-of-central-directory record has 22 bytes and a comment of up to 65535.
    let tail = length.min(22 + 65_535);
    let mut bytes = vec![0; tail as usize];
    file.read_exact_at(length - tail, &mut bytes)
        .map_err(|e| failed(e).at(length - tail))?;
    let found = (0..bytes.len().saturating_sub(21)).rev().find(|&at| {
        bytes[at..].starts_with(&EOCD_SIGNATURE.to_le_bytes())
            && usize::from(u16::from_le_bytes([bytes[at + 20], bytes[at + 21]]))
                == bytes.len() - at - 22
    });
    let none = || loss("no directory ends here, so that it is no archive, or cut off").at(length);
    let at = found.ok_or_else(none)?;
    let end_at = length - tail + at as u64;
    let parsed = (|| {
        let mut end = ByteCursor {
            bytes: &bytes[at + 4..],
        };
        let (disk, first_disk) = (end.u16()?, end.u16()?);
        end.u16()?;
        let count = end.u16()?;
        let (size, start) = (end.u32()?, end.u32()?);
        Some((disk, first_disk, count, size, start))
    })();
    let broken = || loss("the end of the archive is broken").at(end_at);
    let (disk, first_disk, count, size, start) = parsed.ok_or_else(broken)?;
    if count == u16::MAX || size == u32::MAX || start == u32::MAX {
        return directory_64(file, end_at);
    }
    if disk != 0 || first_disk != 0 {
        return Err(loss("it is a part of an archive").at(end_at));
    }
    Ok((u64::from(start), u64::from(size), u64::from(count)))
}

/// What [`directory`] gives, from the Zip64 record before the end of the archive.
fn directory_64(file: &dyn ReadAt, end_at: u64) -> Result<(u64, u64, u64)> {
    let broken = || loss("the end of the large archive is broken").at(end_at);
    let locator_at = end_at.checked_sub(20).ok_or_else(broken)?;
    let mut bytes = [0; 20];
    file.read_exact_at(locator_at, &mut bytes)
        .map_err(|e| failed(e).at(locator_at))?;
    let mut locator = ByteCursor { bytes: &bytes };
    let found = (|| {
        let known = locator.u32()? == ZIP64_LOCATOR_SIGNATURE && locator.u32()? == 0;
        let at = locator.u64()?;
        (known && at.checked_add(56)? <= locator_at).then_some(at)
    })();
    let at = found.ok_or_else(broken)?;
    let mut bytes = [0; 56];
    file.read_exact_at(at, &mut bytes)
        .map_err(|e| failed(e).at(at))?;
    let mut end = ByteCursor { bytes: &bytes };
    let found = (|| {
        let known = end.u32()? == ZIP64_EOCD_SIGNATURE;
        end.take(20)?;
        end.u64()?;
        let count = end.u64()?;
        let (size, start) = (end.u64()?, end.u64()?);
        known.then_some((start, size, count))
    })();
    found.ok_or_else(broken)
}

/// An entry of the central directory; its offset is still that of its local header. `None` if it is truncated or no entry.
fn central_header(rest: &mut ByteCursor<'_>) -> Option<Result<Member>> {
    if rest.u32()? != CENTRAL_HEADER_SIGNATURE {
        return None;
    }
    rest.take(4)?;
    let (flags, method) = (rest.u16()?, rest.u16()?);
    rest.take(4)?;
    let crc = rest.u32()?;
    let (mut compressed_size, mut size) = (u64::from(rest.u32()?), u64::from(rest.u32()?));
    let (name, extra, comment) = (rest.u16()?, rest.u16()?, rest.u16()?);
    rest.take(8)?;
    let mut offset = u64::from(rest.u32()?);
    let stored_name = rest.take(usize::from(name))?;
    let extra = rest.take(usize::from(extra))?;
    rest.take(usize::from(comment))?;
    zip64_extra(extra, [&mut size, &mut compressed_size, &mut offset])?;
    let unknown = |cause: String| {
        Some(Err(FormatError::new(
            Code::Unimplemented,
            FileKind::Numpy,
            cause,
        )))
    };
    let Some(name) = decode_name(stored_name, flags) else {
        return Some(Err(loss("a name in the archive is not UTF-8")));
    };
    if flags & ENCRYPTED != 0 {
        return unknown(format!("`{name}` is encrypted"));
    }
    let deflated = match method {
        0 => false,
        8 => true,
        other => return unknown(format!("`{name}` is compressed by method {other}")),
    };
    let max_size = match deflated {
        true => compressed_size
            .saturating_mul(MAX_DEFLATE_RATIO)
            .saturating_add(1024),
        false => compressed_size,
    };
    if size > max_size || (!deflated && size != compressed_size) {
        return Some(Err(loss(format!(
            "`{name}` cannot have {size} bytes in {compressed_size}"
        ))));
    }
    Some(Ok(Member {
        name,
        stored_name: stored_name.to_vec(),
        flags,
        deflated,
        crc,
        compressed_size,
        size,
        offset,
    }))
}

/// Reads the Zip64 extra field: it has the values that did not fit their fields, in this order. `None` if it is truncated.
fn zip64_extra<const N: usize>(extra: &[u8], values: [&mut u64; N]) -> Option<()> {
    let mut extra = ByteCursor { bytes: extra };
    let mut values = values.into_iter();
    while extra.bytes.len() >= 4 {
        let (kind, length) = (extra.u16()?, extra.u16()?);
        let mut field = ByteCursor {
            bytes: extra.take(usize::from(length))?,
        };
        if kind == ZIP64_EXTRA {
            for value in values.by_ref() {
                if *value == u64::from(u32::MAX) {
                    *value = field.u64()?;
                }
            }
        }
    }
    Some(())
}

/// A name as text; `None` if it is not what its flag says.
fn decode_name(name: &[u8], flags: u16) -> Option<String> {
    if flags & UTF8_NAME != 0 || name.is_ascii() {
        return std::str::from_utf8(name).ok().map(str::to_owned);
    }
    let character = |&byte: &u8| match byte {
        0..0x80 => Some(char::from(byte)),
        _ => CODE_PAGE_437.chars().nth(usize::from(byte) - 0x80),
    };
    name.iter().map(character).collect()
}

/// The offset of a member's bytes, after its local header, which must agree with the directory.
fn data_offset(file: &dyn ReadAt, member: &Member, directory: u64) -> Result<u64> {
    let at = member.offset;
    let broken = |cause: &str| loss(format!("the header of `{}` {cause}", member.name)).at(at);
    let outside = || broken("is outside the archive");
    let fixed_end = at.checked_add(30).filter(|&end| end <= directory);
    let fixed_end = fixed_end.ok_or_else(outside)?;
    let mut bytes = [0; 30];
    file.read_exact_at(at, &mut bytes)
        .map_err(|e| failed(e).at(at))?;
    let header = LocalHeader::decode(&bytes).ok_or_else(|| broken("is no header of a member"))?;
    let rest = header.name + header.extra;
    let start = fixed_end + rest as u64;
    let end = start.checked_add(member.compressed_size);
    if end.is_none_or(|end| end > directory) {
        return Err(outside());
    }
    let mut bytes = vec![0; rest];
    file.read_exact_at(fixed_end, &mut bytes)
        .map_err(|e| failed(e).at(fixed_end))?;
    let (name, extra) = bytes.split_at(header.name);
    if name != member.stored_name {
        let other = String::from_utf8_lossy(name);
        return Err(broken(&format!("says that it is `{other}`")));
    }
    let flags = ENCRYPTED | SIZES_FOLLOW | UTF8_NAME;
    let method = if member.deflated { 8 } else { 0 };
    if header.flags & flags != member.flags & flags || header.method != method {
        return Err(broken(
            "has other flags than the directory, or another method",
        ));
    }
    // Where the sizes follow the data, the header may have zeros.
    let zeros = (0, 0, 0);
    let (mut size, mut compressed_size) = (header.size, header.compressed_size);
    zip64_extra(extra, [&mut size, &mut compressed_size]).ok_or_else(|| broken("is cut off"))?;
    let found = (header.crc, compressed_size, size);
    let follows = header.flags & SIZES_FOLLOW != 0 && found == zeros;
    match follows || found == (member.crc, member.compressed_size, member.size) {
        true => Ok(start),
        false => Err(broken("has another checksum or size than the directory")),
    }
}

/// The fixed part of a local header.
struct LocalHeader {
    flags: u16,
    method: u16,
    crc: u32,
    compressed_size: u64,
    size: u64,
    /// The lengths of the name and of the extra fields.
    name: usize,
    extra: usize,
}

impl LocalHeader {
    fn decode(bytes: &[u8; 30]) -> Option<LocalHeader> {
        let mut header = ByteCursor { bytes };
        if header.u32()? != LOCAL_HEADER_SIGNATURE {
            return None;
        }
        header.u16()?;
        let (flags, method) = (header.u16()?, header.u16()?);
        header.take(4)?;
        Some(LocalHeader {
            flags,
            method,
            crc: header.u32()?,
            compressed_size: header.u32()?.into(),
            size: header.u32()?.into(),
            name: header.u16()?.into(),
            extra: header.u16()?.into(),
        })
    }
}

/// Writes an archive to a file, member by member.
pub(super) struct Archive<'a> {
    file: &'a mut dyn WriteFile,
    offset: u64,
    directory: Vec<u8>,
    count: u64,
}

impl<'a> Archive<'a> {
    pub(super) fn new(file: &'a mut dyn WriteFile) -> Archive<'a> {
        Archive {
            file,
            offset: 0,
            directory: Vec::new(),
            count: 0,
        }
    }

    /// Adds a member whose bytes `put` writes.
    pub(super) fn add(
        &mut self,
        name: &str,
        deflated: bool,
        put: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let name_length = u16::try_from(name.len()).map_err(|_| {
            FormatError::invalid(FileKind::Numpy, format!("the name `{name}` is too long"))
        })?;
        let method: u16 = if deflated { 8 } else { 0 };
        let start = self.offset;
        // Checksum and sizes are written into the local header when they are known.
        self.write(&local_header(name, name_length, method, 0, 0, 0))?;
        let mut counted = CountingWriter {
            out: io::BufWriter::with_capacity(256 * 1024, &mut *self.file),
            count: 0,
        };
        let (crc, size) = match deflated {
            false => {
                let mut summed = Crc32Writer::new(&mut counted);
                put(&mut summed)?;
                summed.end()
            }
            true => {
                let level = flate2::Compression::default();
                let mut encoder = flate2::write::DeflateEncoder::new(&mut counted, level);
                let mut summed = Crc32Writer::new(&mut encoder);
                put(&mut summed)?;
                let end = summed.end();
                encoder.finish().map_err(unwritten)?;
                end
            }
        };
        counted.out.flush().map_err(unwritten)?;
        let compressed_size = counted.count;
        drop(counted);
        self.offset += compressed_size;
        let header = local_header(name, name_length, method, crc, compressed_size, size);
        self.file.overwrite(start, &header).map_err(unwritten)?;
        let entry = &mut self.directory;
        entry.extend(CENTRAL_HEADER_SIGNATURE.to_le_bytes());
        entry.extend(ZIP64_VERSION.to_le_bytes());
        entry.extend(&header[4..14]);
        entry.extend(crc.to_le_bytes());
        entry.extend([0xff; 8]);
        entry.extend(name_length.to_le_bytes());
        entry.extend(28_u16.to_le_bytes());
        entry.extend([0; 10]);
        entry.extend([0xff; 4]);
        entry.extend(name.bytes());
        entry.extend([1, 0, 24, 0]);
        for value in [size, compressed_size, start] {
            entry.extend(value.to_le_bytes());
        }
        self.count += 1;
        Ok(())
    }

    /// Writes the central directory.
    pub(super) fn finish(mut self) -> Result<()> {
        let (start, size) = (self.offset, self.directory.len() as u64);
        let mut end = std::mem::take(&mut self.directory);
        // An empty archive begins with its short record: NumPy knows it by that.
        if self.count > 0 {
            let at = start + size;
            end.extend(ZIP64_EOCD_SIGNATURE.to_le_bytes());
            end.extend(44_u64.to_le_bytes());
            end.extend(ZIP64_VERSION.to_le_bytes());
            end.extend(ZIP64_VERSION.to_le_bytes());
            end.extend([0; 8]);
            for value in [self.count, self.count, size, start] {
                end.extend(value.to_le_bytes());
            }
            end.extend(ZIP64_LOCATOR_SIGNATURE.to_le_bytes());
            end.extend(0_u32.to_le_bytes());
            end.extend(at.to_le_bytes());
            end.extend(1_u32.to_le_bytes());
        }
        end.extend(EOCD_SIGNATURE.to_le_bytes());
        end.extend([0; 4]);
        // Where the values fit, the short record has them as well, for readers without Zip64.
        let short = u16::try_from(self.count).unwrap_or(u16::MAX);
        end.extend(short.to_le_bytes());
        end.extend(short.to_le_bytes());
        for value in [size, start] {
            end.extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
        }
        end.extend([0; 2]);
        self.write(&end)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(unwritten)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// The local header of a member. Sizes are always in the Zip64 extra field.
fn local_header(
    name: &str,
    length: u16,
    method: u16,
    crc: u32,
    compressed_size: u64,
    size: u64,
) -> Vec<u8> {
    let mut out = LOCAL_HEADER_SIGNATURE.to_le_bytes().to_vec();
    out.extend(ZIP64_VERSION.to_le_bytes());
    // Names are UTF-8.
    out.extend(0x0800_u16.to_le_bytes());
    out.extend(method.to_le_bytes());
    // The first of January 1980, so that files are reproducible.
    out.extend([0, 0, 0x21, 0]);
    out.extend(crc.to_le_bytes());
    out.extend([0xff; 8]);
    out.extend(length.to_le_bytes());
    out.extend(20_u16.to_le_bytes());
    out.extend(name.bytes());
    out.extend([1, 0, 16, 0]);
    out.extend(size.to_le_bytes());
    out.extend(compressed_size.to_le_bytes());
    out
}

/// A writer that counts the bytes.
struct CountingWriter<W> {
    out: W,
    count: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A writer that computes the CRC-32 of what it is given, and counts the bytes.
struct Crc32Writer<W> {
    out: W,
    crc: Crc,
    count: u64,
}

impl<W: Write> Crc32Writer<W> {
    fn new(out: W) -> Crc32Writer<W> {
        Crc32Writer {
            out,
            crc: Crc::new(),
            count: 0,
        }
    }

    fn end(self) -> (u32, u64) {
        (self.crc.sum(), self.count)
    }
}

impl<W: Write> Write for Crc32Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.crc.update(&bytes[..written]);
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn failed(source: io::Error) -> FormatError {
    FormatError::io(FileKind::Numpy, "read it", source)
}

fn unwritten(source: io::Error) -> FormatError {
    FormatError::io(FileKind::Numpy, "write it", source)
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::Numpy, cause)
}
