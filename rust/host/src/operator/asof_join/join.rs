//! One session of an as-of join.
//!
//! A right row is a put into a versioned store. A left row is a read of this store as of the row's
//! time. `apply_batch` applies both in the order of event time. At equal times, right rows come
//! first. So the result does not depend on the order in which the shuffle delivered the rows.

use arrow_schema::Schema;
use holdfast_core::{Database, Result, StoreKind, StoreSpec, Transaction};

use super::grace::GraceRun;
use super::lookup::{Matches, apply};
use super::plan::AsofJoinPlan;
use super::spec::{AsofJoinKind, AsofJoinSpec, TABLE, WAITING};
use crate::operator::execution::Operator;
use crate::operator::input::{InputLayout, InputRows, RowOrder, RowsSpec};
use crate::operator::outcome::Outcome;
use crate::operator::output::OutputWriter;
use crate::operator::spec::{OperatorSpec, by_time};
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// One session of an as-of join.
pub struct AsofJoin {
    plan: AsofJoinPlan,
    rows: InputRows,
    counts: Counts,
}

impl OperatorSpec for AsofJoinSpec {
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        let layout = InputLayout::new("join_asof", &self.rows, schema)?;
        let plan = AsofJoinPlan::new(self, &layout)?;
        Ok(Box::new(AsofJoin {
            // The payloads of left rows are needed only if left rows may have to wait.
            rows: InputRows::with_payloads(layout, plan.waits, true),
            plan,
            counts: Counts::default(),
        }))
    }

    fn rows(&self) -> &RowsSpec {
        &self.rows
    }

    fn follows_left_rows(&self) -> bool {
        true
    }

    fn stores(&self) -> Vec<StoreSpec> {
        let table = StoreKind::versioned(self.history_retention);
        let mut stores = vec![StoreSpec::new(TABLE, table)];
        if self.grace > 0 {
            // The store drops exactly the rows that no longer wait.
            stores.push(StoreSpec::new(WAITING, by_time(self.grace, 0)));
        }
        stores
    }
}

impl Operator for AsofJoin {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        self.plan.meta(&self.rows.layout, first_epoch)
    }

    fn input(&mut self) -> (&mut InputRows, &mut Counts) {
        (&mut self.rows, &mut self.counts)
    }

    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        if self.plan.waits {
            let run = GraceRun::new(&self.plan, &mut self.rows);
            return run.run(db, tx, worker, self.counts);
        }
        let table = db.versioned(TABLE)?;
        let mut writer = OutputWriter::new(worker);
        let mut matches = Matches::default();
        while let Some(part) = self.rows.next_part(RowOrder::Matchable, &mut self.counts)? {
            let mut rest = &part[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(matches.next(rest));
                rest = later;
                let unmatchable =
                    apply(&table, tx, &self.rows, now, &mut matches, &mut self.counts)?;
                if self.plan.how == AsofJoinKind::Inner {
                    self.counts.dropped += unmatchable;
                    matches.drop_unmatched();
                }
                matches.digest(&self.rows.inputs, writer.hasher());
                for range in matches.batches(&self.rows) {
                    let right = matches.right(&self.rows.layout, range.clone())?;
                    let places = &matches.rows[range];
                    writer.emit(self.plan.output.batch_of_rows(&self.rows, places, &right)?)?;
                }
            }
        }
        Ok(writer.finish(&self.rows, self.counts))
    }
}
