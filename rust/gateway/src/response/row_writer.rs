//! Writes batches of rows as bytes of a response.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_json::WriterBuilder;
use arrow_json::writer::LineDelimited;
use arrow_schema::{ArrowError, Schema};
use holdfast_core::{Error, ErrorKind, Result};

use super::format::Format;
use super::time_encoder::TimeEncoders;

/// The most rows that are written as JSON at once: the text may be larger than the batch.
const JSON_ROWS: usize = 1024;

/// Writes batches in a format.
pub enum RowWriter {
    /// A JSON array, or a line for each row.
    Json {
        /// Whether it is an array.
        array: bool,
        /// Whether a row has been written.
        begun: bool,
    },
    /// An Arrow IPC stream.
    Arrow(Box<StreamWriter<Vec<u8>>>),
}

impl RowWriter {
    /// A writer of rows with these columns.
    ///
    /// # Errors
    /// `Serialization` if the format does not have the types.
    pub fn new(format: Format, schema: &Schema) -> Result<Self> {
        Ok(match format {
            Format::Json => Self::Json {
                array: true,
                begun: false,
            },
            Format::JsonLines => Self::Json {
                array: false,
                begun: false,
            },
            Format::Arrow => Self::Arrow(Box::new(
                StreamWriter::try_new(Vec::new(), schema).map_err(not_written)?,
            )),
        })
    }

    /// Writes a batch, and passes the bytes to `emit` in parts.
    ///
    /// # Errors
    /// `Serialization` for values that the format does not have; those of `emit`.
    pub fn write(
        &mut self,
        batch: &RecordBatch,
        emit: &mut dyn FnMut(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Json { array, begun } => {
                let mut from = 0;
                while from < batch.num_rows() {
                    let rows = JSON_ROWS.min(batch.num_rows() - from);
                    let lines = json_lines(&batch.slice(from, rows))?;
                    from += rows;
                    if *array {
                        let mut text = Vec::with_capacity(lines.len() + 2 * rows);
                        for line in lines.split_inclusive(|byte| *byte == b'\n') {
                            text.extend_from_slice(if *begun { b",\n" } else { b"[" });
                            text.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
                            *begun = true;
                        }
                        emit(text)?;
                    } else {
                        emit(lines)?;
                    }
                }
                Ok(())
            }
            Self::Arrow(writer) => {
                writer.write(batch).map_err(not_written)?;
                emit(std::mem::take(writer.get_mut()))
            }
        }
    }

    /// The bytes after the last row.
    ///
    /// # Errors
    /// As [`RowWriter::write`].
    pub fn end(self) -> Result<Vec<u8>> {
        match self {
            Self::Json { array: false, .. } => Ok(Vec::new()),
            Self::Json { begun: true, .. } => Ok(b"]\n".to_vec()),
            Self::Json { .. } => Ok(b"[]\n".to_vec()),
            Self::Arrow(mut writer) => {
                writer.finish().map_err(not_written)?;
                Ok(std::mem::take(writer.get_mut()))
            }
        }
    }
}

/// Rows as JSON objects, in order.
///
/// # Errors
/// `Serialization` for types that JSON does not have.
pub fn json_rows(batch: &RecordBatch) -> Result<Vec<String>> {
    let lines = String::from_utf8(json_lines(batch)?)
        .map_err(|error| Error::new(ErrorKind::Serialization, format!("rows as JSON: {error}")))?;
    Ok(lines.lines().map(str::to_owned).collect())
}

/// A line for each row. JSON escapes the line breaks of texts.
fn json_lines(batch: &RecordBatch) -> Result<Vec<u8>> {
    if batch.num_columns() == 0 {
        return Ok(b"{}\n".repeat(batch.num_rows()));
    }
    let mut writer = WriterBuilder::new()
        .with_explicit_nulls(true)
        .with_encoder_factory(Arc::new(TimeEncoders))
        .build::<_, LineDelimited>(Vec::new());
    writer.write(batch).map_err(not_written)?;
    writer.finish().map_err(not_written)?;
    Ok(writer.into_inner())
}

fn not_written(error: ArrowError) -> Error {
    let text = format!("the rows cannot be sent: {error}; ask for other columns, or for Arrow");
    Error::new(ErrorKind::Serialization, text)
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Array, ArrayRef, Date32Array, Int64Array, StringArray, TimestampMicrosecondArray,
    };
    use arrow_ipc::reader::StreamReader;

    use super::*;

    fn rows(count: usize) -> RecordBatch {
        let numbers = (0..count as i64).map(|n| (n != 1).then_some(n));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter(numbers));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a\n\"b\""; count]));
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", texts, true)])
            .expect("columns of one length")
    }

    fn written(format: Format, batches: &[RecordBatch]) -> Vec<u8> {
        let mut writer = RowWriter::new(format, rows(0).schema_ref()).expect("a writer");
        let mut bytes = Vec::new();
        for batch in batches {
            let mut emit = |part: Vec<u8>| {
                bytes.extend(part);
                Ok(())
            };
            writer.write(batch, &mut emit).expect("written");
        }
        bytes.extend(writer.end().expect("ended"));
        bytes
    }

    #[test]
    fn batches_become_one_array() {
        let batches = [rows(0), rows(2), rows(JSON_ROWS + 1)];
        let parsed: Vec<serde_json::Value> =
            serde_json::from_slice(&written(Format::Json, &batches)).expect("JSON");
        assert_eq!(parsed.len(), JSON_ROWS + 3);
        assert_eq!(parsed[1]["n"], serde_json::Value::Null);
        assert_eq!(parsed[2]["t"], "a\n\"b\"");
        assert_eq!(written(Format::Json, &[]), b"[]\n");
        let lines = written(Format::JsonLines, &batches);
        let newlines = lines.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(newlines, JSON_ROWS + 3);
        assert!(written(Format::JsonLines, &[]).is_empty());
    }

    #[test]
    fn arrow_stream_is_whole_without_rows() {
        for batches in [vec![], vec![rows(3), rows(5)]] {
            let bytes = written(Format::Arrow, &batches);
            let reader = StreamReader::try_new(bytes.as_slice(), None).expect("a stream");
            let read: Vec<RecordBatch> = reader.map(|batch| batch.expect("a batch")).collect();
            assert_eq!(read, batches);
        }
    }

    #[test]
    fn time_beyond_the_calendar_is_a_number() {
        let times = TimestampMicrosecondArray::from(vec![Some(1), None, Some(i64::MAX)]);
        let times: ArrayRef = Arc::new(times.with_timezone("UTC"));
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(1), Some(i32::MAX), None]));
        let batch = RecordBatch::try_from_iter([("t", times), ("d", days)]).expect("columns");
        let rows = json_rows(&batch).expect("JSON");
        let expected = [
            r#"{"t":"1970-01-01T00:00:00.000001Z","d":"1970-01-02"}"#,
            r#"{"t":null,"d":2147483647}"#,
            r#"{"t":9223372036854775807,"d":null}"#,
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn rows_without_columns_are_rows() {
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(2));
        let batch = RecordBatch::try_new_with_options(
            Arc::new(Schema::empty()),
            Vec::<Arc<dyn Array>>::new(),
            &options,
        );
        assert_eq!(
            json_rows(&batch.expect("rows")).expect("JSON"),
            ["{}", "{}"]
        );
    }
}
