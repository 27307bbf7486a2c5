//! Merges sorted runs into one sequence.

use std::cmp::Ordering;

use arrow_array::RecordBatch;
use arrow_select::interleave::interleave_record_batch;
use holdfast_core::{Error, ErrorKind, Result};

use super::batch::InputBatch;
use super::layout::InputLayout;
use super::order::SpillOrder;
use super::sorted_run::{SortedRun, SortedRunReader};
use crate::operator::batch_size::BatchSize;

/// Sorted runs that are being merged. The next batch of each run is in memory, and a heap finds the
/// run with the first row.
pub struct RunMerge {
    cursors: Vec<RunCursor>,
    /// The runs with rows left, by number: a binary heap with the first row's run on top.
    heap: Vec<usize>,
    order: SpillOrder,
}

struct RunCursor {
    batches: SortedRunReader,
    input: InputBatch,
    row: usize,
    /// The index of `input` among the batches from which the next merged batch takes rows; none if
    /// it takes no row from `input` yet.
    taken: Option<usize>,
}

impl RunMerge {
    /// Starts with the first rows of all runs, which were sorted in this order.
    ///
    /// # Errors
    /// `Io` if the disk fails; `Serialization` if a run is damaged.
    pub fn new(layout: &InputLayout, runs: &[SortedRun], order: SpillOrder) -> Result<Self> {
        let mut cursors = Vec::with_capacity(runs.len());
        for run in runs {
            let mut batches = run.read();
            if let Some(batch) = batches.next()? {
                cursors.push(RunCursor {
                    batches,
                    input: InputBatch::new(layout, batch, None)?,
                    row: 0,
                    taken: None,
                });
            }
        }
        let mut merge = Self {
            heap: (0..cursors.len()).collect(),
            cursors,
            order,
        };
        (0..merge.heap.len() / 2)
            .rev()
            .for_each(|place| merge.sink(place));
        Ok(merge)
    }

    /// Returns the next batch of the rows for which `keep` is true; none at the end.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn next(
        &mut self,
        layout: &InputLayout,
        keep: &mut dyn FnMut(&InputBatch, usize) -> bool,
    ) -> Result<Option<RecordBatch>> {
        let (mut batches, mut indices, mut size) = (Vec::new(), Vec::new(), BatchSize::default());
        self.cursors
            .iter_mut()
            .for_each(|cursor| cursor.taken = None);
        while let Some(first) = self.heap.first().copied() {
            let cursor = &mut self.cursors[first];
            if keep(&cursor.input, cursor.row) {
                if !size.try_add(cursor.input.row_bytes(cursor.row)) {
                    break;
                }
                let batch = *cursor.taken.get_or_insert_with(|| {
                    batches.push(cursor.input.batch.clone());
                    batches.len() - 1
                });
                indices.push((batch, cursor.row));
            }
            cursor.row += 1;
            if cursor.row == cursor.input.num_rows() {
                match cursor.batches.next()? {
                    Some(batch) => {
                        cursor.input = InputBatch::new(layout, batch, None)?;
                        (cursor.row, cursor.taken) = (0, None);
                    }
                    None => drop(self.heap.swap_remove(0)),
                }
            }
            self.sink(0);
        }
        if indices.is_empty() {
            return Ok(None);
        }
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        let merged = interleave_record_batch(&batches, &indices);
        merged.map(Some).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("rows of several runs cannot be merged: {error}"),
            )
        })
    }

    /// Moves a run down to its place in the heap.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let first = children
                .into_iter()
                .filter(|child| *child < self.heap.len())
                .min_by(|a, b| self.compare(*a, *b));
            match first {
                Some(child) if self.compare(child, place) == Ordering::Less => {
                    self.heap.swap(child, place)
                }
                _ => return,
            }
            place = first.unwrap_or(place);
        }
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (&self.cursors[self.heap[a]], &self.cursors[self.heap[b]]);
        self.order.compare((&a.input, a.row), (&b.input, b.row))
    }
}
