//! Bytes of data files into memory, by several threads where there are many, each piece checked while it is in the cache.

use std::fs::File;
use std::thread;

use crate::crc;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::ReadAt;

/// How much is read before it is checked: it stays in the cache of a core.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
/// Below this a second thread costs more than it brings.
const MIN_PARALLEL_BYTES: usize = 2 * 1024 * 1024;

/// Some bytes of a file, and where they go.
#[derive(Debug)]
pub(super) struct ReadJob<'a> {
    pub(super) file: &'a File,
    pub(super) offset: u64,
    pub(super) into: &'a mut [u8],
}

/// Reads all and gives the checksum of each.
pub(super) fn read(jobs: Vec<ReadJob<'_>>, threads: usize) -> Vec<Result<u32>> {
    let lengths: Vec<usize> = jobs.iter().map(|job| job.into.len()).collect();
    let total: usize = lengths.iter().sum();
    let threads = threads.min(total / MIN_PARALLEL_BYTES).max(1);
    if threads == 1 {
        return jobs.into_iter().map(|job| piece(job)).collect();
    }
    // Every thread gets as much as the others, from one end of the list to the other.
    let share = total.div_ceil(threads);
    let mut shares: Vec<Vec<(usize, ReadJob<'_>)>> = Vec::new();
    let mut left = 0;
    for (which, job) in jobs.into_iter().enumerate() {
        let (mut offset, mut into) = (job.offset, job.into);
        loop {
            if left == 0 {
                shares.push(Vec::new());
                left = share;
            }
            let (now, later) = into.split_at_mut(left.min(into.len()));
            left -= now.len();
            let length = now.len() as u64;
            let part = ReadJob {
                file: job.file,
                offset,
                into: now,
            };
            shares.last_mut().expect("one was made").push((which, part));
            if later.is_empty() {
                break;
            }
            offset += length;
            into = later;
        }
    }
    let work = |share: Vec<(usize, ReadJob<'_>)>| -> Vec<(usize, usize, Result<u32>)> {
        let done = share.into_iter().map(|(which, job)| {
            let length = job.into.len();
            (which, length, piece(job))
        });
        done.collect()
    };
    let done: Vec<_> = thread::scope(|scope| {
        let mut shares = shares.into_iter();
        let first = shares.next();
        let others: Vec<_> = shares
            .map(|share| scope.spawn(move || work(share)))
            .collect();
        let mut done = first.map(work).unwrap_or_default();
        for other in others {
            done.extend(other.join().expect("reading does not panic"));
        }
        done
    });
    let mut sums: Vec<Result<u32>> = lengths.iter().map(|_| Ok(0)).collect();
    for (which, length, sum) in done {
        if let Ok(before) = sums[which] {
            sums[which] = sum.map(|sum| crc::combine(before, sum, length));
        }
    }
    sums
}

fn piece(job: ReadJob<'_>) -> Result<u32> {
    let mut sum = 0;
    let mut offset = job.offset;
    for chunk in job.into.chunks_mut(CHUNK_BYTES) {
        read_exact(job.file, offset, chunk)?;
        sum = crc::append(sum, chunk);
        offset += chunk.len() as u64;
    }
    Ok(sum)
}

/// Reads some bytes of a data file. A file that ends before them is out of range, as it is to TensorFlow.
pub(super) fn read_exact(file: &File, offset: u64, into: &mut [u8]) -> Result<()> {
    file.read_exact_at(offset, into).map_err(|e| {
        let ended = e.kind() == std::io::ErrorKind::UnexpectedEof;
        let mut error = FormatError::io(FileKind::CheckpointData, "read it", e).at(offset);
        if ended {
            error.code = Code::OutOfRange;
        }
        error
    })
}
