//! How large the requests of readers are, and how the keys of a read are divided over several.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use holdfast_core::Result;
use serde::Serialize;

use crate::net::batch_stream::SendError;
use crate::net::call::CallMessage;
use crate::net::frame;
use crate::net::message::MessageKind;
use crate::net::read::{self, READ, ReadRequest};

/// The most bytes of a reader's request: as many as a batch of its answer has. Only a key, a bound
/// or a list of columns may need so many, since many keys are divided over several requests.
pub const MAX_REQUEST: usize = 4 << 20;

/// The most bytes of a usual request. A host accepts these on each connection. It asks its memory
/// budget for larger requests only.
pub const USUAL_REQUEST: usize = 64 << 10;

/// The bytes of keys that a request may always have, even if the rest of the request is large.
const LEAST_KEYS: usize = 16 << 10;

/// A request, encoded.
pub struct EncodedRequest {
    buffers: Vec<Buffer>,
    length: usize,
}

impl EncodedRequest {
    /// Encodes a request with the keys or bounds beside it.
    ///
    /// # Errors
    /// `Serialization` if it cannot be encoded.
    pub fn new<C: Serialize>(
        request: &ReadRequest<C>,
        batch: Option<&RecordBatch>,
    ) -> Result<Self> {
        let message = batch.map_or_else(CallMessage::empty, |batch| CallMessage::of(batch.clone()));
        let message = message.with(READ, read::json(request)?);
        let buffers = message.encode().map_err(|error| match error {
            SendError::Batch(error) => error,
            SendError::Stream(error) => read::not_written(&error),
        })?;
        let length = buffers.iter().map(Buffer::len).sum();
        Ok(Self { buffers, length })
    }

    /// Encodes a read of keys as several requests, in the order of the keys: usual ones, unless a
    /// single key or the rest of the request is large.
    ///
    /// # Errors
    /// As [`EncodedRequest::new`].
    pub fn of_keys<C: Serialize>(
        request: &ReadRequest<C>,
        keys: &RecordBatch,
    ) -> Result<Vec<Self>> {
        let without_keys = Self::new(request, Some(&keys.slice(0, 0)))?.length;
        let most = USUAL_REQUEST.saturating_sub(without_keys).max(LEAST_KEYS);
        let mut requests = Vec::new();
        // The next keys are in the last part.
        let mut parts = vec![keys.clone()];
        while let Some(part) = parts.pop() {
            let encoded = Self::new(request, Some(&part))?;
            let (rows, bytes) = (part.num_rows(), encoded.length - without_keys);
            if bytes <= most || rows == 1 {
                requests.push(encoded);
                continue;
            }
            // The count follows from the average size of a key. It is a little lower, because some
            // keys are larger.
            let fitting = rows.saturating_mul(most - most / 8) / bytes;
            let each = fitting.clamp(1, rows / 2);
            let starts = (0..rows).step_by(each).rev();
            parts.extend(starts.map(|start| part.slice(start, each.min(rows - start))));
        }
        Ok(requests)
    }

    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether it is not larger than usual.
    pub fn is_usual(&self) -> bool {
        self.length <= USUAL_REQUEST
    }

    /// Sends the request and flushes the stream.
    ///
    /// # Errors
    /// As [`frame::write_buffers`].
    pub fn send(&self, stream: &mut impl Write) -> io::Result<()> {
        frame::write_buffers(stream, MessageKind::Read as u8, &self.buffers)?;
        stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::{ArrayRef, StringArray};

    use super::*;

    fn request(call: &str) -> ReadRequest<String> {
        ReadRequest::Rows {
            view: 1,
            store: "table".to_owned(),
            call: call.to_owned(),
        }
    }

    /// Divides keys; returns the keys of each request, and its bytes.
    fn divided(call: &str, keys: &[String]) -> Vec<(Vec<String>, usize)> {
        let column: ArrayRef = Arc::new(StringArray::from_iter_values(keys));
        let batch = RecordBatch::try_from_iter([("key", column)]).expect("a column");
        let requests = EncodedRequest::of_keys(&request(call), &batch).expect("encoded");
        let decoded = requests.iter().map(|encoded| {
            let mut frame = Vec::new();
            encoded.send(&mut frame).expect("a Vec takes everything");
            assert_eq!(frame.len(), 5 + encoded.length());
            let message = CallMessage::decode(frame.split_off(5)).expect("a message");
            let asked: ReadRequest<String> =
                read::parse(message.attribute(READ)).expect("a request");
            assert_eq!(asked, request(call));
            let keys = message.batch["key"].as_string::<i32>();
            let keys = keys.iter().flatten().map(str::to_owned).collect();
            (keys, encoded.length())
        });
        decoded.collect()
    }

    #[test]
    fn many_keys_are_divided_over_usual_requests_in_their_order() {
        let keys: Vec<String> = (0..50_000).map(|n| format!("{n:020}")).collect();
        let requests = divided("", &keys);
        // 24 bytes for each key.
        let least = keys.len() * 24 / USUAL_REQUEST;
        assert!(
            (least..least + least / 3).contains(&requests.len()),
            "{}",
            requests.len()
        );
        assert!(requests.iter().all(|(_, bytes)| *bytes <= USUAL_REQUEST));
        let all: Vec<String> = requests.into_iter().flat_map(|(keys, _)| keys).collect();
        assert_eq!(all, keys);
    }

    #[test]
    fn large_key_has_a_request_of_its_own() {
        let mut keys: Vec<String> = (0..5_000).map(|n| format!("{n:020}")).collect();
        keys[1_234] = "k".repeat(1 << 20);
        let requests = divided("", &keys);
        let large: Vec<&(Vec<String>, usize)> = requests
            .iter()
            .filter(|(_, bytes)| *bytes > USUAL_REQUEST)
            .collect();
        assert_eq!(large.len(), 1);
        assert_eq!(large[0].0, [keys[1_234].clone()]);
        let all: Vec<String> = requests.into_iter().flat_map(|(keys, _)| keys).collect();
        assert_eq!(all, keys);
    }

    #[test]
    fn long_list_of_columns_does_not_divide_keys_into_tiny_requests() {
        let keys: Vec<String> = (0..1_000).map(|n| format!("{n:020}")).collect();
        assert_eq!(divided(&"c".repeat(100_000), &keys).len(), 2);
        assert_eq!(divided("", &[]).len(), 1);
    }
}
