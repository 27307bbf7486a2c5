//! Receives the requests of readers, with limits of size and time.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use holdfast_core::{Error, ErrorKind, Result};

use crate::memory::budget::{Budget, Share};
use crate::net::frame;
use crate::net::message::{self, MessageKind};
use crate::net::request::{MAX_REQUEST, USUAL_REQUEST};
use crate::server::read_connection::PATIENCE;
use crate::server::session_error::SessionError;

/// How many times the bytes of a request are in memory at once: the message, its keys as they are
/// stored, the columns of the answer, and the answer that is being sent.
const HELD: usize = 4;

/// A request of a reader.
pub struct ReceivedRequest {
    /// The kind of the message.
    pub kind: MessageKind,
    /// The content of the message.
    pub payload: Vec<u8>,
    /// The memory of a large request, until it is answered.
    pub memory: Option<Share>,
}

/// Receives a request; none if the reader has disconnected.
///
/// # Errors
/// Those of the connection; `InvalidValue` for a request of more than [`MAX_REQUEST`] bytes,
/// `InvalidState` if readers have no memory for it now.
pub fn receive(
    stream: &mut impl Read,
    memory: &Arc<Budget>,
) -> std::result::Result<Option<ReceivedRequest>, SessionError> {
    let Some((kind, length)) = message::receive_header(stream)? else {
        return Ok(None);
    };
    let memory = admit(length as usize, memory)?;
    let mut in_time = InTime {
        stream,
        deadline: Instant::now() + PATIENCE,
    };
    let payload = frame::read_payload(&mut in_time, length)?;
    Ok(Some(ReceivedRequest {
        kind,
        payload,
        memory,
    }))
}

/// Reserves the memory of a request before it arrives.
fn admit(bytes: usize, memory: &Arc<Budget>) -> Result<Option<Share>> {
    if bytes > MAX_REQUEST {
        let text = format!(
            "a reader's request has {bytes} bytes, and may have at most {MAX_REQUEST}: ask for \
             fewer or smaller keys at once"
        );
        return Err(Error::new(ErrorKind::InvalidValue, text));
    }
    if bytes <= USUAL_REQUEST {
        return Ok(None);
    }
    let mut share = memory.share();
    if share.add(HELD * bytes) {
        let limit = share.limit();
        let advice = if HELD * bytes > limit {
            "Give State(memory=...) more, or ask for smaller keys"
        } else {
            "Read again later, or give State(memory=...) more"
        };
        let text = format!(
            "the state host has no memory for a request of {bytes} bytes: readers may take {limit} \
             bytes. {advice}"
        );
        return Err(Error::new(ErrorKind::InvalidState, text));
    }
    Ok(Some(share))
}

/// A stream whose reads fail after a deadline, even if the peer sends a few bytes at a time. One
/// read may still wait as long as the stream's timeout.
struct InTime<'a, R> {
    stream: &'a mut R,
    deadline: Instant,
}

impl<R: Read> Read for InTime<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refused(bytes: usize, budget: &Arc<Budget>) -> Option<ErrorKind> {
        admit(bytes, budget).err().map(|error| error.kind())
    }

    #[test]
    fn large_requests_need_memory_and_usual_ones_do_not() {
        let budget = Budget::new(HELD << 20);
        let first = admit(1 << 20, &budget).expect("all of the memory");
        assert!(first.is_some());
        assert_eq!(budget.held(), HELD << 20);
        assert_eq!(refused(1 << 20, &budget), Some(ErrorKind::InvalidState));
        assert_eq!(refused(USUAL_REQUEST, &budget), None);
        drop(first);
        assert_eq!(budget.held(), 0);
        assert_eq!(refused(1 << 20, &budget), None);
        let budget = Budget::new(usize::MAX);
        assert_eq!(refused(MAX_REQUEST, &budget), None);
        let error = refused(MAX_REQUEST + 1, &budget);
        assert_eq!(error, Some(ErrorKind::InvalidValue));
    }

    #[test]
    fn request_that_arrives_too_slowly_ends() {
        let mut stream = io::repeat(0);
        let mut read = |deadline| {
            let mut in_time = InTime {
                stream: &mut stream,
                deadline,
            };
            frame::read_payload(&mut in_time, 10).map_err(|error| error.kind())
        };
        let now = Instant::now();
        assert_eq!(read(now), Err(io::ErrorKind::TimedOut));
        assert_eq!(read(now + Duration::from_secs(60)), Ok(vec![0; 10]));
    }
}
