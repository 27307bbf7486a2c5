//! Reads of a table's changes.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use holdfast_core::Result;

use super::change_stream::ChangeStream;
use crate::protocol::{Epoch, PartitionId, RunNumber};
use crate::reader::read_from::AnswerState;
use crate::reader::row_stream::RowStream;
use crate::reader::state_reader::StateReader;
use crate::tables::TableChanges;

/// The epochs of a read of changes, both included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EpochSpan {
    /// The first epoch; none: the oldest one of the log.
    pub from: Option<Epoch>,
    /// The last epoch; none: the newest final one.
    pub to: Option<Epoch>,
}

impl StateReader {
    /// Returns the columns of a table's changes.
    ///
    /// # Errors
    /// As [`StateReader::tables`]; `InvalidValue` if the operator has no such table.
    pub fn changes_schema(&self, (operator, store): (&str, &str)) -> Result<SchemaRef> {
        let known = self.catalog.named(operator, store)?;
        Ok(TableChanges::schema_of(&known.table))
    }

    /// Returns the oldest epoch from which the changes of a table can be read; none if no epoch is
    /// final.
    ///
    /// # Errors
    /// As [`StateReader::changes_schema`].
    pub fn oldest_changes(&self, (operator, store): (&str, &str)) -> Result<Option<Epoch>> {
        self.epochs.look_again();
        let Some(newest) = self.epochs.newest()? else {
            return Ok(None);
        };
        let known = self.catalog.named(operator, store)?;
        let known = self.catalog.renewed(&known)?;
        let oldest = self.root.log.first_before(newest)?;
        Ok(oldest.map(|oldest| oldest.max(known.entry.first_epoch)))
    }

    /// Returns the run of the newest rewind that took an epoch back; 0 if there is none. If this
    /// changes, rows of the epoch that were read before are outdated.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn newest_rewind_of(&self, epoch: Epoch) -> Result<RunNumber> {
        let rewind = self.root.log.newest_rewind_of(epoch);
        // Reads after this call use no decision that was cached before the rewind.
        self.epochs.look_again();
        rewind
    }

    /// Reads the changes of a table from the log. They are ordered by epoch, then by partition,
    /// then as in the log. `partition` limits them to one partition.
    ///
    /// # Errors
    /// `ChangesLost` if the log no longer holds an epoch of the span; the error names the oldest
    /// epoch that the log holds. `NotUpToBound` if the last epoch is not final.
    /// `UnsupportedOperation` for a table whose rows cannot be made from the log alone. The stream
    /// ends with `Restore` if an object is damaged or missing, or if a rewind takes epochs back
    /// meanwhile, and with `ChangesLost` if an epoch is removed meanwhile.
    pub fn changes(
        self: &Arc<Self>,
        (operator, store): (&str, &str),
        span: EpochSpan,
        partition: Option<PartitionId>,
    ) -> Result<RowStream> {
        let partitions = self.routing.chosen(partition)?;
        let known = self.catalog.named(operator, store)?;
        self.epochs.look_again();
        if let Some(to) = span.to {
            self.epochs.check_final(to)?;
        }
        let newest = match span.to {
            Some(to) => Some(to),
            None => self.epochs.newest()?,
        };
        // The table is read after the last epoch is known, so it has all columns of the epochs'
        // rows.
        let known = self.catalog.renewed(&known)?;
        let changes = TableChanges::new(Arc::clone(&known.table))?;
        let schema = Arc::clone(changes.schema());
        let begun = known.entry.first_epoch;
        let Some(last) = newest.filter(|newest| *newest >= begun) else {
            let state = AnswerState::of_final(newest.unwrap_or(begun));
            return RowStream::start(schema, state, |_, _| Ok(()));
        };
        let stream = ChangeStream::new(
            Arc::clone(&self.root),
            Arc::clone(&self.epochs),
            known.operator,
            partitions,
        );
        let there = self.root.log.first_before(last)?;
        let first = match (span.from, there) {
            (Some(from), _) => from.max(begun),
            (None, Some(there)) => there.max(begun),
            (None, None) => last,
        };
        if first <= last && there.is_none_or(|there| first < there) {
            return Err(stream.lost(first));
        }
        RowStream::start(schema, AnswerState::of_final(last), move |queue, emit| {
            stream.read((first, last), changes, &|| queue.check_open(), emit)
        })
    }
}
