//! A batch with words: what a worker's own code asks of its session (`Call`), and what it hears
//! (`Answer`).
//!
//! As bytes it is one Arrow IPC stream of no or one batch, the words being its schema's metadata.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::Schema;
use holdfast_core::{Error, ErrorKind, Result};

use crate::codec::arrow_panics::caught;
use crate::net::frame;
use crate::net::message::{BatchReceiver, Kind, SendError, encoding, unsent};

/// A batch with words.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Words by name.
    pub words: HashMap<String, String>,
    /// Rows; none where words say it all.
    pub batch: RecordBatch,
}

impl Message {
    /// A batch without words.
    #[must_use]
    pub fn of(batch: RecordBatch) -> Self {
        Self {
            words: HashMap::new(),
            batch,
        }
    }

    /// Words without a batch.
    #[must_use]
    pub fn empty() -> Self {
        Self::of(RecordBatch::new_empty(Arc::new(Schema::empty())))
    }

    /// The same with one more word.
    #[must_use]
    pub fn with(mut self, name: &str, word: impl ToString) -> Self {
        self.words.insert(name.to_owned(), word.to_string());
        self
    }

    /// A word.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        self.words.get(name).map(String::as_str)
    }

    /// A word that must be there.
    ///
    /// # Errors
    /// `InvalidState` for one that is missing or not of this type.
    pub fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        self.word(name)
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| {
                let words = format!(
                    "a call says {:?} for {name}: worker and host are of different versions",
                    self.word(name)
                );
                Error::new(ErrorKind::InvalidState, words)
            })
    }

    /// A word that may be missing.
    ///
    /// # Errors
    /// `InvalidState` for one that is not of this type.
    pub fn parsed_if_there<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.word(name).map(|_| self.parsed(name)).transpose()
    }

    /// Sends it and flushes it out.
    ///
    /// # Errors
    /// [`SendError::Batch`] for more than a frame takes, or what Arrow IPC cannot write; else
    /// [`SendError::Stream`].
    pub fn send(&self, stream: &mut impl Write, kind: Kind) -> std::result::Result<(), SendError> {
        let schema =
            Schema::new(self.batch.schema_ref().fields().clone()).with_metadata(self.words.clone());
        let mut encoder = StreamEncoder::try_new(&schema).map_err(encoding)?;
        // A batch without a body would keep the receiver waiting for one.
        let mut buffers = if self.batch.num_rows() == 0 {
            Vec::new()
        } else {
            encoder.encode(&self.batch).map_err(encoding)?
        };
        buffers.extend(encoder.finish().map_err(encoding)?);
        let too_large = "what a call gives or asks for is more than can be sent at once, so give \
                         or ask for fewer rows at once";
        frame::write_buffers(stream, kind as u8, &buffers)
            .map_err(|error| unsent(too_large, error))?;
        stream.flush().map_err(SendError::Stream)
    }

    /// Reads what `send` has sent.
    ///
    /// # Errors
    /// `Serialization` for bytes that are no such message.
    pub fn decode(payload: Vec<u8>) -> Result<Self> {
        let mut stream = BatchReceiver::default();
        let batch = stream.receive(payload)?.pop();
        let schema = stream.schema().ok_or_else(|| {
            Error::new(
                ErrorKind::Serialization,
                "a message has no columns and no words",
            )
        })?;
        let words = schema.metadata().clone();
        // Columns that are damaged may be none that there are rows of, not even no rows.
        let batch = batch.map_or_else(|| caught(|| Ok(RecordBatch::new_empty(schema))), Ok);
        let batch = batch.map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("a message's columns cannot be read: {error}"),
            )
        })?;
        Ok(Self { words, batch })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, BinaryArray, Int64Array};

    use super::*;
    use crate::net::message;

    fn through_the_wire(message: &Message) -> Message {
        let mut bytes = Vec::new();
        message.send(&mut bytes, Kind::Call).expect("sent");
        let (kind, payload) = message::receive(&mut bytes.as_slice(), frame::MAX_PAYLOAD)
            .expect("a whole frame")
            .expect("not the end");
        assert_eq!(kind, Kind::Call);
        Message::decode(payload).expect("readable")
    }

    #[test]
    fn words_and_rows_arrive_also_without_each_other() {
        let rows =
            RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)])
                .expect("one column");
        let arrived = through_the_wire(&Message::of(rows.clone()).with("method", "get"));
        assert_eq!(
            (arrived.word("method"), arrived.batch.columns()),
            (Some("get"), rows.columns())
        );
        let arrived = through_the_wire(&Message::of(rows.slice(0, 0)));
        assert_eq!(
            (arrived.batch.num_rows(), arrived.batch.num_columns()),
            (0, 1)
        );
        let arrived = through_the_wire(&Message::empty().with("cursor", 7));
        assert_eq!(arrived.parsed::<u64>("cursor").expect("a number"), 7);
        assert!(
            arrived
                .parsed::<u64>("rows")
                .expect_err("no such word")
                .to_string()
                .contains("rows")
        );
    }

    #[test]
    fn one_that_no_frame_takes_is_no_lost_connection() {
        // The columns share their bytes, so they are only many on the wire.
        let large: ArrayRef = Arc::new(BinaryArray::from_iter_values([vec![0; 64 << 20]]));
        let columns = (0..17).map(|column| (column.to_string(), Arc::clone(&large)));
        let message =
            Message::of(RecordBatch::try_from_iter(columns).expect("columns of one length"));
        match message.send(&mut std::io::sink(), Kind::Answer) {
            Err(SendError::Batch(error)) => {
                assert_eq!(error.kind(), ErrorKind::Serialization);
                assert!(
                    error.to_string().contains("fewer rows")
                        && error.to_string().contains("limit of"),
                    "{error}"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nonsense_is_an_error_of_ours() {
        assert!(Message::decode(Vec::new()).is_err());
        assert!(Message::decode(b"\xff\xff\xff\xff\x08\x00\x00\x00nonsense!".to_vec()).is_err());
    }
}
