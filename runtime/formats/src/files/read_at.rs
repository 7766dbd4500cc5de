//! Positioned reads (`pread`).
//!
//! Nothing is memory-mapped: a mapped file that shrinks kills the process (SIGBUS).

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

/// Random access to bytes, by several threads at once (`RandomAccessFile`).
pub trait ReadAt: Send + Sync {
    /// The current number of bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads from a position on, perhaps fewer bytes than the buffer holds; 0 bytes at the end.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Fills the buffer from a position on, or fails.
    fn read_exact_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(position.saturating_add(done as u64), &mut buffer[done..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl fmt::Debug for dyn ReadAt + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAt").finish_non_exhaustive()
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Box<R> {
    fn length(&self) -> io::Result<u64> {
        (**self).length()
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(position, buffer)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Arc<R> {
    fn length(&self) -> io::Result<u64> {
        (**self).length()
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(position, buffer)
    }
}

impl ReadAt for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(position).map_or(self.len(), |start| start.min(self.len()));
        let n = buffer.len().min(self.len() - start);
        buffer[..n].copy_from_slice(&self[start..start + n]);
        Ok(n)
    }
}

impl ReadAt for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        self.as_slice().length()
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.as_slice().read_at(position, buffer)
    }
}

/// A file that is read in order, to its end. One that ends before the length it had at first is an error: what is missing was there.
#[derive(Debug)]
pub struct SequentialFile {
    file: Box<dyn ReadAt>,
    position: u64,
    /// Its length when it was opened; 0 where that is not known.
    length: u64,
}

impl SequentialFile {
    /// The file, at its beginning.
    pub fn new(file: Box<dyn ReadAt>) -> SequentialFile {
        SequentialFile::at(file, 0)
    }

    /// The file, from a byte offset on.
    pub fn at(file: Box<dyn ReadAt>, position: u64) -> SequentialFile {
        SequentialFile {
            length: file.length().unwrap_or(0),
            file,
            position,
        }
    }
}

impl Read for SequentialFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(self.position, buffer)?;
        self.position += n as u64;
        if n == 0 && !buffer.is_empty() && self.position < self.length {
            let message = format!(
                "it ends after {} of {} bytes: it was cut while it was read",
                self.position, self.length
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(n)
    }
}
