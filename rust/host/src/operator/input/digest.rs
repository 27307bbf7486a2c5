//! The digest of an epoch's input.

use holdfast_core::Result;

use super::batch::InputBatch;
use super::columns::SIDE;
use super::layout::InputLayout;
use crate::codec::row_hash::row_hashes;
use crate::protocol::Digest;

/// A digest of rows that does not depend on their order: the sum of their hashes, and their number.
#[derive(Debug, Clone, Copy, Default)]
pub struct InputDigest {
    sum: u128,
    rows: u64,
}

impl InputDigest {
    /// Adds a batch.
    ///
    /// # Errors
    /// `InvalidType` or `Serialization` for rows that cannot be encoded.
    pub fn add(&mut self, layout: &InputLayout, input: &InputBatch) -> Result<()> {
        if layout.content.is_some() {
            input.hashes.iter().for_each(|hash| self.add_row(*hash));
        } else {
            let columns = &input.batch.columns()[SIDE..];
            let hashes = row_hashes(columns, input.num_rows())?;
            hashes
                .into_iter()
                .for_each(|hash| self.add_row(hash.into()));
        }
        Ok(())
    }

    /// Adds a row by its hash.
    pub fn add_row(&mut self, hash: u128) {
        self.sum = self.sum.wrapping_add(hash);
        self.rows += 1;
    }

    /// The digest.
    pub fn digest(&self) -> Digest {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.sum.to_be_bytes());
        bytes[16..].copy_from_slice(&self.rows.to_be_bytes());
        Digest::of(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
        TimestampMicrosecondArray,
    };
    use arrow_select::concat::concat_batches;
    use serde_json::json;

    use super::*;

    /// Rows whose columns are all equal, except that of row `of` one column has another value.
    fn rows(changed: Option<usize>, of: usize) -> RecordBatch {
        let is_changed = |row: usize, column: usize| row == of && changed == Some(column);
        let number =
            |row: usize, column: usize| row as i64 + 1_000 * i64::from(is_changed(row, column));
        let all = 0..6_usize;
        let pids = all.clone().map(|row| i32::from(is_changed(row, 0)));
        let sides = all.clone().map(|row| Some(!is_changed(row, 1)));
        let deleted = all.clone().map(|row| is_changed(row, 2).then_some(false));
        let times = all.clone().map(|row| Some(number(row, 3)));
        let keys = all.clone().map(|row| Some(number(row, 4).to_string()));
        let values = all.map(|row| (row != 1 || is_changed(row, 5)).then(|| number(row, 5)));
        let columns: [ArrayRef; 6] = [
            Arc::new(Int32Array::from_iter_values(pids)),
            Arc::new(sides.collect::<BooleanArray>()),
            Arc::new(deleted.collect::<BooleanArray>()),
            Arc::new(times.collect::<TimestampMicrosecondArray>()),
            Arc::new(keys.collect::<StringArray>()),
            Arc::new(values.collect::<Int64Array>()),
        ];
        let names = ["pid", "side", "deleted", "t", "k0", "l0"];
        RecordBatch::try_from_iter_with_nullable(
            names
                .into_iter()
                .zip(columns)
                .map(|(name, column)| (name, column, true)),
        )
        .expect("six columns")
    }

    fn layout(with_content: bool) -> InputLayout {
        let spec = serde_json::from_value(json!({"keys": ["k"], "left": ["x"]})).expect("settings");
        let layout = InputLayout::new("test", &spec, &rows(None, 0).schema()).expect("fits");
        if with_content {
            layout
        } else {
            layout.without_content()
        }
    }

    fn digest(layout: &InputLayout, batches: &[RecordBatch]) -> Digest {
        let mut digest = InputDigest::default();
        for batch in batches {
            let input = InputBatch::new(layout, batch.clone(), None).expect("encoded");
            digest.add(layout, &input).expect("hashed");
        }
        digest.digest()
    }

    #[test]
    fn a_digest_depends_on_the_rows_and_not_on_their_order_or_batches() {
        for layout in [layout(true), layout(false)] {
            let all = rows(None, 0);
            let whole = digest(&layout, std::slice::from_ref(&all));
            let parts = [all.slice(4, 2), all.slice(0, 1), all.slice(1, 3)];
            assert_eq!(digest(&layout, &parts), whole);
            let joined = concat_batches(&all.schema(), &parts).expect("one batch");
            assert_eq!(digest(&layout, &[joined]), whole);
            assert_ne!(digest(&layout, &[all.clone(), all.slice(0, 1)]), whole);
            assert_eq!(
                digest(&layout, &[rows(Some(0), 1)]),
                whole,
                "pid does not count"
            );
            for (column, row) in (1..6).flat_map(|column| [0, 1, 5].map(|row| (column, row))) {
                let changed = digest(&layout, &[rows(Some(column), row)]);
                assert_ne!(changed, whole, "column {column} of row {row}");
            }
        }
    }
}
