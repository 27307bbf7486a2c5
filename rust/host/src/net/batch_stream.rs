//! Arrow IPC streams in frames: the input and the output of a session, and columns without rows.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use holdfast_core::{Error, ErrorKind, Result};

use crate::codec::arrow_panics::catch_panic;
use crate::codec::ipc::check_messages;
use crate::net::frame;
use crate::net::message::MessageKind;

/// A larger batch is sent in slices, so that frames stay far below their limit.
const SPLIT_BYTES: usize = 256 << 20;

/// Sends the columns of an input before its first rows.
///
/// # Errors
/// [`SendError::Batch`] if Arrow IPC cannot write the columns; otherwise [`SendError::Stream`].
pub fn send_columns(
    stream: &mut impl Write,
    schema: &Schema,
) -> std::result::Result<(), SendError> {
    let buffers = StreamEncoder::try_new(schema)
        .and_then(StreamEncoder::finish)
        .map_err(encode_error)?;
    frame::write_buffers(stream, MessageKind::Columns as u8, &buffers)
        .map_err(SendError::Stream)?;
    stream.flush().map_err(SendError::Stream)
}

/// Decodes the columns of a `Columns` message.
///
/// # Errors
/// `Serialization` if the payload is not an Arrow IPC stream with columns.
pub fn decode_columns(payload: Vec<u8>) -> Result<SchemaRef> {
    let mut stream = BatchReceiver::default();
    stream.receive(payload)?;
    stream
        .schema()
        .ok_or_else(|| Error::new(ErrorKind::Serialization, "a message of columns has none"))
}

/// The sending half of an Arrow IPC stream in frames. The schema precedes the first batch.
#[derive(Default)]
pub struct BatchSender {
    encoder: Option<StreamEncoder>,
}

impl BatchSender {
    /// Sends one batch. An empty batch only sets the columns, which `finish` sends.
    ///
    /// Buffers are written without a copy and uncompressed: both ends usually share a machine, or
    /// at least a fast network.
    ///
    /// # Errors
    /// [`SendError::Batch`] for a row larger than a frame, or a batch that Arrow IPC cannot write;
    /// otherwise [`SendError::Stream`].
    pub fn send(
        &mut self,
        stream: &mut impl Write,
        kind: MessageKind,
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
            none => none.insert(StreamEncoder::try_new(&batch.schema()).map_err(encode_error)?),
        };
        // A batch without rows has no body, but the decoder would wait for one.
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let buffers = encoder.encode(batch).map_err(encode_error)?;
        frame::write_buffers(stream, kind as u8, &buffers)
            .map_err(|error| write_error("one row is more than can be sent at once", error))
    }

    /// Ends the stream; the receiver then knows its columns if a batch was sent, even one without
    /// rows.
    ///
    /// # Errors
    /// As [`BatchSender::send`].
    pub fn finish(
        &mut self,
        stream: &mut impl Write,
        kind: MessageKind,
    ) -> std::result::Result<(), SendError> {
        let buffers = match self.encoder.take() {
            Some(encoder) => encoder.finish().map_err(encode_error)?,
            None => Vec::new(),
        };
        frame::write_buffers(stream, kind as u8, &buffers).map_err(SendError::Stream)?;
        stream.flush().map_err(SendError::Stream)
    }
}

/// Why a batch was not sent.
#[derive(Debug)]
pub enum SendError {
    /// The connection failed.
    Stream(io::Error),
    /// The batch itself cannot be sent.
    Batch(Error),
}

pub(crate) fn encode_error(error: ArrowError) -> SendError {
    SendError::Batch(Error::new(
        ErrorKind::Serialization,
        format!("a batch could not be written as Arrow IPC: {error}"),
    ))
}

/// Maps a failed frame write. If the frame is above the limit, nothing of it was sent, and the
/// result is [`SendError::Batch`] with a message that begins with `too_large`.
pub(crate) fn write_error(too_large: &str, error: io::Error) -> SendError {
    match error.kind() {
        io::ErrorKind::InvalidInput => SendError::Batch(Error::new(
            ErrorKind::Serialization,
            format!("{too_large}: {error}"),
        )),
        _ => SendError::Stream(error),
    }
}

/// The bytes that are sent for a batch. A slice shares its parent's buffers, so the size of the
/// buffers is too large an estimate.
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
    /// Decodes the batches of one frame without copying their columns.
    ///
    /// There is at most one batch, unless a sender of another version packs more.
    ///
    /// # Errors
    /// `Serialization` if the payload is not Arrow IPC.
    pub fn receive(&mut self, payload: Vec<u8>) -> Result<Vec<RecordBatch>> {
        check_messages(&payload).map_err(|error| not_readable(&error))?;
        let mut buffer = Buffer::from_vec(payload);
        let mut batches = Vec::with_capacity(1);
        while !buffer.is_empty() {
            let batch = catch_panic(|| self.decoder.decode(&mut buffer));
            batches.extend(batch.map_err(|error| not_readable(&error))?);
        }
        Ok(batches)
    }

    /// The stream's columns, once a frame with them was received.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.decoder.schema()
    }
}

fn not_readable(error: &ArrowError) -> Error {
    let error = error.to_string();
    let lower = error.to_ascii_lowercase();
    // Spark's strings may be invalid UTF-8; Arrow's must be valid.
    let hint = if lower.contains("utf8") || lower.contains("utf-8") {
        "; a string column has bytes that are not UTF-8: use make_valid_utf8(column), or cast \
         it to binary"
    } else {
        ""
    };
    let text =
        format!("a batch that came over the connection is not readable Arrow IPC: {error}{hint}");
    Error::new(ErrorKind::Serialization, text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, DictionaryArray, Int64Array, StringArray, types::Int32Type};

    use super::*;
    use crate::net::message;

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
            sender
                .send(&mut bytes, MessageKind::Batch, batch)
                .expect("sent");
        }
        let mut stream = bytes.as_slice();
        let mut receiver = BatchReceiver::default();
        let mut out = Vec::new();
        while let Some((kind, payload)) =
            message::receive(&mut stream, frame::MAX_PAYLOAD).expect("whole frames")
        {
            assert_eq!(kind, MessageKind::Batch);
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
    fn end_of_stream_without_rows_carries_its_columns() {
        let (mut bytes, mut sender) = (Vec::new(), BatchSender::default());
        sender
            .send(&mut bytes, MessageKind::Batch, &batch().slice(0, 0))
            .expect("sent");
        sender.finish(&mut bytes, MessageKind::End).expect("sent");
        let (kind, payload) = message::receive(&mut bytes.as_slice(), frame::MAX_PAYLOAD)
            .expect("whole frames")
            .expect("not the end");
        let mut receiver = BatchReceiver::default();
        assert_eq!(receiver.receive(payload).expect("readable"), []);
        assert_eq!(
            (kind, receiver.schema()),
            (MessageKind::End, Some(batch().schema()))
        );
    }

    #[test]
    fn columns_arrive_before_the_first_batch() {
        let mut bytes = Vec::new();
        send_columns(&mut bytes, &batch().schema()).expect("sent");
        let (kind, payload) = message::receive(&mut bytes.as_slice(), frame::MAX_PAYLOAD)
            .expect("a whole frame")
            .expect("not the end");
        assert_eq!(
            (kind, decode_columns(payload).expect("readable")),
            (MessageKind::Columns, batch().schema())
        );
        assert!(decode_columns(Vec::new()).is_err(), "no columns");
    }

    #[test]
    fn damaged_ipc_is_a_serialization_error() {
        let mut receiver = BatchReceiver::default();
        let error = receiver
            .receive(b"\xff\xff\xff\xff\x08\x00\x00\x00nonsense!".to_vec())
            .expect_err("not Arrow IPC");
        assert_eq!(error.kind().name(), ErrorKind::Serialization.name());
    }
}
