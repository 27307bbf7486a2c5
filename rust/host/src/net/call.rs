//! Calls of an operator's code in the worker to its session, and the answers.
//!
//! Encoded, a call is one Arrow IPC stream of at most one batch. Its attributes are the metadata of
//! the stream's schema.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::Schema;
use holdfast_core::{Error, ErrorKind, Result};

use crate::codec::arrow_panics::catch_panic;
use crate::net::OTHER_VERSION;
use crate::net::batch_stream::{BatchReceiver, SendError, encode_error, write_error};
use crate::net::frame;
use crate::net::message::MessageKind;

/// A call or its answer: named attributes and a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct CallMessage {
    /// Attributes by name.
    pub attributes: HashMap<String, String>,
    /// Rows; a batch without columns if the attributes are enough.
    pub batch: RecordBatch,
}

impl CallMessage {
    /// A batch without attributes.
    #[must_use]
    pub fn of(batch: RecordBatch) -> Self {
        Self {
            attributes: HashMap::new(),
            batch,
        }
    }

    /// No attributes and no batch.
    #[must_use]
    pub fn empty() -> Self {
        Self::of(RecordBatch::new_empty(Arc::new(Schema::empty())))
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.attributes.insert(name.to_owned(), value.to_string());
        self
    }

    /// An attribute, if it is set.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// A required attribute, parsed.
    ///
    /// # Errors
    /// `InvalidState` if it is missing or not of this type.
    pub fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        self.attribute(name)
            .and_then(|value| value.parse().ok())
            .ok_or_else(|| {
                let value = self.attribute(name).unwrap_or("nothing");
                let text = format!("a call has {value} as its {name}: {OTHER_VERSION}");
                Error::new(ErrorKind::InvalidState, text)
            })
    }

    /// An optional attribute, parsed.
    ///
    /// # Errors
    /// `InvalidState` if it is set and not of this type.
    pub fn parsed_if_present<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.attribute(name).map(|_| self.parsed(name)).transpose()
    }

    /// Sends the call or answer and flushes the stream.
    ///
    /// # Errors
    /// [`SendError::Batch`] if it is larger than a frame or Arrow IPC cannot write it; otherwise
    /// [`SendError::Stream`].
    pub fn send(
        &self,
        stream: &mut impl Write,
        kind: MessageKind,
    ) -> std::result::Result<(), SendError> {
        let buffers = self.encode()?;
        let too_large = "what a call gives or asks for is more than can be sent at once, so give \
                         or ask for fewer rows at once";
        frame::write_buffers(stream, kind as u8, &buffers)
            .map_err(|error| write_error(too_large, error))?;
        stream.flush().map_err(SendError::Stream)
    }

    /// Encodes the call or answer, as a payload in several buffers.
    ///
    /// # Errors
    /// [`SendError::Batch`] if Arrow IPC cannot write it.
    pub fn encode(&self) -> std::result::Result<Vec<Buffer>, SendError> {
        let schema = Schema::new(self.batch.schema_ref().fields().clone())
            .with_metadata(self.attributes.clone());
        let mut encoder = StreamEncoder::try_new(&schema).map_err(encode_error)?;
        // A batch without rows has no body, but the decoder would wait for one.
        let mut buffers = if self.batch.num_rows() == 0 {
            Vec::new()
        } else {
            encoder.encode(&self.batch).map_err(encode_error)?
        };
        buffers.extend(encoder.finish().map_err(encode_error)?);
        Ok(buffers)
    }

    /// Decodes the payload that [`CallMessage::send`] writes.
    ///
    /// # Errors
    /// `Serialization` if the payload is not such a message.
    pub fn decode(payload: Vec<u8>) -> Result<Self> {
        let mut stream = BatchReceiver::default();
        let batch = stream.receive(payload)?.pop();
        let schema = stream.schema().ok_or_else(|| {
            Error::new(
                ErrorKind::Serialization,
                "a call or its answer has no schema",
            )
        })?;
        let attributes = schema.metadata().clone();
        // Arrow may panic on the types of a damaged schema, even for a batch without rows.
        let batch = batch.map_or_else(|| catch_panic(|| Ok(RecordBatch::new_empty(schema))), Ok);
        let batch = batch.map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("a message's columns cannot be read: {error}"),
            )
        })?;
        Ok(Self { attributes, batch })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, BinaryArray, Int64Array};

    use super::*;
    use crate::net::message;

    fn through_the_wire(message: &CallMessage) -> CallMessage {
        let mut bytes = Vec::new();
        message.send(&mut bytes, MessageKind::Call).expect("sent");
        let (kind, payload) = message::receive(&mut bytes.as_slice(), frame::MAX_PAYLOAD)
            .expect("a whole frame")
            .expect("not the end");
        assert_eq!(kind, MessageKind::Call);
        CallMessage::decode(payload).expect("readable")
    }

    #[test]
    fn attributes_and_rows_arrive_together_and_alone() {
        let rows =
            RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)])
                .expect("one column");
        let arrived = through_the_wire(&CallMessage::of(rows.clone()).with("method", "get"));
        assert_eq!(
            (arrived.attribute("method"), arrived.batch.columns()),
            (Some("get"), rows.columns())
        );
        let arrived = through_the_wire(&CallMessage::of(rows.slice(0, 0)));
        assert_eq!(
            (arrived.batch.num_rows(), arrived.batch.num_columns()),
            (0, 1)
        );
        let arrived = through_the_wire(&CallMessage::empty().with("cursor", 7));
        assert_eq!(arrived.parsed::<u64>("cursor").expect("a number"), 7);
        assert!(
            arrived
                .parsed::<u64>("rows")
                .expect_err("no such attribute")
                .to_string()
                .contains("rows")
        );
    }

    #[test]
    fn message_above_the_frame_limit_is_not_a_lost_connection() {
        // The columns share one buffer, so only the message is large.
        let large: ArrayRef = Arc::new(BinaryArray::from_iter_values([vec![0; 64 << 20]]));
        let columns = (0..17).map(|column| (column.to_string(), Arc::clone(&large)));
        let message =
            CallMessage::of(RecordBatch::try_from_iter(columns).expect("columns of one length"));
        match message.send(&mut std::io::sink(), MessageKind::Answer) {
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
    fn damaged_payload_is_an_error() {
        assert!(CallMessage::decode(Vec::new()).is_err());
        assert!(
            CallMessage::decode(b"\xff\xff\xff\xff\x08\x00\x00\x00nonsense!".to_vec()).is_err()
        );
    }
}
