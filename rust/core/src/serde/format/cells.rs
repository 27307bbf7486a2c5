//! Reads Arrow arrays as cells. Other physical forms of a type are converted to its plain form.

use crate::column::bytes_column;
use crate::error::{Error, ErrorKind, Result};
use crate::serde::format::stored_column::{Shape, StoredColumn, below};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, make_array, new_null_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use arrow_select::nullif::nullif;

/// The cells of one column.
pub struct Cells {
    nulls: Option<NullBuffer>,
    /// The values.
    pub data: CellData,
}

/// The values of the cells of a column.
pub enum CellData {
    /// Booleans.
    Bool(BooleanArray),
    /// Little-endian numbers of one width.
    Fixed(Buffer, usize),
    /// Strings or binary.
    Bytes(OffsetBuffer<i32>, Buffer),
    /// The columns of a struct.
    Struct(Vec<Cells>),
    /// The items of lists.
    List(OffsetBuffer<i32>, Box<Cells>),
}

impl Cells {
    /// Returns the cells of an array that holds a column.
    ///
    /// `path` names the column in errors; `valid` has the rows whose parent is not null. If the
    /// column has the items of lists, each item is a row.
    ///
    /// # Errors
    /// `InvalidType` if the array is not of the column's type, or a struct has other fields.
    /// `InvalidValue` for two fields of one name, for values that do not fit the plain form (2 GiB
    /// of bytes, for example), and for a null that the schema does not allow: the message names its
    /// row, or for an item of a list its number among the items of all rows.
    pub fn new(
        array: &ArrayRef,
        column: &StoredColumn,
        path: &str,
        valid: Option<&NullBuffer>,
    ) -> Result<Self> {
        let array = plain(&masked(array, valid, path)?, &column.data_type, path)?;
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if !column.nullable
            && let Some(nulls) = &nulls
            && let Some(row) = (0..array.len())
                .find(|row| nulls.is_null(*row) && valid.is_none_or(|valid| valid.is_valid(*row)))
        {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                format!("row {row} of {path} is null, which its schema does not allow"),
            ));
        }
        let data = match &column.shape {
            Shape::Bool => CellData::Bool(array.as_boolean().clone()),
            Shape::Fixed(width, _) => {
                let data = array.to_data();
                CellData::Fixed(
                    data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width),
                    *width,
                )
            }
            Shape::Bytes => match column.data_type {
                DataType::Utf8 => {
                    check_utf8(&array, path)?;
                    let strings = array.as_string::<i32>();
                    CellData::Bytes(strings.offsets().clone(), strings.values().clone())
                }
                _ => CellData::Bytes(
                    array.as_binary::<i32>().offsets().clone(),
                    array.as_binary::<i32>().values().clone(),
                ),
            },
            Shape::Struct(columns) => {
                let array = array.as_struct();
                let names = array.column_names();
                if let Some(name) = names
                    .iter()
                    .find(|name| columns.iter().all(|column| column.name != **name))
                {
                    let known: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
                    let message = format!(
                        "column {path} has a field {name:?} that its schema does not have; it has \
                         {known:?}"
                    );
                    return Err(Error::new(ErrorKind::InvalidType, message));
                }
                if let Some((_, name)) = names
                    .iter()
                    .enumerate()
                    .find(|(n, name)| names[..*n].contains(name))
                {
                    return Err(Error::new(
                        ErrorKind::InvalidValue,
                        format!(
                            "column {path} has two fields {name:?}; the names of fields must differ"
                        ),
                    ));
                }
                let valid = NullBuffer::union(valid, nulls.as_ref());
                let fields = columns.iter().map(|column| {
                    let path = below(path, &column.name);
                    let found = names.iter().position(|name| *name == column.name);
                    let place = found.ok_or_else(|| {
                        Error::new(ErrorKind::InvalidType, format!("column {path} is missing"))
                    })?;
                    Self::new(array.column(place), column, &path, valid.as_ref())
                });
                CellData::Struct(fields.collect::<Result<_>>()?)
            }
            Shape::List(item) => {
                let path = format!("{path}[]");
                let valid = NullBuffer::union(valid, nulls.as_ref());
                match (&column.data_type, &item.shape) {
                    (DataType::Map(..), Shape::Struct(columns)) => {
                        // Producers name a map's keys and values differently: match by position.
                        let map = array.as_map();
                        let entries = map.entries();
                        let valid = items_of(map.offsets(), entries.len(), valid.as_ref());
                        let sides = entries.columns().iter().zip(columns);
                        let sides = sides
                            .map(|(side, column)| {
                                let path = below(&path, &column.name);
                                Self::new(side, column, &path, valid.as_ref())
                            })
                            .collect::<Result<_>>()?;
                        CellData::List(
                            map.offsets().clone(),
                            Box::new(Self {
                                nulls: None,
                                data: CellData::Struct(sides),
                            }),
                        )
                    }
                    _ => {
                        let list = array.as_list::<i32>();
                        let items = list.values();
                        let valid = items_of(list.offsets(), items.len(), valid.as_ref());
                        CellData::List(
                            list.offsets().clone(),
                            Box::new(Self::new(items, item, &path, valid.as_ref())?),
                        )
                    }
                }
            }
        };
        Ok(Self { nulls, data })
    }

    /// Returns whether a row has a value.
    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }
}

impl CellData {
    /// Returns the bytes of a row's string, binary or number.
    #[inline]
    pub fn bytes(&self, row: usize) -> &[u8] {
        match self {
            Self::Fixed(bytes, width) => &bytes[row * width..(row + 1) * width],
            Self::Bytes(offsets, bytes) => &bytes[offsets[row] as usize..offsets[row + 1] as usize],
            Self::Bool(_) | Self::Struct(_) | Self::List(..) => &[],
        }
    }
}

/// Returns which of a column's items are in a list that is not null; `None` means all of them.
/// `items` is the number of items, and `valid` has the lists that are not null.
///
/// A slice of a column has the items of the whole column, and a null list may have items, too.
fn items_of(
    offsets: &OffsetBuffer<i32>,
    items: usize,
    valid: Option<&NullBuffer>,
) -> Option<NullBuffer> {
    let valid = valid.filter(|valid| valid.null_count() > 0);
    let bounds = |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
    let rows = offsets.len() - 1;
    let used = offsets[rows] as usize - offsets[0] as usize;
    if valid.is_none() && used == items {
        return None;
    }
    let mut is_used = BooleanBufferBuilder::new(items);
    is_used.append_n(items, false);
    for row in (0..rows).filter(|row| valid.is_none_or(|valid| valid.is_valid(*row))) {
        for item in bounds(row) {
            is_used.set_bit(item, true);
        }
    }
    Some(NullBuffer::new(is_used.finish()))
}

/// Sets a dictionary's keys to null where the parent is null: such a key may be any number, even
/// one that has no value. Other arrays stay as they are.
fn masked(array: &ArrayRef, valid: Option<&NullBuffer>, path: &str) -> Result<ArrayRef> {
    let (DataType::Dictionary(..), Some(valid)) = (array.data_type(), valid) else {
        return Ok(array.clone());
    };
    nullif(array.as_ref(), &BooleanArray::new(!valid.inner(), None)).map_err(|error| {
        Error::new(
            ErrorKind::InvalidState,
            format!("column {path}: masking a dictionary failed: {error}"),
        )
    })
}

/// Converts an array to the wanted type from another physical form: dictionary, large, view, fixed
/// size, another time zone.
fn plain(array: &ArrayRef, wanted: &DataType, path: &str) -> Result<ArrayRef> {
    use DataType as T;
    let cast = |to: &DataType| {
        arrow_cast::cast(array, to).map_err(|error| {
            Error::new(
                ErrorKind::InvalidValue,
                format!("column {path}: reading it as {to} failed: {error}"),
            )
        })
    };
    match (array.data_type(), wanted) {
        (found, wanted) if found == wanted => Ok(array.clone()),
        (T::Null, _) => Ok(new_null_array(wanted, array.len())),
        (T::Dictionary(_, values), _) => plain(&cast(values)?, wanted, path),
        (T::LargeUtf8 | T::Utf8View, T::Utf8)
        | (T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_), T::Binary) => cast(wanted),
        (T::Timestamp(found, Some(_)), T::Timestamp(unit, Some(_))) if found == unit => {
            let retyped = array
                .to_data()
                .into_builder()
                .data_type(wanted.clone())
                .build();
            retyped
                .map(make_array)
                .map_err(|error| Error::new(ErrorKind::InvalidState, error.to_string()))
        }
        // The items and fields are converted when `Cells::new` reads them.
        (T::Struct(_), T::Struct(_)) | (T::List(_), T::List(_)) | (T::Map(..), T::Map(..)) => {
            Ok(array.clone())
        }
        (
            T::LargeList(item)
            | T::FixedSizeList(item, _)
            | T::ListView(item)
            | T::LargeListView(item),
            T::List(_),
        ) => cast(&T::List(item.clone())),
        (found, wanted) => Err(wrong_type(found, &wanted.to_string(), path)),
    }
}

/// Checks that strings are UTF-8. Other programs do not check that when they make a column, and no
/// read could return such a row.
///
/// # Errors
/// `InvalidValue` names the row with other bytes.
pub fn check_utf8(array: &dyn Array, what: &str) -> Result<()> {
    let strings = bytes_column(array, what)?;
    for row in 0..strings.len() {
        if let Some(bytes) = strings.get(row)
            && let Err(error) = std::str::from_utf8(bytes)
        {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                format!("row {row} of {what} is no valid UTF-8: {error}"),
            ));
        }
    }
    Ok(())
}

/// Returns the error for a column of another type.
pub fn wrong_type(found: &DataType, wanted: &str, path: &str) -> Error {
    Error::new(
        ErrorKind::InvalidType,
        format!(
            "column {path} has Arrow type {found}; wanted {wanted} (large, view and dictionary \
             forms included)"
        ),
    )
}
