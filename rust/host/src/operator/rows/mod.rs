//! The rows that come to an operator: their columns, their bytes, their order.
//!
//! All operators take rows in one form (`layout.rs`), of one side or of two. `gate.rs` what they never see · `input.rs` one batch, encoded · `order.rs` the
//! order in which an epoch's rows are worked on, whatever order the shuffle gave.

mod gate;
mod input;
mod layout;
mod order;

pub use gate::Gate;
pub use input::{Fingerprint, Input};
pub use layout::{Layout, RowsSpec, TIME};
pub use order::{Place, order, order_all, unordered};

use crate::operator::Counts;
use crate::protocol::Digest;
use crate::row::EncodedRows;
use arrow_array::RecordBatch;
use holdfast_core::Result;

/// The rows of one session.
pub struct Rows {
    /// How they are laid out.
    pub layout: Layout,
    /// Batch by batch, as they came.
    pub inputs: Vec<Input>,
    payloads: Payloads,
    fingerprint: Fingerprint,
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
        Self { layout, inputs: Vec::new(), payloads: Payloads::default(), fingerprint: Fingerprint::default() }
    }

    /// No rows yet; of these sides the payloads are encoded as they come, for [`Rows::payload`].
    pub fn with_payloads(layout: Layout, left: bool, right: bool) -> Self {
        let payloads = Payloads { left: left.then(Vec::new), right: right.then(Vec::new) };
        Self { payloads, ..Self::new(layout) }
    }

    /// A row's payload, of its side's columns as bytes; empty if the side is not one whose payloads are encoded.
    #[inline]
    pub fn payload(&self, place: Place) -> &[u8] {
        let side = if place.is_left() { &self.payloads.left } else { &self.payloads.right };
        side.as_ref().map_or(&[], |batches| batches[place.input()].get(place.row()))
    }

    /// Takes a batch. `partition`: the only one that its rows may be of, if that matters.
    ///
    /// # Errors
    /// `InvalidState` names the rows of another partition.
    pub fn push(&mut self, batch: RecordBatch, partition: Option<i32>, counts: &mut Counts) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let Self { layout, payloads, .. } = self;
        let input = Input::new(layout, batch, partition)?;
        let columns = input.batch.columns();
        if let Some(left) = &mut payloads.left {
            left.push(layout.left_codec.encode(&columns[layout.left.clone()], input.num_rows())?);
        }
        if let Some(right) = &mut payloads.right {
            right.push(layout.right_codec.encode(&columns[layout.right.clone()], input.num_rows())?);
        }
        counts.input_rows += input.num_rows() as u64;
        self.fingerprint.add(&input);
        self.inputs.push(input);
        Ok(())
    }

    /// The digest of all rows, whatever their order.
    pub fn digest(&self) -> Digest {
        self.fingerprint.digest()
    }
}
