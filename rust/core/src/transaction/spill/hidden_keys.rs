//! The keys of the stored rows that range deletes hide.

use crate::error::Result;
use crate::table::Bounds;
use crate::transaction::staged::cleared::Interval;
use crate::transaction::staged::table_buffer::TableBuffer;
use crate::transaction::stored::base::Base;
use crate::transaction::stored::cursor::TableCursor;
use crate::transaction::table::Table;
use std::collections::VecDeque;

/// How many hidden keys are read at once.
const HIDDEN_KEYS: usize = 1024;

/// Keys of the stored rows that range deletes hide, in order. A range delete is spilled as a delete
/// of each of its rows.
pub(in crate::transaction) struct HiddenKeys {
    rows: Option<TableCursor>,
    intervals: VecDeque<Interval>,
    keys: VecDeque<Vec<u8>>,
}

impl HiddenKeys {
    pub(in crate::transaction) fn new(
        base: &Base,
        table: Table,
        buffer: &TableBuffer,
    ) -> Result<Self> {
        let intervals: VecDeque<Interval> = buffer.cleared().iter().cloned().collect();
        let rows = if intervals.is_empty() {
            None
        } else {
            Some(TableCursor::new(base, table, &Bounds::default())?)
        };
        Ok(Self {
            rows,
            intervals,
            keys: VecDeque::new(),
        })
    }

    /// Calls `f` with the keys before `end` (`None`: all that remain). `end` itself is skipped,
    /// since it has a staged record.
    pub(super) fn before(
        &mut self,
        end: Option<&[u8]>,
        f: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        loop {
            if self.keys.is_empty() {
                self.fill()?;
            }
            match self.keys.front() {
                Some(key) if end.is_none_or(|end| key.as_slice() < end) => f(key)?,
                Some(key) if end == Some(key) => {}
                _ => return Ok(()),
            }
            self.keys.pop_front();
        }
    }

    /// The next keys, in order; `None` at the end. Some of them may have a staged record.
    pub(in crate::transaction) fn next_keys(&mut self) -> Result<Option<VecDeque<Vec<u8>>>> {
        self.fill()?;
        Ok(Some(std::mem::take(&mut self.keys)).filter(|keys| !keys.is_empty()))
    }

    fn fill(&mut self) -> Result<()> {
        let Self {
            rows: Some(rows),
            intervals,
            keys,
        } = self
        else {
            return Ok(());
        };
        while keys.is_empty()
            && let Some(interval) = intervals.front_mut()
        {
            rows.with(|rows| {
                rows.seek(&interval.from);
                while let Some(key) = rows.key().filter(|key| *key < interval.to.as_slice())
                    && keys.len() < HIDDEN_KEYS
                {
                    keys.push_back(key.to_vec());
                    rows.next();
                }
            })?;
            match keys.back() {
                Some(last) => interval.from = [last, &[0][..]].concat(),
                None => drop(intervals.pop_front()),
            }
        }
        Ok(())
    }
}
