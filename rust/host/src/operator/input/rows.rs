//! The rows of one session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use holdfast_core::{Error, ErrorKind, Result};

use super::batch::InputBatch;
use super::digest::InputDigest;
use super::layout::InputLayout;
use super::merge::RunMerge;
use super::order::{RowOrder, RowPlace, SpillOrder, unordered};
use super::sorted_run::SortedRun;
use crate::cancellation::Cancellation;
use crate::codec::row::EncodedRows;
use crate::memory::budget::{Budget, Share};
use crate::protocol::Counts;
use crate::protocol::Digest;

/// How a session takes rows.
pub struct Intake {
    /// The partition that all rows must belong to; none allows any partition.
    pub partition: Option<i32>,
    /// The memory for rows that are being sorted.
    pub memory: Arc<Budget>,
    /// The folder to which rows spill.
    pub folder: PathBuf,
    /// Ends the sort early when the host must end.
    pub cancellation: Cancellation,
}

/// The rows of one session.
///
/// The rows arrive in any order, and are returned in order, in parts. If all rows fit in memory,
/// they are one part. Otherwise each part is one batch (`batch_size.rs`). The process operator cuts
/// a part by the same limits, so the user's code receives the same batches in both cases.
pub struct InputRows {
    /// The columns and codecs.
    pub layout: Arc<InputLayout>,
    /// The rows in memory, batch by batch: as they arrived, or the current part.
    pub inputs: Vec<InputBatch>,
    /// Once the rows have been processed, the stream time is at least this, even if there are no
    /// rows.
    pub heartbeat: Option<i64>,
    /// The greatest time of all rows that have arrived.
    pub last_time: Option<i64>,
    payloads: Payloads,
    fingerprint: InputDigest,
    memory: Option<(Share, PathBuf)>,
    cancellation: Cancellation,
    spilled: SpilledRuns,
    parts: Parts,
}

/// The rows that have spilled.
struct SpilledRuns {
    runs: Vec<SortedRun>,
    /// The order of each run.
    order: SpillOrder,
}

/// Which rows have been returned.
enum Parts {
    /// None.
    None,
    /// All rows: they are in memory.
    All,
    /// The rows of the runs that the merge has returned already.
    Merging(RunMerge),
}

/// The sides whose payloads an operator needs as bytes, each with its batches so far.
#[derive(Default)]
struct Payloads {
    left: Option<Vec<EncodedRows>>,
    right: Option<Vec<EncodedRows>>,
}

impl InputRows {
    /// Starts without rows.
    pub fn new(layout: InputLayout) -> Self {
        Self {
            layout: Arc::new(layout),
            inputs: Vec::new(),
            heartbeat: None,
            last_time: None,
            payloads: Payloads::default(),
            fingerprint: InputDigest::default(),
            memory: None,
            cancellation: Cancellation::default(),
            spilled: SpilledRuns {
                runs: Vec::new(),
                order: SpillOrder::Time,
            },
            parts: Parts::None,
        }
    }

    /// Starts without rows. The payloads of these sides are encoded, for [`Self::payload`].
    pub fn with_payloads(layout: InputLayout, left: bool, right: bool) -> Self {
        let payloads = Payloads {
            left: left.then(Vec::new),
            right: right.then(Vec::new),
        };
        Self {
            payloads,
            ..Self::new(layout)
        }
    }

    /// Sets that rows that spill are sorted by key; called before the first row. Parts then have
    /// first the rows without a key or a time, then those of each key, in the order of the keys'
    /// bytes.
    #[must_use]
    pub fn spilling_by_key(mut self) -> Self {
        self.spilled.order = SpillOrder::Key;
        self
    }

    /// Returns the columns and codecs, which may change until the first row arrives.
    ///
    /// # Errors
    /// `InvalidState` once rows are being processed.
    pub fn layout_mut(&mut self) -> Result<&mut InputLayout> {
        Arc::get_mut(&mut self.layout).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidState,
                "the rows are being processed already",
            )
        })
    }

    /// A row's key; none if one of its columns is null.
    #[inline]
    pub fn key(&self, place: RowPlace) -> Option<&[u8]> {
        self.inputs[place.input()].keys.get(place.row())
    }

    /// A row's key, whose columns may be null.
    #[inline]
    pub fn key_with_nulls(&self, place: RowPlace) -> &[u8] {
        self.inputs[place.input()].keys.with_nulls(place.row())
    }

    /// A row's time.
    #[inline]
    pub fn time(&self, place: RowPlace) -> Option<i64> {
        self.inputs[place.input()].time(place.row())
    }

    /// Whether a right row deletes its key's value from the row's time on.
    #[inline]
    pub fn is_deleted(&self, place: RowPlace) -> bool {
        self.inputs[place.input()].is_deleted(place.row())
    }

    /// Whether a row's columns, counted from `first`, are all null; false for no columns.
    pub fn all_null(&self, place: RowPlace, first: usize, columns: &[usize]) -> bool {
        let batch = &self.inputs[place.input()].batch;
        !columns.is_empty()
            && columns
                .iter()
                .all(|column| batch.column(first + column).is_null(place.row()))
    }

    /// A row's encoded payload; empty if its side's payloads are not encoded.
    #[inline]
    pub fn payload(&self, place: RowPlace) -> &[u8] {
        let side = if place.is_left() {
            &self.payloads.left
        } else {
            &self.payloads.right
        };
        side.as_ref()
            .map_or(&[], |batches| batches[place.input()].get(place.row()))
    }

    /// Returns about how many bytes a row's columns have.
    #[inline]
    pub fn row_bytes(&self, place: RowPlace) -> usize {
        self.inputs[place.input()].row_bytes(place.row())
    }

    /// Takes a batch. Rows that have outgrown their memory are sorted and spilled to disk.
    ///
    /// # Errors
    /// Those of [`InputBatch::new`]; `Io` if the disk is full or fails; `StoreClosed` if the host
    /// is ending.
    pub fn push(&mut self, batch: RecordBatch, intake: &Intake, counts: &mut Counts) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.cancellation = intake.cancellation.clone();
        self.cancellation.check()?;
        let bytes = self.take(batch, intake.partition)?;
        if let Some(input) = self.inputs.last() {
            counts.input_rows += input.num_rows() as u64;
            self.last_time = self.last_time.max(input.last_time());
            self.fingerprint.add(&self.layout, input)?;
        }
        if self.take_share(intake).add(bytes) {
            self.spill()
        } else {
            Ok(())
        }
    }

    /// Returns the share of the memory, and takes it first if there is none. [`Self::push`] does so
    /// for rows; a heartbeat without rows may need memory, too.
    pub fn take_share(&mut self, intake: &Intake) -> &mut Share {
        let new = || (intake.memory.share(), intake.folder.clone());
        &mut self.memory.get_or_insert_with(new).0
    }

    /// Encodes a batch and adds it to the batches in memory. Returns its size in bytes.
    fn take(&mut self, batch: RecordBatch, partition: Option<i32>) -> Result<usize> {
        let Self {
            layout, payloads, ..
        } = self;
        let input = InputBatch::new(layout, batch, partition)?;
        let columns = input.batch.columns();
        let mut bytes = input.bytes();
        for (side, codec, range) in [
            (&mut payloads.left, &layout.left_codec, &layout.left),
            (&mut payloads.right, &layout.right_codec, &layout.right),
        ] {
            if let Some(side) = side {
                let rows = codec.encode(&columns[range.clone()], input.num_rows())?;
                bytes += rows.bytes();
                side.push(rows);
            }
        }
        self.inputs.push(input);
        Ok(bytes)
    }

    /// Spills the rows in memory to a sorted run.
    fn spill(&mut self) -> Result<()> {
        if let Some((share, folder)) = &mut self.memory
            && !self.inputs.is_empty()
        {
            let places = self.spilled.order.places(&self.inputs);
            let bytes = self.inputs.iter().map(InputBatch::bytes).sum();
            self.spilled
                .runs
                .push(SortedRun::write(folder, &self.inputs, &places, bytes)?);
            share.count_spill();
            share.set(0);
        }
        self.clear_inputs();
        Ok(())
    }

    fn clear_inputs(&mut self) {
        self.inputs.clear();
        self.payloads.left.iter_mut().for_each(Vec::clear);
        self.payloads.right.iter_mut().for_each(Vec::clear);
    }

    /// Returns the next part of the rows, once all rows have arrived; none at the end. The places
    /// are valid until the next call.
    ///
    /// # Errors
    /// `Io` if the disk is full or fails; `Serialization` if a run is damaged; `StoreClosed` if the
    /// host is ending.
    pub fn next_part(
        &mut self,
        order: RowOrder,
        counts: &mut Counts,
    ) -> Result<Option<Vec<RowPlace>>> {
        self.cancellation.check()?;
        if matches!(self.parts, Parts::None) {
            if self.spilled.runs.is_empty() {
                self.parts = Parts::All;
                return Ok(Some(order.places(&self.inputs, counts)));
            }
            if !self.inputs.is_empty() {
                self.spill()?;
            }
            self.parts = Parts::Merging(RunMerge::new(
                &self.layout,
                &self.spilled.runs,
                self.spilled.order,
            )?);
        }
        let Parts::Merging(merge) = &mut self.parts else {
            return Ok(None);
        };
        let next = merge.next(&self.layout, &mut |input, row| {
            order.accepts(input, row, counts)
        })?;
        self.clear_inputs();
        let Some(batch) = next else { return Ok(None) };
        self.take(batch, None)?;
        Ok(Some(unordered(&self.inputs)))
    }

    /// Whether rows have outgrown their memory, so that they come in several parts.
    pub fn have_spilled(&self) -> bool {
        !self.spilled.runs.is_empty()
    }

    /// Whether all rows are in memory. It is known once they are being
    /// processed.
    pub fn are_in_memory(&self) -> bool {
        matches!(self.parts, Parts::All)
    }

    /// Returns how many bytes the operator may hold beside the current part, and reserves them. If
    /// rows have spilled, it is the memory in which they were sorted; otherwise there is no limit,
    /// because there is no other part.
    pub fn spare_memory(&mut self) -> usize {
        match &mut self.memory {
            Some((share, _)) if !self.spilled.runs.is_empty() => {
                let room = share.room();
                share.reserve(room);
                room
            }
            _ => usize::MAX,
        }
    }

    /// Returns how many bytes of rows may be in memory: at least as many as are there.
    pub fn room(&self) -> usize {
        let share = self.memory.as_ref().map(|(share, _)| share);
        share.map_or(usize::MAX, |share| share.room().max(self.bytes()))
    }

    /// Returns how many bytes the rows in memory leave of their share, and reserves the whole share
    /// in place of what the operator holds.
    pub fn take_free_memory(&mut self) -> usize {
        let room = self.room();
        if let Some((share, _)) = &mut self.memory {
            share.reserve(room);
        }
        match room {
            usize::MAX => usize::MAX,
            room => room - self.bytes(),
        }
    }

    /// Adds to the bytes that the operator holds beside the rows in memory. Returns whether all of
    /// them fit in their share.
    pub fn hold(&mut self, bytes: usize) -> bool {
        let share = self.memory.as_mut().map(|(share, _)| share);
        share.is_none_or(|share| !share.add(bytes))
    }

    /// About how much memory the rows in memory take, in bytes.
    fn bytes(&self) -> usize {
        self.inputs.iter().map(InputBatch::bytes).sum()
    }

    /// The folder to which rows spill.
    pub fn folder(&self) -> &Path {
        let folder = self.memory.as_ref().map(|(_, folder)| folder);
        folder.map_or(Path::new(""), PathBuf::as_path)
    }

    /// The budget that counts the spills of the session; a new one if no share was taken.
    pub fn budget(&self) -> Arc<Budget> {
        let share = self.memory.as_ref().map(|(share, _)| share);
        share.map_or_else(
            || Budget::new(usize::MAX),
            |share| Arc::clone(share.budget()),
        )
    }

    /// Counts that the operator has moved its memory beside the current part to disk.
    pub fn count_spill(&self) {
        if let Some((share, _)) = &self.memory {
            share.count_spill();
        }
    }

    /// Starts again with the first part.
    pub fn restart(&mut self) {
        if !self.spilled.runs.is_empty() {
            self.clear_inputs();
        }
        self.parts = Parts::None;
    }

    /// The digest of all rows, which does not depend on their order.
    pub fn digest(&self) -> Digest {
        self.fingerprint.digest()
    }
}

#[cfg(test)]
mod tests;
