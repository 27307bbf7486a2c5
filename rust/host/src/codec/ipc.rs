//! Arrow IPC streams from files and objects, which may be damaged: that is an error then, whatever
//! lengths they claim.
//!
//! Arrow's own reader reserves what a length says before it looks whether so much is there. Where
//! there is no such memory the process ends, and all sessions of the host with it.

use std::io::Read;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{Message, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};

use crate::codec::arrow_panics::caught;

/// A message's head: four bytes 255, and how long its metadata is.
const HEAD: usize = 8;

/// So much of a part of a message is reserved before it is there.
const AHEAD: u64 = 4 << 20;

/// lz4 makes no more of a byte.
const EXPANSION: i64 = 255;

/// A stream's batches, in order.
pub struct IpcReader<R> {
    from: R,
    decoder: StreamDecoder,
    /// What the decoder has not taken yet of the last message.
    rest: Buffer,
    ended: bool,
}

impl<R: Read> IpcReader<R> {
    /// Reads from the start of a stream.
    pub fn new(from: R) -> Self {
        Self {
            from,
            decoder: StreamDecoder::new(),
            rest: Buffer::default(),
            ended: false,
        }
    }

    /// The next batch; none at the end.
    ///
    /// # Errors
    /// `IoError` for what the disk refuses, others for what is damaged.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            if self.rest.is_empty() {
                let Some(message) = self.message()? else {
                    return Ok(None);
                };
                self.rest = Buffer::from_vec(message);
            }
            let Self { decoder, rest, .. } = self;
            if let Some(batch) = caught(|| decoder.decode(rest))? {
                return Ok(Some(batch));
            }
        }
    }

    /// The stream's columns, once the message behind them was read.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.decoder.schema()
    }

    /// The next message as it lies there: head, metadata, body. The last one is the mark of the
    /// end, a head alone.
    fn message(&mut self) -> Result<Option<Vec<u8>>, ArrowError> {
        let mut bytes = Vec::new();
        if self.ended {
            return Ok(None);
        }
        if self.append(HEAD as u64, &mut bytes)? == 0 {
            return Err(damaged("its end is missing"));
        }
        let &[0xff, 0xff, 0xff, 0xff, a, b, c, d] = bytes.as_slice() else {
            return Err(damaged("a message does not begin there"));
        };
        let length = u32::from_le_bytes([a, b, c, d]);
        self.ended = length == 0;
        if self.ended {
            return Ok(Some(bytes));
        }
        self.append_all(length.into(), &mut bytes)?;
        let body = bytes.len();
        let length = metadata(&bytes[HEAD..])?.bodyLength();
        self.append_all(
            u64::try_from(length).map_err(|_| damaged("a length is negative"))?,
            &mut bytes,
        )?;
        let (head, body) = bytes.split_at(body);
        check_claims(&metadata(&head[HEAD..])?, body)?;
        Ok(Some(bytes))
    }

    /// Reads so many bytes, or what there is of them; returns how many.
    fn append(&mut self, length: u64, bytes: &mut Vec<u8>) -> Result<u64, ArrowError> {
        bytes.reserve(length.min(AHEAD) as usize);
        Ok(self.from.by_ref().take(length).read_to_end(bytes)? as u64)
    }

    fn append_all(&mut self, length: u64, bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.append(length, bytes)? == length {
            Ok(())
        } else {
            Err(damaged("it ends in the middle of a message"))
        }
    }
}

fn metadata(bytes: &[u8]) -> Result<Message<'_>, ArrowError> {
    root_as_message(bytes).map_err(|error| damaged(&error.to_string()))
}

/// Refuses compressed buffers that were larger than lz4 can have made them, by what they say: so
/// much would be reserved.
fn check_claims(message: &Message<'_>, body: &[u8]) -> Result<(), ArrowError> {
    let of_dictionary = || {
        message
            .header_as_dictionary_batch()
            .and_then(|dictionary| dictionary.data())
    };
    let batch = message
        .header_as_record_batch()
        .or_else(of_dictionary)
        .filter(|batch| batch.compression().is_some());
    for buffer in batch
        .and_then(|batch| batch.buffers())
        .into_iter()
        .flatten()
    {
        // What lies outside of the body the decoder finds.
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
                "{} compressed bytes claim to have been {claim}",
                buffer.length()
            )));
        }
    }
    Ok(())
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
    fn a_length_that_is_a_lie_is_an_error_before_so_much_is_reserved() {
        let bytes = stream();
        assert_eq!(rows(&bytes).expect("as it was written"), 1_000);
        assert!(
            rows(&bytes[..bytes.len() - HEAD])
                .expect_err("no end")
                .to_string()
                .contains("end is missing")
        );
        let lie = |at: usize, length: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + length.len()].copy_from_slice(length);
            rows(&bytes).expect_err("a lie").to_string()
        };
        assert!(
            lie(4, &i32::MAX.to_le_bytes()).contains("in the middle"),
            "metadata"
        );
        let claim = bytes
            .windows(8)
            .position(|bytes| bytes == 8_000_i64.to_le_bytes())
            .expect("what the zeros were");
        assert!(
            lie(claim, &i64::MAX.to_le_bytes()).contains("claim"),
            "a column"
        );
        // The second message, which ends where the mark of the end begins.
        let length = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
        };
        let second = HEAD + length(4);
        let body = second + HEAD + length(second + 4);
        let body_length = ((bytes.len() - HEAD - body) as i64).to_le_bytes();
        let place = second
            + bytes[second..body]
                .windows(8)
                .position(|bytes| bytes == body_length)
                .expect("the body's length");
        assert!(
            lie(place, &(i64::MAX >> 8).to_le_bytes()).contains("in the middle"),
            "a body"
        );
    }

    #[test]
    fn a_stream_without_rows_has_columns() {
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
