//! The rows that come to an operator: their columns, their bytes, their order.
//!
//! All operators take rows in one form (`layout.rs`), of one side or of two. `gate.rs` what they
//! never see, `aside.rs` where some of that is kept ·//! `input.rs` one batch, encoded · `order.rs`
//! the order in which an epoch's rows are worked on, whatever order the shuffle gave · `run.rs`
//! rows that have outgrown their memory, in order, in a file · `merge.rs` such runs as one
//! sequence.

mod aside;
mod gate;
mod input;
mod layout;
mod merge;
mod order;
mod run;

pub use aside::Aside;
pub use gate::Gate;
pub use input::{Fingerprint, Input};
pub use layout::{Layout, RowsSpec, Sides, TIME};
pub use order::{Order, Place};

use std::path::PathBuf;
use std::sync::Arc;

use crate::codec::row::EncodedRows;
use crate::memory::budget::{Budget, Share};
use crate::operator::Counts;
use crate::protocol::Digest;
use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};
use merge::Merge;
use run::Run;

/// How a session takes its rows in.
pub struct Intake {
    /// The only partition that rows may be of, if that matters.
    pub partition: Option<i32>,
    /// The memory for rows that are to be put in order.
    pub memory: Arc<Budget>,
    /// Where they go when they outgrow it.
    pub folder: PathBuf,
}

/// The rows of one session. They come in as they may, and are handed out in order, in parts: all at
/// once as long as they fit in memory, else a batch each (`operator/batch.rs`), so that batches are
/// the same either way.
pub struct Rows {
    /// How they are laid out.
    pub layout: Arc<Layout>,
    /// Those in memory, batch by batch: as they came, or the current part.
    pub inputs: Vec<Input>,
    /// Once they are worked on, the stream time is at least this: what waits for it must not wait
    /// for rows.
    pub heartbeat: Option<i64>,
    payloads: Payloads,
    fingerprint: Fingerprint,
    memory: Option<(Share, PathBuf)>,
    runs: Vec<Run>,
    parts: Parts,
}

/// How far the rows have been handed out.
enum Parts {
    /// Not at all.
    None,
    /// All of them: they are in memory.
    All,
    /// Those of the runs that come before what is left here.
    Merging(Merge),
}

/// The sides whose payloads an operator needs as bytes, each with those of the batches so far.
#[derive(Default)]
struct Payloads {
    left: Option<Vec<EncodedRows>>,
    right: Option<Vec<EncodedRows>>,
}

impl Rows {
    /// No rows yet.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout: Arc::new(layout),
            inputs: Vec::new(),
            heartbeat: None,
            payloads: Payloads::default(),
            fingerprint: Fingerprint::default(),
            memory: None,
            runs: Vec::new(),
            parts: Parts::None,
        }
    }

    /// No rows yet; of these sides the payloads are encoded as they come, for [`Rows::payload`].
    pub fn with_payloads(layout: Layout, left: bool, right: bool) -> Self {
        let payloads = Payloads {
            left: left.then(Vec::new),
            right: right.then(Vec::new),
        };
        Self {
            payloads,
            ..Self::new(layout)
        }
    }

    /// How they are laid out, to be changed before the first of them comes.
    ///
    /// # Errors
    /// `InvalidState` once they are worked on.
    pub fn layout_mut(&mut self) -> Result<&mut Layout> {
        Arc::get_mut(&mut self.layout)
            .ok_or_else(|| Error::new(ErrorKind::InvalidState, "the rows are worked on already"))
    }

    /// A row's payload, of its side's columns as bytes; empty if the side is not one whose payloads
    /// are encoded.
    #[inline]
    pub fn payload(&self, place: Place) -> &[u8] {
        let side = if place.is_left() {
            &self.payloads.left
        } else {
            &self.payloads.right
        };
        side.as_ref()
            .map_or(&[], |batches| batches[place.input()].get(place.row()))
    }

    /// About how many bytes a row's columns are.
    #[inline]
    pub fn row_bytes(&self, place: Place) -> usize {
        self.inputs[place.input()].row_bytes(place.row())
    }

    /// Takes a batch. Rows that have outgrown their memory go to disk, in order.
    ///
    /// # Errors
    /// `InvalidState` names the rows of another partition; `Io` for a full disk.
    pub fn push(&mut self, batch: RecordBatch, intake: &Intake, counts: &mut Counts) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let bytes = self.take(batch, intake.partition)?;
        if let Some(input) = self.inputs.last() {
            counts.input_rows += input.num_rows() as u64;
            self.fingerprint.add(input);
        }
        let (share, _) = self
            .memory
            .get_or_insert_with(|| (intake.memory.share(), intake.folder.clone()));
        if share.add(bytes) {
            self.spill()
        } else {
            Ok(())
        }
    }

    /// Encodes a batch and adds it to those in memory; returns how many bytes that are.
    fn take(&mut self, batch: RecordBatch, partition: Option<i32>) -> Result<usize> {
        let Self {
            layout, payloads, ..
        } = self;
        let input = Input::new(layout, batch, partition)?;
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

    /// Moves the rows in memory to a run.
    fn spill(&mut self) -> Result<()> {
        if let Some((share, folder)) = &mut self.memory
            && !self.inputs.is_empty()
        {
            let places = Order::All.places(&self.inputs, &mut Counts::default());
            let bytes = self.inputs.iter().map(Input::bytes).sum();
            self.runs
                .push(Run::write(folder, &self.inputs, &places, bytes)?);
            share.set(0);
        }
        self.forget();
        Ok(())
    }

    fn forget(&mut self) {
        self.inputs.clear();
        self.payloads.left.iter_mut().for_each(Vec::clear);
        self.payloads.right.iter_mut().for_each(Vec::clear);
    }

    /// The next part of the rows, once all have come in; none at the end. Places are of this part,
    /// and hold until the next call.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn next_part(&mut self, order: Order, counts: &mut Counts) -> Result<Option<Vec<Place>>> {
        if matches!(self.parts, Parts::None) {
            if self.runs.is_empty() {
                self.parts = Parts::All;
                return Ok(Some(order.places(&self.inputs, counts)));
            }
            if !self.inputs.is_empty() {
                self.spill()?;
            }
            self.parts = Parts::Merging(Merge::new(&self.layout, &self.runs)?);
        }
        let Parts::Merging(merge) = &mut self.parts else {
            return Ok(None);
        };
        let next = merge.next(&self.layout, &mut |input, row| {
            order.keeps(input, row, counts)
        })?;
        self.forget();
        let Some(batch) = next else { return Ok(None) };
        self.take(batch, None)?;
        Ok(Some(order::unordered(&self.inputs)))
    }

    /// All rows at once, whatever memory that takes: for operators that need a key's rows together.
    ///
    /// # Errors
    /// As [`Rows::next_part`].
    pub fn all(&mut self, order: Order, counts: &mut Counts) -> Result<Vec<Place>> {
        let Some(first) = self.next_part(order, counts)? else {
            return Ok(Vec::new());
        };
        if self.are_in_memory() {
            return Ok(first);
        }
        let mut inputs: Vec<RecordBatch> = self.inputs.drain(..).map(|input| input.batch).collect();
        while self.next_part(order, counts)?.is_some() {
            inputs.extend(self.inputs.drain(..).map(|input| input.batch));
        }
        self.forget();
        for batch in inputs {
            self.take(batch, None)?;
        }
        self.parts = Parts::All;
        Ok(order::unordered(&self.inputs))
    }

    /// All rows at once, but of those that have outgrown their memory only what says where they
    /// belong: side, key and time. Their columns come in parts, after [`Rows::restart`]; a place's
    /// batch is the number of its part.
    ///
    /// # Errors
    /// As [`Rows::next_part`].
    pub fn keys_and_times(&mut self, order: Order, counts: &mut Counts) -> Result<Vec<Place>> {
        let Some(first) = self.next_part(order, counts)? else {
            return Ok(Vec::new());
        };
        if self.are_in_memory() {
            return Ok(first);
        }
        let mut inputs = Vec::new();
        loop {
            for input in self.inputs.drain(..) {
                inputs.push(input.without_columns()?);
            }
            if self.next_part(order, counts)?.is_none() {
                break;
            }
        }
        self.inputs = inputs;
        Ok(order::unordered(&self.inputs))
    }

    /// Whether all rows are in memory, with their columns, once they are worked on.
    pub fn are_in_memory(&self) -> bool {
        matches!(self.parts, Parts::All)
    }

    /// Begins with the first part again.
    pub fn restart(&mut self) {
        if !self.runs.is_empty() {
            self.forget();
        }
        self.parts = Parts::None;
    }

    /// The digest of all rows, whatever their order.
    pub fn digest(&self) -> Digest {
        self.fingerprint.digest()
    }
}
