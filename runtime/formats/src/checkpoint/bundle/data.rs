//! Parallel reads of data files, with the CRC-32C of each chunk computed while it is in the cache.

use std::thread;

use crate::crc;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::ReadAt;

/// The bytes that are read before they are added to the checksum: they stay in a core's cache.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
/// Below this a second thread costs more than it saves.
const MIN_PARALLEL_BYTES: usize = 2 * 1024 * 1024;

/// A byte range of a file and its destination buffer.
#[derive(Debug)]
pub(super) struct ReadJob<'a> {
    pub(super) file: &'a dyn ReadAt,
    pub(super) offset: u64,
    pub(super) into: &'a mut [u8],
}

/// Runs all reads and returns the checksum of each.
pub(super) fn read(jobs: Vec<ReadJob<'_>>, threads: usize) -> Vec<Result<u32>> {
    let lengths: Vec<usize> = jobs.iter().map(|job| job.into.len()).collect();
    let total: usize = lengths.iter().sum();
    let threads = threads.min(total / MIN_PARALLEL_BYTES).max(1);
    if threads == 1 {
        return jobs.into_iter().map(|job| read_job(job)).collect();
    }
    // Every thread gets an equal share of the bytes, contiguous in the list.
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
            (which, length, read_job(job))
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

/// Reads the bytes of a job in chunks, and computes their checksum while they are in cache.
fn read_job(job: ReadJob<'_>) -> Result<u32> {
    let mut sum = 0;
    let mut offset = job.offset;
    for chunk in job.into.chunks_mut(CHUNK_BYTES) {
        read_exact(job.file, offset, chunk)?;
        sum = crc::append(sum, chunk);
        offset += chunk.len() as u64;
    }
    Ok(sum)
}

/// Reads a byte range of a data file. A file that ends before it is `OutOfRange`, as in TensorFlow.
pub(super) fn read_exact(file: &dyn ReadAt, offset: u64, into: &mut [u8]) -> Result<()> {
    file.read_exact_at(offset, into).map_err(|e| {
        let ended = e.kind() == std::io::ErrorKind::UnexpectedEof;
        let mut error = FormatError::io(FileKind::CheckpointData, "read it", e).at(offset);
        if ended {
            error.code = Code::OutOfRange;
        }
        error
    })
}
