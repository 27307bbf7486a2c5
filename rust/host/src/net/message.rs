//! The messages between a Python worker and its state host. One connection is one session:
//!
//! ```text
//! worker                          host
//! Hello(token)         ------->
//!                      <-------   Welcome
//! Open(JSON)           ------->
//!                      <-------   Opened(JSON), or Moved(JSON): open there, or here again
//! Columns(Arrow IPC) ? ------->
//! Batch(Arrow IPC) *   ------->
//! End                  ------->
//! Call(message)      * ------->
//!                      <-------   Answer(message), one for each Call
//!                      <-------   Output(Arrow IPC) *
//!                      <-------   Staged(JSON)
//! ```
//!
//! Calls are of an operator whose code runs in the worker (`crate::net::call`); the last of them
//! ends the work.
//!
//! A call that was wrong is answered by `Refused(kind, message)`, and the session goes on.
//!
//! `Error(kind, message)` may take the place of any answer of the host and ends the session. The
//! Batch frames of a session together are one Arrow IPC stream (schema message first), so are its
//! Output frames. `Columns` is a stream of its own without batches: with it the host brings the
//! state up while the worker still waits for its first rows. A connection that drops drops the
//! session, which leaves nothing.

use std::io::{self, Read, Write};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{Schema, SchemaRef};
use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::codec::arrow_panics::caught;
use crate::net::frame::{self, Frame};

/// A batch larger than this is sent in slices, so that no frame comes near its limit.
const SPLIT_BYTES: usize = 256 << 20;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The token, the first thing that a worker says.
    Hello = 1,
    /// The session's request, JSON.
    Open = 2,
    /// A piece of the input's Arrow IPC stream.
    Batch = 3,
    /// The end of the input's Arrow IPC stream.
    End = 4,
    /// The input's columns, ahead of its first batch: a whole Arrow IPC stream without batches.
    Columns = 5,
    /// What the worker's own code asks of the session.
    Call = 6,
    /// The token was right.
    Welcome = 65,
    /// The session stands; JSON.
    Opened = 66,
    /// A piece of the output's Arrow IPC stream.
    Output = 67,
    /// The epoch's object is in the log; JSON. The last message.
    Staged = 68,
    /// What went wrong: JSON of kind and message. The last message.
    Error = 69,
    /// What a call found.
    Answer = 70,
    /// Another host owns the session's partition; JSON.
    Moved = 71,
    /// What is wrong with a call, as in `Error`. The session goes on.
    Refused = 72,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::Hello,
        Self::Open,
        Self::Batch,
        Self::End,
        Self::Columns,
        Self::Call,
        Self::Welcome,
        Self::Opened,
        Self::Output,
        Self::Staged,
        Self::Error,
        Self::Answer,
        Self::Moved,
        Self::Refused,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// An error as it crosses the wire.
#[derive(Debug, Serialize, Deserialize)]
struct WireError {
    kind: String,
    message: String,
}

/// Reads the next message; `None` where the peer closed the connection between two messages.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for a message of an unknown kind; those of [`frame::read`].
pub fn receive(stream: &mut impl Read, limit: u32) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let Some(Frame { kind, payload }) = frame::read(stream, limit)? else {
        return Ok(None);
    };
    let kind = Kind::from_byte(kind).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "message type {kind} is unknown: worker and state host are of different versions"
            ),
        )
    })?;
    Ok(Some((kind, payload)))
}

/// Sends one message and flushes it out.
///
/// # Errors
/// Those of [`frame::write`].
pub fn send(stream: &mut impl Write, kind: Kind, payload: &[u8]) -> io::Result<()> {
    frame::write(stream, kind as u8, payload)?;
    stream.flush()
}

/// Sends an error of ours: its kind by name, so that the other side raises the same one.
///
/// # Errors
/// As [`send`].
pub fn send_error(stream: &mut impl Write, kind: Kind, error: &Error) -> io::Result<()> {
    let error = WireError {
        kind: error.kind().name().to_owned(),
        message: error.to_string(),
    };
    send(stream, kind, &serde_json::to_vec(&error)?)
}

/// Sends the columns of an input whose first rows are still to come.
///
/// # Errors
/// [`SendError::Batch`] for what Arrow IPC cannot write; else [`SendError::Stream`].
pub fn send_columns(
    stream: &mut impl Write,
    schema: &Schema,
) -> std::result::Result<(), SendError> {
    let buffers = StreamEncoder::try_new(schema)
        .and_then(StreamEncoder::finish)
        .map_err(encoding)?;
    frame::write_buffers(stream, Kind::Columns as u8, &buffers).map_err(SendError::Stream)?;
    stream.flush().map_err(SendError::Stream)
}

/// The columns that a `Columns` message carries.
///
/// # Errors
/// `Serialization` for bytes that are no such message.
pub fn decode_columns(payload: Vec<u8>) -> Result<SchemaRef> {
    let mut stream = BatchReceiver::default();
    stream.receive(payload)?;
    stream
        .schema()
        .ok_or_else(|| Error::new(ErrorKind::Serialization, "a message of columns has none"))
}

/// The error that an `Error` message carries.
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

/// The sending half of an Arrow IPC stream in frames. The schema goes ahead of the first batch.
#[derive(Default)]
pub struct BatchSender {
    encoder: Option<StreamEncoder>,
}

impl BatchSender {
    /// Sends one batch. Of an empty one only the columns are kept, for the end of the stream.
    ///
    /// Columns go to the stream from where they lie, without a copy and uncompressed: both ends
    /// share a machine, mostly, or a fast network.
    ///
    /// # Errors
    /// [`SendError::Batch`] for a row that no frame takes, or what Arrow IPC cannot write; else
    /// [`SendError::Stream`].
    pub fn send(
        &mut self,
        stream: &mut impl Write,
        kind: Kind,
        batch: &RecordBatch,
    ) -> std::result::Result<(), SendError> {
        if batch.num_rows() > 1
            && batch.get_array_memory_size() > SPLIT_BYTES
            && sliced_size(batch) > SPLIT_BYTES
        {
            let half = batch.num_rows() / 2;
            self.send(stream, kind, &batch.slice(0, half))?;
            return self.send(stream, kind, &batch.slice(half, batch.num_rows() - half));
        }
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(StreamEncoder::try_new(&batch.schema()).map_err(encoding)?),
        };
        // A batch without a body would keep the receiver waiting for one.
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let buffers = encoder.encode(batch).map_err(encoding)?;
        frame::write_buffers(stream, kind as u8, &buffers)
            .map_err(|error| unsent("one row is more than can be sent at once", error))
    }

    /// Ends the stream, so that the receiver knows its columns even if it had no rows.
    ///
    /// # Errors
    /// As `send`.
    pub fn finish(
        &mut self,
        stream: &mut impl Write,
        kind: Kind,
    ) -> std::result::Result<(), SendError> {
        let buffers = match self.encoder.take() {
            Some(encoder) => encoder.finish().map_err(encoding)?,
            None => Vec::new(),
        };
        frame::write_buffers(stream, kind as u8, &buffers).map_err(SendError::Stream)?;
        stream.flush().map_err(SendError::Stream)
    }
}

/// Why a batch was not sent.
#[derive(Debug)]
pub enum SendError {
    /// The peer is gone or the stream broke.
    Stream(io::Error),
    /// The batch itself cannot be sent.
    Batch(Error),
}

pub(crate) fn encoding(error: arrow_schema::ArrowError) -> SendError {
    SendError::Batch(Error::new(
        ErrorKind::Serialization,
        format!("a batch could not be written as Arrow IPC: {error}"),
    ))
}

/// Why a frame was not sent; `too_large` says what to think of one that is larger than its limit,
/// of which nothing was sent.
pub(crate) fn unsent(too_large: &str, error: io::Error) -> SendError {
    match error.kind() {
        io::ErrorKind::InvalidInput => SendError::Batch(Error::new(
            ErrorKind::Serialization,
            format!("{too_large}: {error}"),
        )),
        _ => SendError::Stream(error),
    }
}

/// Bytes of the rows in sight: a slice shares its parent's buffers, so their size says nothing
/// about what is sent.
fn sliced_size(batch: &RecordBatch) -> usize {
    batch
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
        .sum()
}

/// The receiving half of an Arrow IPC stream in frames.
#[derive(Default)]
pub struct BatchReceiver {
    decoder: StreamDecoder,
}

impl BatchReceiver {
    /// The batches of one frame (one, unless a sender of another version packs more), without a
    /// copy of their columns.
    ///
    /// # Errors
    /// `Serialization` for what is no Arrow IPC.
    pub fn receive(&mut self, payload: Vec<u8>) -> Result<Vec<RecordBatch>> {
        let mut buffer = Buffer::from_vec(payload);
        let mut batches = Vec::with_capacity(1);
        while !buffer.is_empty() {
            let batch = caught(|| self.decoder.decode(&mut buffer)).map_err(|error| {
                let error = error.to_string();
                let lower = error.to_ascii_lowercase();
                // Spark's strings are any bytes, Arrow's are not.
                let hint = if lower.contains("utf8") || lower.contains("utf-8") {
                    "; a string column has bytes that are not UTF-8: give it \
                     make_valid_utf8(column), or cast it to binary"
                } else {
                    ""
                };
                let words = format!(
                    "a batch that came over the connection is not readable Arrow IPC: \
                     {error}{hint}"
                );
                Error::new(ErrorKind::Serialization, words)
            })?;
            batches.extend(batch);
        }
        Ok(batches)
    }

    /// The stream's columns, once a frame has told them.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.decoder.schema()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, DictionaryArray, Int64Array, StringArray, types::Int32Type};

    use super::*;

    fn batch() -> RecordBatch {
        let words: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("b"), Some("a")]
            .into_iter()
            .collect();
        RecordBatch::try_from_iter([
            (
                "n",
                Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)])) as ArrayRef,
            ),
            (
                "s",
                Arc::new(StringArray::from(vec![
                    Some("x"),
                    Some(""),
                    None,
                    Some("long enough"),
                ])),
            ),
            ("d", Arc::new(words)),
        ])
        .expect("columns of one length")
    }

    fn through_the_wire(batches: &[RecordBatch]) -> Vec<RecordBatch> {
        let mut bytes = Vec::new();
        let mut sender = BatchSender::default();
        for batch in batches {
            sender.send(&mut bytes, Kind::Batch, batch).expect("sent");
        }
        let mut stream = bytes.as_slice();
        let mut receiver = BatchReceiver::default();
        let mut out = Vec::new();
        while let Some((kind, payload)) =
            receive(&mut stream, frame::MAX_PAYLOAD).expect("whole frames")
        {
            assert_eq!(kind, Kind::Batch);
            out.extend(receiver.receive(payload).expect("readable"));
        }
        out
    }

    #[test]
    fn batches_slices_and_dictionaries_arrive_unchanged() {
        let whole = batch();
        let sent = [whole.clone(), whole.slice(1, 2), whole.slice(3, 1)];
        assert_eq!(through_the_wire(&sent), sent);
    }

    #[test]
    fn empty_batches_are_not_sent() {
        let whole = batch();
        assert_eq!(
            through_the_wire(&[whole.slice(0, 0), whole.clone(), whole.slice(2, 0)]),
            [whole]
        );
    }

    #[test]
    fn the_columns_of_a_stream_without_rows_arrive_at_its_end() {
        let (mut bytes, mut sender) = (Vec::new(), BatchSender::default());
        sender
            .send(&mut bytes, Kind::Batch, &batch().slice(0, 0))
            .expect("sent");
        sender.finish(&mut bytes, Kind::End).expect("sent");
        let (kind, payload) = receive(&mut bytes.as_slice(), frame::MAX_PAYLOAD)
            .expect("whole frames")
            .expect("not the end");
        let mut receiver = BatchReceiver::default();
        assert_eq!(receiver.receive(payload).expect("readable"), []);
        assert_eq!(
            (kind, receiver.schema()),
            (Kind::End, Some(batch().schema()))
        );
    }

    #[test]
    fn columns_arrive_ahead_of_the_first_batch() {
        let mut bytes = Vec::new();
        send_columns(&mut bytes, &batch().schema()).expect("sent");
        let (kind, payload) = receive(&mut bytes.as_slice(), frame::MAX_PAYLOAD)
            .expect("a whole frame")
            .expect("not the end");
        assert_eq!(
            (kind, decode_columns(payload).expect("readable")),
            (Kind::Columns, batch().schema())
        );
        assert!(decode_columns(Vec::new()).is_err(), "no columns");
    }

    #[test]
    fn an_error_keeps_its_kind_and_its_words() {
        let mut bytes = Vec::new();
        send_error(
            &mut bytes,
            Kind::Error,
            &Error::new(ErrorKind::Fenced, "run 7 is newer"),
        )
        .expect("a Vec takes everything");
        let (kind, payload) = receive(&mut bytes.as_slice(), frame::MAX_PAYLOAD)
            .expect("a whole frame")
            .expect("not the end");
        assert_eq!(kind, Kind::Error);
        let error = decode_error(&payload);
        assert_eq!(error.kind().name(), ErrorKind::Fenced.name());
        assert!(error.to_string().contains("run 7 is newer"), "{error}");
    }

    #[test]
    fn damaged_ipc_is_an_error_of_ours() {
        let mut receiver = BatchReceiver::default();
        let error = receiver
            .receive(b"\xff\xff\xff\xff\x08\x00\x00\x00nonsense!".to_vec())
            .expect_err("not Arrow IPC");
        assert_eq!(error.kind().name(), ErrorKind::Serialization.name());
    }
}
