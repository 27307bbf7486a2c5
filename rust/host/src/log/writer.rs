//! Collects an epoch's records in Arrow builders, and computes the digest on the way.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int16Builder, Int64Builder};
use arrow_array::{DictionaryArray, RecordBatch, StringArray};
use holdfast_core::{Error, ErrorKind, Result, Timestamp};
use xxhash_rust::xxh3::Xxh3Default;

use super::payload::{self, PayloadStream, SCHEMA, unwritable};
use crate::protocol::{Digest, IdleTimes};

/// A payload beyond this size becomes a chunk.
pub const CHUNK_BYTES: usize = 16 << 20;
/// Size of the batches that are compressed: large enough for lz4, and small in memory.
const BATCH_BYTES: usize = 1 << 20;
const MAX_RECORD: usize = 1 << 30;

/// Collects records, which the caller pushes in canonical order: store by store, and the records of
/// a store in the order of its rows.
///
/// The digest depends on that order.
pub struct RecordsWriter {
    keys: BinaryBuilder,
    values: BinaryBuilder,
    timestamps: Int64Builder,
    stores: Int16Builder,
    names: Vec<String>,
    store: Option<i16>,
    pending: usize,
    records: u64,
    hasher: Xxh3Default,
    stream: PayloadStream,
    sealed: Vec<Vec<u8>>,
}

/// The records that a writer collected.
#[derive(Debug)]
pub struct CollectedRecords {
    /// How many records there are in all chunks and the payload.
    pub records: u64,
    /// The epoch's digest: records, stream times, idle times, output, far-future rows.
    pub digest: Digest,
    /// The payload of the head; no bytes if neither the head nor a chunk has records.
    pub payload: Vec<u8>,
    /// Payloads of chunks that [`RecordsWriter::sealed`] has not returned yet.
    pub chunks: Vec<Vec<u8>>,
}

impl RecordsWriter {
    /// Returns a writer without records.
    ///
    /// # Errors
    /// `Serialization` if Arrow cannot write at all (a build without lz4).
    pub fn new() -> Result<Self> {
        Ok(Self {
            keys: BinaryBuilder::new(),
            values: BinaryBuilder::new(),
            timestamps: Int64Builder::new(),
            stores: Int16Builder::new(),
            names: Vec::new(),
            store: None,
            pending: 0,
            records: 0,
            hasher: Xxh3Default::new(),
            stream: payload::start()?,
            sealed: Vec::new(),
        })
    }

    /// Adds a record: no value for a deletion, no timestamp in a key-value or session store.
    ///
    /// # Errors
    /// `Serialization` if key and value together have more than 1 GiB, if there are more than
    /// 32,768 stores, or if Arrow cannot write the records.
    pub fn push(
        &mut self,
        store: &str,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: Option<Timestamp>,
    ) -> Result<()> {
        let bytes = key.len().saturating_add(value.map_or(0, <[u8]>::len));
        if bytes > MAX_RECORD {
            let text = format!(
                "a record of {bytes} bytes is too large for the log (at most {MAX_RECORD})"
            );
            return Err(Error::new(ErrorKind::Serialization, text)
                .store(store)
                .key(key));
        }
        if self.pending > 0 && self.pending + bytes > BATCH_BYTES {
            self.flush()?;
        }
        let index = self.enter(store)?;
        self.digest(key, value, timestamp);
        self.stores.append_value(index);
        self.keys.append_value(key);
        self.values.append_option(value);
        self.timestamps
            .append_option(timestamp.map(|timestamp| timestamp.0));
        // The fixed part counts too, so that a million empty records do not fill the memory.
        self.pending += bytes + 24;
        self.records += 1;
        Ok(())
    }

    /// Returns how many records there are so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the payloads of complete chunks, each once, so that they can be put while the rest
    /// is still being collected.
    pub fn sealed(&mut self) -> Vec<Vec<u8>> {
        mem::take(&mut self.sealed)
    }

    /// Ends the epoch.
    ///
    /// Its digest covers the records, the stream times by store, the idle times, and `output`: the
    /// digest of the output and of the far-future rows.
    ///
    /// # Errors
    /// `Serialization` if Arrow cannot write the records.
    pub fn finish(
        mut self,
        stream_times: &BTreeMap<String, i64>,
        idle: IdleTimes,
        output: Digest,
    ) -> Result<CollectedRecords> {
        self.flush()?;
        let payload = if self.records == 0 {
            Vec::new()
        } else {
            self.end_stream()?
        };
        // Tags separate the parts: no record has the same bytes as a stream time.
        for (store, time) in stream_times {
            self.hasher.update(&frame(b'T', store.len(), 0, *time));
            self.hasher.update(store.as_bytes());
        }
        for (tag, since) in [(b"I", idle.partition), (b"J", idle.sources)] {
            if let Some(since) = since {
                self.hasher.update(tag);
                self.hasher.update(&since.to_be_bytes());
            }
        }
        self.hasher.update(b"O");
        self.hasher.update(&output.0);
        let digest = Digest::from_hasher(&self.hasher);
        Ok(CollectedRecords {
            records: self.records,
            digest,
            payload,
            chunks: self.sealed,
        })
    }

    /// Returns the store's number in the dictionary; a change of store is part of the digest.
    fn enter(&mut self, store: &str) -> Result<i16> {
        if let Some(index) = self.store
            && self.names[usize::from(index.unsigned_abs())] == store
        {
            return Ok(index);
        }
        let place = self
            .names
            .iter()
            .position(|name| name == store)
            .unwrap_or_else(|| {
                self.names.push(store.to_owned());
                self.names.len() - 1
            });
        let index = i16::try_from(place).map_err(|_| {
            Error::new(
                ErrorKind::Serialization,
                "an operator has more than 32768 stores",
            )
            .store(store)
        })?;
        self.store = Some(index);
        self.hasher.update(&frame(b'S', store.len(), 0, 0));
        self.hasher.update(store.as_bytes());
        Ok(index)
    }

    fn digest(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: Option<Timestamp>) {
        let tag = match (value.is_some(), timestamp.is_some()) {
            (true, true) => b'a',
            (true, false) => b'b',
            (false, true) => b'c',
            (false, false) => b'd',
        };
        self.hasher.update(&frame(
            tag,
            key.len(),
            value.map_or(0, <[u8]>::len),
            timestamp.map_or(0, |t| t.0),
        ));
        self.hasher.update(key);
        self.hasher.update(value.unwrap_or_default());
    }

    /// Compresses the builders' records into the stream, and seals the stream if it is large.
    fn flush(&mut self) -> Result<()> {
        if self.pending == 0 {
            return Ok(());
        }
        let names = Arc::new(StringArray::from_iter_values(&self.names));
        let stores = DictionaryArray::try_new(self.stores.finish(), names)
            .map_err(|error| unwritable(&error))?;
        let batch = RecordBatch::try_new(
            SCHEMA.clone(),
            vec![
                Arc::new(stores),
                Arc::new(self.keys.finish()),
                Arc::new(self.values.finish()),
                Arc::new(self.timestamps.finish()),
            ],
        )
        .map_err(|error| unwritable(&error))?;
        self.pending = 0;
        self.stream
            .write(&batch)
            .map_err(|error| unwritable(&error))?;
        if self.stream.get_ref().len() > CHUNK_BYTES {
            let chunk = self.end_stream()?;
            self.sealed.push(chunk);
        }
        Ok(())
    }

    fn end_stream(&mut self) -> Result<Vec<u8>> {
        mem::replace(&mut self.stream, payload::start()?)
            .into_inner()
            .map_err(|error| unwritable(&error))
    }
}

/// Returns the fixed part of an item in the digest.
///
/// It has the lengths, so that no two lists of items have the same bytes.
fn frame(tag: u8, first: usize, second: usize, time: i64) -> [u8; 25] {
    let mut bytes = [0; 25];
    bytes[0] = tag;
    bytes[1..9].copy_from_slice(&(first as u64).to_le_bytes());
    bytes[9..17].copy_from_slice(&(second as u64).to_le_bytes());
    bytes[17..].copy_from_slice(&time.to_le_bytes());
    bytes
}
