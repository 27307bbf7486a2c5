//! Reads of a blocking stream up to a deadline.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// A stream whose reads fail with `TimedOut` at a deadline, even if the peer sends a few bytes at a
/// time. A timeout of the stream itself would start again with each byte.
pub struct ReadUntil<'a, S> {
    stream: &'a S,
    deadline: Instant,
    set_timeout: SetTimeout<S>,
}

/// Sets how long a read waits.
type SetTimeout<S> = fn(&S, Option<Duration>) -> io::Result<()>;

impl<'a, S> ReadUntil<'a, S> {
    /// Limits the reads of a stream. The reads change its timeout and do not restore it.
    pub fn new(stream: &'a S, deadline: Instant, set_timeout: SetTimeout<S>) -> Self {
        Self {
            stream,
            deadline,
            set_timeout,
        }
    }
}

impl<'a, S> Read for ReadUntil<'a, S>
where
    &'a S: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        (self.set_timeout)(self.stream, Some(left))?;
        self.stream
            .read(buffer)
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
                _ => error,
            })
    }
}

impl<'a, S> Write for ReadUntil<'a, S>
where
    &'a S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
