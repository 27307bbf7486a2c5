//! The messages between a Python worker and its state host. One connection is one session, or
//! serves one reader:
//!
//! ```text
//! worker                              host
//! Hello(token or proof)    ------->
//!                          <-------   Welcome(proof ?)
//! Open(JSON)               ------->
//!                          <-------   Opened(JSON), or Moved(JSON): open there, or here again;
//!                                     or NotServed, to a worker of another executor
//! Columns(Arrow IPC) ?     ------->
//! Batch(Arrow IPC) *       ------->
//! End                      ------->
//! Call(CallMessage)      * ------->
//!                          <-------   Answer(CallMessage), one for each Call
//!                          <-------   Output(Arrow IPC) *
//!                          <-------   Staged(JSON)
//! ```
//!
//! The token of a host opens sessions over its Unix socket only. A worker of another executor sends
//! a proof, and the host's `Welcome` has another ([`crate::net::writer_key`]): the worker sends its
//! request only to a host that has the root's key.
//!
//! A reader sends `Read` ([`crate::net::read`]) or `ReadStored` ([`crate::net::stored_read`]) in
//! place of `Open`. `Refused` in place of `Welcome` means that the host serves too many readers. An
//! `Answer` returns the bytes of an `Echo`, which measures the cost of a message on the connection.
//!
//! Only operators whose code runs in the worker send `Call`s ([`crate::net::call`]); the last
//! `Call` ends the operator.
//!
//! `Refused(kind, message)` answers an invalid call or read; the session or the connection goes on.
//!
//! `Error(kind, message)` may replace any answer of the host and ends the session. The `Batch`
//! frames of a session form one Arrow IPC stream (schema message first), and so do its `Output`
//! frames ([`crate::net::batch_stream`]). `Columns` is a separate stream without batches: it lets
//! the host restore the state while the worker still waits for its first rows. If the connection
//! drops before the epoch is staged, the session ends and leaves no changes.

use std::io::{self, Read, Write};

use holdfast_core::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

use crate::net::OTHER_VERSION;
use crate::net::frame::{self, FrameHeader};

/// The kind of a message: the type byte of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageKind {
    /// A token, or the proof of a worker of another executor; the first message of a connection.
    Hello = 1,
    /// The session's request, JSON.
    Open = 2,
    /// A piece of the input's Arrow IPC stream.
    Batch = 3,
    /// The end of the input's Arrow IPC stream.
    End = 4,
    /// The input's columns before its first batch: a whole Arrow IPC stream without batches.
    Columns = 5,
    /// A call of the operator's code in the worker.
    Call = 6,
    /// A reader's request ([`crate::net::read`]).
    Read = 7,
    /// A reader's bytes, which come back in an `Answer`.
    Echo = 8,
    /// A reader's request for rows as they are stored ([`crate::net::stored_read`]).
    ReadStored = 9,
    /// The token or the proof is accepted; the host's proof, to a worker of another executor.
    Welcome = 65,
    /// The session is open; JSON.
    Opened = 66,
    /// A piece of the output's Arrow IPC stream.
    Output = 67,
    /// The epoch is staged; JSON. The last message.
    Staged = 68,
    /// The session or the connection failed: JSON of kind and message. The last message.
    Error = 69,
    /// The answer to a call, a read or an echo.
    Answer = 70,
    /// Another host owns the session's partition; JSON of the owner and of the root's id.
    Moved = 71,
    /// A call or a read failed, or the host serves too many readers; JSON as in `Error`. A session
    /// goes on after an invalid call.
    Refused = 72,
    /// The host does not serve the session: no task of the host's own executor uses the session's
    /// root with the session's local folder.
    NotServed = 73,
}

impl MessageKind {
    const ALL: [Self; 18] = [
        Self::Hello,
        Self::Open,
        Self::Batch,
        Self::End,
        Self::Columns,
        Self::Call,
        Self::Read,
        Self::Echo,
        Self::ReadStored,
        Self::Welcome,
        Self::Opened,
        Self::Output,
        Self::Staged,
        Self::Error,
        Self::Answer,
        Self::Moved,
        Self::Refused,
        Self::NotServed,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The JSON of an `Error` or `Refused` message.
#[derive(Debug, Serialize, Deserialize)]
struct WireError {
    kind: String,
    message: String,
}

/// Reads the next message; `None` if the peer closed the connection between two messages.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for a message of an unknown kind; those of [`frame::read`].
pub fn receive(stream: &mut impl Read, limit: u32) -> io::Result<Option<(MessageKind, Vec<u8>)>> {
    let Some((kind, length)) = receive_header(stream)? else {
        return Ok(None);
    };
    frame::check_length(length, limit)?;
    Ok(Some((kind, frame::read_payload(stream, length)?)))
}

/// Reads the kind of the next message and the length of its payload, which follows; `None` if the
/// peer closed the connection between two messages.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for a message of an unknown kind; those of
/// [`frame::read_header`].
pub fn receive_header(stream: &mut impl Read) -> io::Result<Option<(MessageKind, u32)>> {
    let Some(FrameHeader { kind, length }) = frame::read_header(stream)? else {
        return Ok(None);
    };
    let kind = MessageKind::from_byte(kind).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("message type {kind} is unknown: {OTHER_VERSION}"),
        )
    })?;
    Ok(Some((kind, length)))
}

/// Sends one message and flushes the stream.
///
/// # Errors
/// Those of [`frame::write`].
pub fn send(stream: &mut impl Write, kind: MessageKind, payload: &[u8]) -> io::Result<()> {
    frame::write(stream, kind as u8, payload)?;
    stream.flush()
}

/// Sends an error with its kind by name; the other side raises the same kind.
///
/// # Errors
/// As [`send`].
pub fn send_error(stream: &mut impl Write, kind: MessageKind, error: &Error) -> io::Result<()> {
    let error = WireError {
        kind: error.kind().name().to_owned(),
        message: error.to_string(),
    };
    send(stream, kind, &serde_json::to_vec(&error)?)
}

/// Decodes the error of an `Error` or `Refused` message.
pub fn decode_error(payload: &[u8]) -> Error {
    match serde_json::from_slice::<WireError>(payload) {
        Ok(error) => Error::new(
            ErrorKind::from_name(&error.kind).unwrap_or(ErrorKind::InvalidState),
            error.message,
        ),
        Err(error) => Error::new(
            ErrorKind::InvalidState,
            format!("the state host sent an error that could not be read: {error}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_keeps_its_kind_and_its_message() {
        let mut bytes = Vec::new();
        send_error(
            &mut bytes,
            MessageKind::Error,
            &Error::new(ErrorKind::Fenced, "run 7 is newer"),
        )
        .expect("a Vec takes everything");
        let (kind, payload) = receive(&mut bytes.as_slice(), frame::MAX_PAYLOAD)
            .expect("a whole frame")
            .expect("not the end");
        assert_eq!(kind, MessageKind::Error);
        let error = decode_error(&payload);
        assert_eq!(error.kind().name(), ErrorKind::Fenced.name());
        assert!(error.to_string().contains("run 7 is newer"), "{error}");
    }
}
