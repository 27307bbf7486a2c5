//! Values as bytes: the arrow-row encoding of a row's columns, and back.
//!
//! The bytes are part of the log's and the database's formats, and the tests pin them. An Arrow
//! release that writes other bytes fails the tests and requires a new format version.

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, RowParser, Rows, SortField};
use arrow_schema::{ArrowError, DataType, Field};
use holdfast_core::{Error, ErrorKind, Result};

use crate::codec::arrow_panics::catch_panic;

/// Encodes and decodes rows of fixed column types. Equal rows have equal bytes. Byte order is SQL's
/// ascending order of the rows, nulls first. For floats this holds only if they were normalized
/// before (`float.rs`).
pub struct RowCodec {
    /// `None` for rows without columns, which arrow-row does not support; they have no bytes.
    encoding: Option<RowEncoding>,
}

struct RowEncoding {
    converter: RowConverter,
    parser: RowParser,
    /// A row of nulls, decoded in place of a missing row.
    null_row: Vec<u8>,
}

impl RowCodec {
    /// A codec for columns of these fields.
    ///
    /// # Errors
    /// `InvalidType` names the column whose type cannot be encoded; `Serialization` if Arrow fails
    /// on a damaged type.
    pub fn new<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Result<Self> {
        let mut sorts = Vec::new();
        let mut types: Vec<DataType> = Vec::new();
        for field in fields {
            let sort = SortField::new(field.data_type().clone());
            if !RowConverter::supports_fields(std::slice::from_ref(&sort)) {
                return Err(Error::new(
                    ErrorKind::InvalidType,
                    format!(
                        "column {}: the state cannot store values of type {}: cast or drop it",
                        field.name(),
                        field.data_type()
                    ),
                ));
            }
            types.push(field.data_type().clone());
            sorts.push(sort);
        }
        if sorts.is_empty() {
            return Ok(Self { encoding: None });
        }
        // Types that come from the root may be damaged.
        let (converter, null_row) = catch_panic(|| {
            let converter = RowConverter::new(sorts)?;
            let nulls: Vec<ArrayRef> = types
                .iter()
                .map(|data_type| arrow_array::new_null_array(data_type, 1))
                .collect();
            let null_row = converter.convert_columns(&nulls)?.row(0).data().to_vec();
            Ok((converter, null_row))
        })
        .map_err(|error| not_encoded(&error))?;
        let parser = converter.parser();
        Ok(Self {
            encoding: Some(RowEncoding {
                converter,
                parser,
                null_row,
            }),
        })
    }

    /// Encodes rows from these columns.
    ///
    /// # Errors
    /// `Serialization` if a column cannot be encoded.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<EncodedRows> {
        let rows = self
            .encoding
            .as_ref()
            .map(|encoding| encoding.converter.convert_columns(columns))
            .transpose();
        Ok(EncodedRows {
            rows: rows.map_err(|error| not_encoded(&error))?,
        })
    }

    /// Decodes rows into columns. `None` becomes a row of nulls.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not such rows.
    pub fn decode<'a>(
        &'a self,
        rows: impl IntoIterator<Item = Option<&'a [u8]>>,
    ) -> Result<Vec<ArrayRef>> {
        let Some(encoding) = &self.encoding else {
            return Ok(Vec::new());
        };
        let rows = rows
            .into_iter()
            .map(|row| encoding.parser.parse(row.unwrap_or(&encoding.null_row)));
        catch_panic(|| encoding.converter.convert_rows(rows)).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("a stored value cannot be read with the query's columns: {error}"),
            )
        })
    }
}

/// Encoded rows of a batch, stored end to end.
#[derive(Default)]
pub struct EncodedRows {
    rows: Option<Rows>,
}

impl EncodedRows {
    /// Returns the bytes of a row.
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        self.rows.as_ref().map_or(&[], |rows| rows.row(row).data())
    }

    /// Returns the memory that the rows take, in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.as_ref().map_or(0, Rows::size)
    }
}

fn not_encoded(error: &ArrowError) -> Error {
    Error::new(
        ErrorKind::Serialization,
        format!("rows cannot be encoded: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Decimal128Type;
    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Float64Array, Int64Array, PrimitiveArray,
        StringArray, TimestampMicrosecondArray,
    };

    use super::*;

    fn codec(columns: &[ArrayRef]) -> RowCodec {
        let fields: Vec<Field> = columns
            .iter()
            .map(|column| Field::new("c", column.data_type().clone(), true))
            .collect();
        RowCodec::new(&fields).expect("supported types")
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn columns() -> Vec<ArrayRef> {
        let decimals: PrimitiveArray<Decimal128Type> = [Some(12_345), None].into_iter().collect();
        vec![
            Arc::new(Int64Array::from(vec![Some(-2), None])),
            Arc::new(Float64Array::from(vec![Some(1.5), None])),
            Arc::new(StringArray::from(vec![Some("EUR"), None])),
            Arc::new(BinaryArray::from_opt_vec(vec![Some(b""), None])),
            Arc::new(BooleanArray::from(vec![Some(true), None])),
            Arc::new(Date32Array::from(vec![Some(19_000), None])),
            Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None]).with_timezone("UTC")),
            Arc::new(decimals.with_precision_and_scale(12, 2).expect("it fits")),
        ]
    }

    /// Pins the stored format. A failure after an update of Arrow is a change of the format, not a
    /// wrong test.
    #[test]
    fn bytes_of_every_kind_of_column_never_change() {
        let columns = columns();
        let golden: [(&str, &str); 8] = [
            ("017ffffffffffffffe", "000000000000000000"),
            ("01bff8000000000000", "000000000000000000"),
            ("02455552000000000003", "00"),
            ("01", "00"),
            ("0101", "0000"),
            ("0180004a38", "0000000000"),
            ("017fffffffffffffff", "000000000000000000"),
            (
                "0180000000000000000000000000003039",
                "0000000000000000000000000000000000",
            ),
        ];
        for (column, (value, null)) in columns.iter().zip(golden) {
            let rows = codec(std::slice::from_ref(column))
                .encode(std::slice::from_ref(column))
                .expect("encoded");
            assert_eq!(
                (hex(rows.get(0)).as_str(), hex(rows.get(1)).as_str()),
                (value, null),
                "{}",
                column.data_type()
            );
        }
    }

    /// Arrow encodes strings in blocks of 8, then of 32 bytes; this one needs both.
    #[test]
    fn bytes_of_a_long_string_never_change() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![
            "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
        ]));
        let rows = codec(std::slice::from_ref(&column))
            .encode(&[column])
            .expect("encoded");
        let golden = "026162636465666768ff696a6b6c6d6e6f70ff7172737475767778ff797a616263646566ff\
                      6768696a6b6c6d6e6f707172737475767778797a00000000000000000000000014";
        assert_eq!(hex(rows.get(0)), golden);
    }

    #[test]
    fn rows_round_trip_and_none_decodes_as_nulls() {
        let columns = columns();
        let codec = codec(&columns);
        let rows = codec.encode(&columns).expect("encoded");
        let decoded = codec
            .decode([Some(rows.get(1)), None, Some(rows.get(0))])
            .expect("decoded");
        for (column, decoded) in columns.iter().zip(&decoded) {
            assert_eq!(decoded.data_type(), column.data_type());
            assert!(decoded.is_null(0) && decoded.is_null(1));
            assert_eq!(&decoded.slice(2, 1), &column.slice(0, 1));
        }
    }

    #[test]
    fn row_without_columns_has_no_bytes() {
        let codec = RowCodec::new([]).expect("no columns");
        let rows = codec.encode(&[]).expect("encoded");
        assert!(rows.get(0).is_empty());
        assert!(
            codec
                .decode([Some(rows.get(0)), None])
                .expect("decoded")
                .is_empty()
        );
    }
}
