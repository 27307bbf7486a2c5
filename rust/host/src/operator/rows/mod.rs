//! The rows that come to an operator: their columns, their bytes, their order.
//!
//! All operators take rows in one form (`layout.rs`), of one side or of two. `input.rs` one batch, encoded · `order.rs` the
//! order in which an epoch's rows are worked on, whatever order the shuffle gave.

mod input;
mod layout;
mod order;

pub use input::{Fingerprint, Input};
pub use layout::{Layout, RowsSpec, TIME};
pub use order::{Place, order, order_all, unordered};

use crate::operator::Counts;
use crate::protocol::Digest;
use arrow_array::RecordBatch;
use holdfast_core::Result;

/// The rows of one session.
pub struct Rows {
    /// How they are laid out.
    pub layout: Layout,
    /// Batch by batch, as they came.
    pub inputs: Vec<Input>,
    fingerprint: Fingerprint,
}

impl Rows {
    /// No rows yet.
    pub fn new(layout: Layout) -> Self {
        Self { layout, inputs: Vec::new(), fingerprint: Fingerprint::default() }
    }

    /// Takes a batch. `partition`: the only one that its rows may be of, if that matters.
    ///
    /// # Errors
    /// `InvalidState` names the rows of another partition.
    pub fn push(&mut self, batch: RecordBatch, partition: Option<i32>, counts: &mut Counts) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let input = Input::new(&self.layout, batch, partition)?;
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
