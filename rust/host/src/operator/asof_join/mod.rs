//! The as-of join: each left row with the right row of its key that was in force at the left row's
//! time.
//!
//! Right rows are versions in a versioned store, left rows are reads of it as of their time. Both
//! go through one `apply_batch` in event time, table before stream at equal times, so the result
//! does not depend on the order in which the shuffle delivered them. `spec.rs` settings ·
//! `layout.rs` columns · `lookup.rs` one batch through the store · `held.rs` left rows that wait
//! for late right ones.

mod held;
mod layout;
mod lookup;
mod spec;

pub use spec::{How, Spec};

use arrow_schema::Schema;
use holdfast_core::{Database, Result, Transaction};
use xxhash_rust::xxh3::Xxh3Default;

use super::rows::{self, Order, Rows};
use super::{Counts, Operator, Outcome, Worker};
use crate::protocol::{Digest, Epoch};
use crate::root::OperatorMeta;
use layout::Layout;
use lookup::Matches;

/// The store of the right side's versions.
const TABLE: &str = "table";
/// The store of the left rows that wait.
const HELD: &str = "held";

/// One session of an as-of join.
pub struct AsofJoin {
    layout: Layout,
    rows: Rows,
    counts: Counts,
}

impl AsofJoin {
    /// A join over input of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        let rows = rows::Layout::new("join_asof", &spec.rows, schema)?;
        let layout = Layout::new(spec, &rows)?;
        // Left rows' payloads only if they may have to wait.
        Ok(Self {
            rows: Rows::with_payloads(rows, layout.holds, true),
            layout,
            counts: Counts::default(),
        })
    }
}

impl Operator for AsofJoin {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        self.layout.meta(&self.rows.layout, first_epoch)
    }

    fn input(&mut self) -> (&mut Rows, &mut Counts) {
        (&mut self.rows, &mut self.counts)
    }

    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        if self.layout.holds {
            return self.run_held(db, tx, worker);
        }
        let table = db.versioned(TABLE)?;
        let mut digest = Xxh3Default::new();
        let mut matches = Matches::default();
        while let Some(part) = self.rows.next_part(Order::Matchable, &mut self.counts)? {
            let mut rest = &part[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(matches.next(rest));
                rest = later;
                let alone =
                    lookup::apply(&table, tx, &self.rows, now, &mut matches, &mut self.counts)?;
                if self.layout.how == How::Inner {
                    self.counts.dropped += alone;
                    matches.drop_unmatched();
                }
                matches.digest(&self.rows.inputs, &mut digest);
                self.counts.output_rows += matches.rows.len() as u64;
                for range in matches.batches(&self.rows) {
                    let right = matches.right(&self.rows.layout, range.clone())?;
                    worker.emit(self.layout.output.of_places(
                        &self.rows,
                        &matches.rows[range],
                        &right,
                    )?)?;
                }
            }
        }
        Ok(Outcome {
            input: self.rows.digest(),
            output: Digest::from_hasher(&digest),
            counts: self.counts,
        })
    }
}
