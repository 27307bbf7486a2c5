//! Builds batches of joined rows from encoded keys and payloads, and from rows of the input.

use arrow_array::{ArrayRef, RecordBatch};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::columns::{ColumnSource, OutputColumns, times_of};
use super::digest::{push_key, push_side};
use super::row_sources::RowSources;
use crate::operator::input::{InputLayout, RowPlace};

/// One side of a joined row; its time and its payload may each be missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct JoinedSide<'a> {
    /// The time of the row, or of its deletion, if that is known.
    pub time: Option<i64>,
    /// The encoded payload columns; none if they are all null.
    pub payload: Option<&'a [u8]>,
    /// Where the row is in the input of the writer, if it is there.
    pub place: Option<RowPlace>,
}

impl<'a> JoinedSide<'a> {
    /// The missing side of a row without a match.
    pub const MISSING: Self = Self {
        time: None,
        payload: None,
        place: None,
    };

    /// A row with its payload.
    pub fn row(time: Option<i64>, payload: &'a [u8]) -> Self {
        Self::new(time, Some(payload))
    }

    /// A row or its deletion.
    pub fn new(time: Option<i64>, payload: Option<&'a [u8]>) -> Self {
        Self {
            time,
            payload,
            place: None,
        }
    }

    /// The same side with its place in the writer's input. Its key and its columns are then copied
    /// from there.
    #[must_use]
    pub fn at(self, place: Option<RowPlace>) -> Self {
        Self { place, ..self }
    }
}

/// Joined rows that become one batch.
#[derive(Default)]
pub struct JoinedRows {
    keys: RowSources,
    left: JoinedSides,
    right: JoinedSides,
    /// What the digest of the result covers (`digest.rs`): all keys and payloads are in it.
    bytes: Vec<u8>,
}

/// The left or the right sides of joined rows.
#[derive(Default)]
struct JoinedSides {
    times: Vec<Option<i64>>,
    payloads: RowSources,
}

impl JoinedRows {
    /// Adds a row.
    pub fn push(&mut self, key: &[u8], left: JoinedSide<'_>, right: JoinedSide<'_>) {
        let key = push_key(key, &mut self.bytes);
        // Both sides have the same key.
        match left.place.or(right.place) {
            Some(place) => self.keys.push_input(place),
            None => self.keys.push_encoded(Some(key)),
        }
        self.left.push(left, &mut self.bytes);
        self.right.push(right, &mut self.bytes);
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.left.times.is_empty()
    }

    /// Removes the rows. The buffer's memory is not freed.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.left.clear();
        self.right.clear();
        self.bytes.clear();
    }

    /// Returns the rows as a batch. `layout` and `inputs` are the input that the rows are from.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not rows that were encoded with this layout.
    pub fn batch(
        &self,
        output: &OutputColumns,
        layout: &InputLayout,
        inputs: &[RecordBatch],
    ) -> Result<RecordBatch> {
        let Self {
            keys,
            left,
            right,
            bytes,
        } = self;
        let decoded_keys = layout.key_codec.decode(keys.encoded(bytes).flatten())?;
        let decoded_left = layout.left_codec.decode(left.payloads.encoded(bytes))?;
        let decoded_right = layout.right_codec.decode(right.payloads.encoded(bytes))?;
        let times = |sides: &JoinedSides| {
            let times = sides.times.iter().copied().collect();
            Ok(times_of(layout.time_type(), times))
        };
        let columns = output.sources.iter().map(|source| match *source {
            ColumnSource::Key { index } => {
                keys.column(&decoded_keys[index], inputs, layout.keys.start + index)
            }
            ColumnSource::Left { index } => {
                let column = layout.left.start + index;
                left.payloads.column(&decoded_left[index], inputs, column)
            }
            ColumnSource::Right { index } => {
                let column = layout.right.start + index;
                right.payloads.column(&decoded_right[index], inputs, column)
            }
            ColumnSource::Time => times(left),
            ColumnSource::RightTime => times(right),
        });
        let columns: std::result::Result<Vec<ArrayRef>, _> = columns.collect();
        output.batch(columns.map_err(|error| output.failed(&error))?)
    }

    /// Adds the rows, in order, to a digest.
    pub fn digest(&self, hasher: &mut Xxh3Default) {
        hasher.update(&self.bytes);
    }
}

impl JoinedSides {
    fn push(&mut self, side: JoinedSide<'_>, bytes: &mut Vec<u8>) {
        let payload = push_side(side.time, side.payload, bytes);
        self.times.push(side.time);
        match side.place {
            Some(place) => self.payloads.push_input(place),
            None => self.payloads.push_encoded(payload),
        }
    }

    fn clear(&mut self) {
        self.times.clear();
        self.payloads.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{
        BooleanArray, Float64Array, Int32Array, ListArray, StringArray, StructArray,
        TimestampMicrosecondArray,
    };
    use arrow_schema::{DataType, Field};
    use serde_json::json;

    use super::*;
    use crate::operator::input::InputBatch;
    use crate::operator::output::OutputColumn;

    /// Four rows: with values, with nulls, and with values that differ from those of other batches.
    fn batch(number: i64) -> RecordBatch {
        let strings = [
            Some("a".to_owned()),
            None,
            Some(format!("long {number}")),
            None,
        ];
        let lists = [
            Some(vec![Some(number), None]),
            None,
            Some(vec![]),
            Some(vec![None]),
        ];
        let fields = StructArray::from(vec![(
            Arc::new(Field::new("a", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![
                Some(number as i32),
                None,
                Some(3),
                None,
            ])) as ArrayRef,
        )]);
        let floats = [Some(number as f64), None, Some(-0.0), Some(f64::NAN)];
        let keys = [Some("EUR"), None, Some(""), Some("USD")];
        let times = (0..4).map(|row| Some(10 * number + row));
        let columns: [(&str, ArrayRef); 9] = [
            ("pid", Arc::new(Int32Array::from(vec![0; 4]))),
            ("side", Arc::new(BooleanArray::from(vec![true; 4]))),
            ("deleted", Arc::new(BooleanArray::from(vec![None; 4]))),
            (
                "t",
                Arc::new(
                    times
                        .collect::<TimestampMicrosecondArray>()
                        .with_timezone("UTC"),
                ),
            ),
            ("k0", Arc::new(StringArray::from(keys.to_vec()))),
            ("l0", Arc::new(Float64Array::from(floats.to_vec()))),
            (
                "l1",
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
            ),
            ("r0", Arc::new(strings.into_iter().collect::<StringArray>())),
            ("r1", Arc::new(fields)),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
            .expect("columns of one length")
    }

    #[test]
    fn rows_of_the_input_give_the_columns_and_the_digest_of_their_bytes() {
        let spec = serde_json::from_value(
            json!({"keys": ["k"], "left": ["x", "xs"], "right": ["v", "s"]}),
        );
        let layout = InputLayout::new("test", &spec.expect("settings"), &batch(0).schema());
        let layout = layout.expect("fits");
        let inputs = [0, 1, 2].map(|n| InputBatch::new(&layout, batch(n), None).expect("encoded"));
        let output: Vec<OutputColumn> = serde_json::from_value(json!([
            {"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0}, {"name": "xs", "from": "left", "index": 1},
            {"name": "v", "from": "right", "index": 0}, {"name": "s", "from": "right", "index": 1},
            {"name": "u", "from": "right_time"},
        ]))
        .expect("settings");
        let output = OutputColumns::new("test", &output, &layout).expect("columns");
        let payloads = inputs.each_ref().map(|input| {
            let columns = input.batch.columns();
            let left = layout.left_codec.encode(&columns[layout.left.clone()], 4);
            let right = layout.right_codec.encode(&columns[layout.right.clone()], 4);
            (left.expect("encoded"), right.expect("encoded"))
        });
        let batches = inputs.each_ref().map(|input| input.batch.clone());
        // Each row matches the row of the same key in the next batch.
        let rows = |has_unmatched: bool, are_new: &dyn Fn(usize) -> (bool, bool)| {
            let mut rows = JoinedRows::default();
            for n in 0..12 {
                let (input, next, row) = (n / 4, (n / 4 + 1) % 3, n % 4);
                let key = inputs[input].keys.with_nulls(row);
                let (is_left_new, is_right_new) = are_new(n);
                let left = JoinedSide::row(inputs[input].time(row), payloads[input].0.get(row))
                    .at(is_left_new.then(|| RowPlace::new(true, input, row)));
                let right = JoinedSide::row(inputs[next].time(row), payloads[next].1.get(row))
                    .at(is_right_new.then(|| RowPlace::new(false, next, row)));
                rows.push(key, left, right);
                if has_unmatched {
                    rows.push(key, left, JoinedSide::MISSING);
                    rows.push(key, JoinedSide::MISSING, right);
                }
            }
            let (batch, mut hasher) = (rows.batch(&output, &layout, &batches), Xxh3Default::new());
            rows.digest(&mut hasher);
            (batch.expect("a batch"), hasher.digest128())
        };
        for has_unmatched in [false, true] {
            let expected = rows(has_unmatched, &|_| (false, false));
            for are_new in [
                &(|_| (true, true)) as &dyn Fn(usize) -> (bool, bool),
                &|_| (true, false),
                &|_| (false, true),
                &|n| (n % 2 == 0, n % 3 == 0),
            ] {
                assert_eq!(rows(has_unmatched, are_new), expected);
            }
        }
    }
}
