//! Reads Arrow IPC streams from files and objects, which may be damaged. Damage is an error, even
//! if a length in the stream is wrong.
//!
//! Arrow's reader reserves the memory that a length claims before it reads the bytes. A wrong
//! length could exhaust memory and end the process with all sessions of the host.
//!
//! The messages of peers are in memory already. [`check_messages`] checks them before Arrow reads
//! them.

use std::io::Read;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{Message, root_as_message, root_as_message_with_opts};
use arrow_schema::{ArrowError, SchemaRef};
use flatbuffers::VerifierOptions;

use crate::codec::arrow_panics::catch_panic;

/// The length of a message's prefix in bytes: `ff ff ff ff`, then the length of the metadata.
const PREFIX: usize = 8;

/// The most memory that is reserved before the bytes are read.
const MAX_RESERVED: u64 = 4 << 20;

/// The maximum number of bytes that lz4 decompresses one byte to.
const EXPANSION: i64 = 255;

/// Reads the batches of a stream in order.
pub struct IpcReader<R> {
    source: R,
    decoder: StreamDecoder,
    /// The part of the last message that the decoder has not read yet.
    rest: Buffer,
    ended: bool,
}

impl<R: Read> IpcReader<R> {
    /// Reads from the start of a stream.
    pub fn new(source: R) -> Self {
        Self {
            source,
            decoder: StreamDecoder::new(),
            rest: Buffer::default(),
            ended: false,
        }
    }

    /// Returns the next batch; `None` at the end.
    ///
    /// # Errors
    /// `IoError` if reading fails; other errors if the stream is damaged.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            if self.rest.is_empty() {
                let Some(message) = self.message()? else {
                    return Ok(None);
                };
                self.rest = Buffer::from_vec(message);
            }
            let Self { decoder, rest, .. } = self;
            if let Some(batch) = catch_panic(|| decoder.decode(rest))? {
                return Ok(Some(batch));
            }
        }
    }

    /// The stream's columns, once the schema message was decoded.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.decoder.schema()
    }

    /// Reads the next message whole: prefix, metadata, body. The last message marks the end of the
    /// stream and has only a prefix.
    fn message(&mut self) -> Result<Option<Vec<u8>>, ArrowError> {
        let mut bytes = Vec::new();
        if self.ended {
            return Ok(None);
        }
        if self.append(PREFIX as u64, &mut bytes)? == 0 {
            return Err(damaged("the stream's end is missing"));
        }
        let &[0xff, 0xff, 0xff, 0xff, a, b, c, d] = bytes.as_slice() else {
            return Err(damaged("the bytes are not the start of a message"));
        };
        let length = u32::from_le_bytes([a, b, c, d]);
        self.ended = length == 0;
        if self.ended {
            return Ok(Some(bytes));
        }
        self.append_all(length.into(), &mut bytes)?;
        let body_start = bytes.len();
        let length = metadata(&bytes[PREFIX..])?.bodyLength();
        self.append_all(
            u64::try_from(length).map_err(|_| damaged("a length is negative"))?,
            &mut bytes,
        )?;
        let (head, body) = bytes.split_at(body_start);
        check_claims(&metadata(&head[PREFIX..])?, body)?;
        Ok(Some(bytes))
    }

    /// Reads up to `length` bytes and returns how many there were.
    fn append(&mut self, length: u64, bytes: &mut Vec<u8>) -> Result<u64, ArrowError> {
        bytes.reserve(length.min(MAX_RESERVED) as usize);
        Ok(self.source.by_ref().take(length).read_to_end(bytes)? as u64)
    }

    fn append_all(&mut self, length: u64, bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.append(length, bytes)? == length {
            Ok(())
        } else {
            Err(damaged("the stream ends in the middle of a message"))
        }
    }
}

fn metadata(bytes: &[u8]) -> Result<Message<'_>, ArrowError> {
    root_as_message(bytes).map_err(|error| damaged(&error.to_string()))
}

/// Rejects compressed buffers that claim a larger uncompressed size than lz4 can produce.
///
/// The decoder would reserve memory of the claimed size.
fn check_claims(message: &Message<'_>, body: &[u8]) -> Result<(), ArrowError> {
    let batch = rows_of(message).filter(|batch| batch.compression().is_some());
    for buffer in batch
        .and_then(|batch| batch.buffers())
        .into_iter()
        .flatten()
    {
        // The decoder rejects buffers outside the body.
        let (start, length) = (
            usize::try_from(buffer.offset()),
            usize::try_from(buffer.length()),
        );
        let compressed = start
            .ok()
            .and_then(|start| body.get(start..)?.get(..length.ok()?));
        let claim = compressed
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |claim| i64::from_le_bytes(*claim));
        if claim > buffer.length().saturating_mul(EXPANSION) {
            return Err(damaged(&format!(
                "{} compressed bytes claim an uncompressed size of {claim}",
                buffer.length()
            )));
        }
    }
    Ok(())
}

/// The minimum number of metadata bytes for each table in a message. A field of a schema is two
/// tables, and has 24 bytes.
const TABLE_BYTES: usize = 8;
/// The maximum ratio of the metadata's apparent size to its length. The apparent size counts a part
/// of the metadata each time that it is referred to.
const REPEATED: usize = 16;

/// Checks whole messages of a peer. Decoded messages must not take much more memory than their
/// bytes.
///
/// No peer compresses its messages. Metadata may refer to the same table more than once: a few
/// bytes could describe a million columns.
///
/// # Errors
/// `IpcError` for bytes that are no such messages.
pub fn check_messages(mut bytes: &[u8]) -> Result<(), ArrowError> {
    while let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() {
        let &[0xff, 0xff, 0xff, 0xff, a, b, c, d] = prefix else {
            return Err(damaged("the bytes are not the start of a message"));
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length == 0 {
            bytes = rest;
            continue;
        }
        let cut = || damaged("the bytes end in the middle of a message");
        let (metadata, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        let limits = VerifierOptions {
            max_tables: length / TABLE_BYTES,
            max_apparent_size: length.saturating_mul(REPEATED),
            ..VerifierOptions::default()
        };
        let message = root_as_message_with_opts(&limits, metadata)
            .map_err(|error| damaged(&error.to_string()))?;
        if rows_of(&message).is_some_and(|rows| rows.compression().is_some()) {
            return Err(damaged("a message is compressed"));
        }
        let body = usize::try_from(message.bodyLength()).ok();
        bytes = body.and_then(|body| rest.get(body..)).ok_or_else(cut)?;
    }
    if bytes.is_empty() {
        Ok(())
    } else {
        Err(damaged("the bytes end in the middle of a message"))
    }
}

/// The rows of a message, or those of its dictionary.
fn rows_of<'a>(message: &Message<'a>) -> Option<arrow_ipc::RecordBatch<'a>> {
    message.header_as_record_batch().or_else(|| {
        let dictionary = message.header_as_dictionary_batch()?;
        dictionary.data()
    })
}

fn damaged(why: &str) -> ArrowError {
    ArrowError::IpcError(why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};

    use super::*;

    /// A batch of a thousand zeros.
    fn stream() -> Vec<u8> {
        let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; 1_000]));
        let batch = RecordBatch::try_from_iter([("n", zeros)]).expect("a column");
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::LZ4_FRAME))
            .expect("lz4");
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options)
            .expect("a writer");
        writer.write(&batch).expect("writes");
        writer.into_inner().expect("ends")
    }

    fn rows(bytes: &[u8]) -> Result<usize, ArrowError> {
        let mut reader = IpcReader::new(bytes);
        std::iter::from_fn(|| reader.next_batch().transpose())
            .map(|batch| batch.map(|batch| batch.num_rows()))
            .sum()
    }

    #[test]
    fn wrong_length_is_an_error_before_memory_is_reserved() {
        let bytes = stream();
        assert_eq!(rows(&bytes).expect("as it was written"), 1_000);
        assert!(
            rows(&bytes[..bytes.len() - PREFIX])
                .expect_err("no end")
                .to_string()
                .contains("end is missing")
        );
        let damaged_at = |at: usize, length: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + length.len()].copy_from_slice(length);
            rows(&bytes).expect_err("a wrong length").to_string()
        };
        assert!(
            damaged_at(4, &i32::MAX.to_le_bytes()).contains("in the middle"),
            "metadata"
        );
        let claim = bytes
            .windows(8)
            .position(|bytes| bytes == 8_000_i64.to_le_bytes())
            .expect("the uncompressed length of the zeros");
        assert!(
            damaged_at(claim, &i64::MAX.to_le_bytes()).contains("claim"),
            "a column"
        );
        // The second message ends where the end marker of the stream begins.
        let length = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
        };
        let second = PREFIX + length(4);
        let body = second + PREFIX + length(second + 4);
        let body_length = ((bytes.len() - PREFIX - body) as i64).to_le_bytes();
        let place = second
            + bytes[second..body]
                .windows(8)
                .position(|bytes| bytes == body_length)
                .expect("the body's length");
        assert!(
            damaged_at(place, &(i64::MAX >> 8).to_le_bytes()).contains("in the middle"),
            "a body"
        );
    }

    #[test]
    fn stream_without_rows_has_columns() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![0; 0]));
        let schema = RecordBatch::try_from_iter([("n", column)])
            .expect("a column")
            .schema();
        let bytes = StreamWriter::try_new(Vec::<u8>::new(), &schema)
            .and_then(StreamWriter::into_inner)
            .expect("a stream");
        let mut reader = IpcReader::new(bytes.as_slice());
        assert!(reader.next_batch().expect("as it was written").is_none());
        assert_eq!(reader.schema(), Some(schema));
    }
}
