//! Limits how many rows a store call or an output batch has.
//!
//! The limits do not depend on memory, so every attempt at an epoch passes the same batches to the
//! user's code.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

/// The maximum number of rows in a batch.
pub const BATCH_ROWS: usize = 10_000;

/// The approximate maximum size of a batch in bytes; a single larger row is a batch of its own.
///
/// It is 10,000 rows of 1.6 KB: far below a frame's limit and below 2 GiB, the limit of the offsets
/// of an Arrow string column.
pub const BATCH_BYTES: usize = 16 << 20;

/// The size of a batch to which rows are added in order.
#[derive(Default)]
pub struct BatchSize {
    rows: usize,
    bytes: usize,
}

impl BatchSize {
    /// Adds a row of this many bytes if it fits; the first row always fits.
    #[inline]
    pub fn try_add(&mut self, bytes: usize) -> bool {
        if self.rows > 0
            && (self.rows == BATCH_ROWS || self.bytes.saturating_add(bytes) > BATCH_BYTES)
        {
            return false;
        }
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        true
    }
}

/// Returns about how many bytes the value of a column in a row has.
///
/// Equal values have the same size in any column. So the size of a state is the same whether it
/// comes from the user's function or from a store.
pub fn value_bytes(column: &ArrayRef, row: usize) -> usize {
    if column.is_null(row) {
        return null_bytes(column.data_type());
    }
    match column.data_type() {
        DataType::Boolean => 1,
        DataType::List(_) => slice_bytes(&column.as_list::<i32>().value(row)),
        DataType::Map(..) => {
            let entries: ArrayRef = Arc::new(column.as_map().value(row));
            slice_bytes(&entries)
        }
        DataType::Struct(_) => {
            let fields = column.as_struct().columns().iter();
            fields.map(|field| value_bytes(field, row)).sum()
        }
        other => other
            .primitive_width()
            .unwrap_or_else(|| slice_bytes(&column.slice(row, 1))),
    }
}

/// Returns about how many bytes a null has, whatever the column has in its place.
fn null_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Boolean => 1,
        DataType::Struct(fields) => fields
            .iter()
            .map(|field| null_bytes(field.data_type()))
            .sum(),
        other => other.primitive_width().unwrap_or(size_of::<[i32; 2]>()),
    }
}

/// Returns about how many bytes the values of a slice have.
///
/// Arrow counts all elements of a list column for each slice of it. It also counts the bits of
/// nulls if any row of the column is null.
fn slice_bytes(values: &ArrayRef) -> usize {
    if values.data_type().is_nested() || values.null_count() > 0 {
        return (0..values.len()).map(|row| value_bytes(values, row)).sum();
    }
    let values = values.to_data();
    let bits = values.nulls().map_or(0, |nulls| nulls.len().div_ceil(8));
    let bytes = values.get_slice_memory_size().unwrap_or(0);
    bytes.saturating_sub(bits)
}

/// Cuts this many rows into batches by the size of each row.
pub fn ranges(rows: usize, bytes: impl Fn(usize) -> usize) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let (start, mut size) = (end, BatchSize::default());
        while end < rows && size.try_add(bytes(end)) {
            end += 1;
        }
        (end > start).then_some(start..end)
    })
}

/// Cuts rows into batches by the size of each row.
pub fn batches<T>(rows: &[T], bytes: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    ranges(rows.len(), move |row| bytes(&rows[row])).map(|range| &rows[range])
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{ListArray, StringArray, StructArray};
    use arrow_buffer::NullBuffer;
    use arrow_schema::Field;

    use super::*;

    fn cut(sizes: &[usize]) -> Vec<usize> {
        batches(sizes, |size| *size).map(<[usize]>::len).collect()
    }

    #[test]
    fn a_value_is_as_large_as_its_own_elements() {
        let lists = [vec![Some(1), None], vec![], vec![Some(2); 100]];
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists.map(Some));
        let lists: ArrayRef = Arc::new(lists);
        let sizes = |column: &ArrayRef| [0, 1, 2].map(|row| value_bytes(column, row));
        let [two, none, hundred] = sizes(&lists);
        assert!((16..32).contains(&two) && none < 16, "{two} and {none}");
        assert!((800..832).contains(&hundred), "{hundred}");
        let field = Field::new("l", lists.data_type().clone(), true);
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(field), lists)]));
        assert_eq!(sizes(&structs), [two, none, hundred]);
    }

    #[test]
    fn a_value_has_the_same_size_in_any_column() {
        let all = StringArray::from(vec!["ab", "", "hidden"]);
        let (offsets, data, _) = all.clone().into_parts();
        let nulls = NullBuffer::from(vec![true, true, false]);
        let hidden = StringArray::new(offsets, data, Some(nulls));
        let null = StringArray::from(vec![Some("ab"), Some(""), None]);
        let columns: [ArrayRef; 3] = [Arc::new(all), Arc::new(hidden), Arc::new(null)];
        let [all, hidden, null] = &columns;
        for row in 0..3 {
            assert_eq!(value_bytes(hidden, row), value_bytes(null, row));
        }
        for row in 0..2 {
            assert_eq!(value_bytes(all, row), value_bytes(null, row));
        }
        assert_eq!(slice_bytes(hidden), slice_bytes(null));
        assert_eq!(
            slice_bytes(&all.slice(0, 2)),
            slice_bytes(&null.slice(0, 2))
        );
    }

    #[test]
    fn rows_and_bytes_limit_a_batch_and_a_larger_row_is_a_batch_alone() {
        assert_eq!(cut(&[]), [0; 0]);
        assert_eq!(cut(&vec![1; BATCH_ROWS + 1]), [BATCH_ROWS, 1]);
        assert_eq!(cut(&[BATCH_BYTES / 2, BATCH_BYTES / 2, 1]), [2, 1]);
        assert_eq!(cut(&[1, BATCH_BYTES + 1, usize::MAX, 1, 1]), [1, 1, 1, 2]);
    }
}
