//! Runs of rows as one sequence in order.

use std::cmp::Ordering;

use arrow_array::RecordBatch;
use arrow_select::interleave::interleave_record_batch;
use holdfast_core::{Error, ErrorKind, Result};

use super::input::Input;
use super::layout::Layout;
use super::order::compare;
use super::run::{Batches, Run};
use crate::operator::batch::Filling;

/// Runs that are being merged: each one's next batch is in memory, and a heap knows whose next row
/// is the first.
pub struct Merge {
    heads: Vec<Head>,
    /// Numbers of heads with rows left: a binary heap, the first row's on top.
    heap: Vec<usize>,
}

struct Head {
    batches: Batches,
    input: Input,
    row: usize,
    /// Where the batch is among those that the next part takes rows from.
    taken: Option<usize>,
}

impl Merge {
    /// Begins with the first rows of all runs.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn new(layout: &Layout, runs: &[Run]) -> Result<Self> {
        let mut heads = Vec::with_capacity(runs.len());
        for run in runs {
            let mut batches = run.read()?;
            if let Some(batch) = batches.next()? {
                heads.push(Head {
                    batches,
                    input: Input::new(layout, batch, None)?,
                    row: 0,
                    taken: None,
                });
            }
        }
        let mut merge = Self {
            heap: (0..heads.len()).collect(),
            heads,
        };
        (0..merge.heap.len() / 2)
            .rev()
            .for_each(|place| merge.sink(place));
        Ok(merge)
    }

    /// The next batch of the rows that `keep` wants; none at the end.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn next(
        &mut self,
        layout: &Layout,
        keep: &mut dyn FnMut(&Input, usize) -> bool,
    ) -> Result<Option<RecordBatch>> {
        let (mut batches, mut indices, mut filling) = (Vec::new(), Vec::new(), Filling::default());
        self.heads.iter_mut().for_each(|head| head.taken = None);
        while let Some(first) = self.heap.first().copied() {
            let head = &mut self.heads[first];
            if keep(&head.input, head.row) {
                if !filling.takes(head.input.row_bytes(head.row)) {
                    break;
                }
                let batch = *head.taken.get_or_insert_with(|| {
                    batches.push(head.input.batch.clone());
                    batches.len() - 1
                });
                indices.push((batch, head.row));
            }
            head.row += 1;
            if head.row == head.input.num_rows() {
                match head.batches.next()? {
                    Some(batch) => {
                        head.input = Input::new(layout, batch, None)?;
                        (head.row, head.taken) = (0, None);
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
                format!("rows of several runs cannot be put together: {error}"),
            )
        })
    }

    /// Lets a head go down to its place in the heap.
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
        let (a, b) = (&self.heads[self.heap[a]], &self.heads[self.heap[b]]);
        compare((&a.input, a.row), (&b.input, b.row))
    }
}
