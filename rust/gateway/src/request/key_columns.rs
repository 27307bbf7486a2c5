//! Keys as text and as JSON.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::ReaderBuilder;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use holdfast_host::reader::TableDescription;
use serde_json::{Map, Value};

use super::exact::{exact, not_such};
use crate::problem::Problem;

/// The columns that name a row.
pub struct KeyColumns {
    fields: Vec<Field>,
}

impl KeyColumns {
    /// The columns of a table's key.
    pub fn of_key(table: &TableDescription) -> Self {
        let fields = table.key.iter().filter_map(|name| {
            let (_, field) = table.schema.fields().find(name)?;
            Some(Field::new(name, field.data_type().clone(), true))
        });
        Self {
            fields: fields.collect(),
        }
    }

    /// The columns that name one row: those of the key, then the start of its window or the start
    /// and the end of its session.
    pub fn of_row(table: &TableDescription) -> Self {
        let mut columns = Self::of_key(table);
        let times: &[&str] = match table.kind {
            "window" | "timestamped_window" => &["start"],
            "session" => &["start", "end"],
            _ => &[],
        };
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let times = times
            .iter()
            .map(|name| Field::new(*name, time.clone(), true));
        columns.fields.extend(times);
        columns
    }

    /// The columns' names.
    pub fn names(&self) -> Vec<&str> {
        self.fields
            .iter()
            .map(|field| field.name().as_str())
            .collect()
    }

    /// Parses one key: a text for each column.
    ///
    /// # Errors
    /// A problem names the column that is wrong.
    pub fn parse_text(&self, key: &[String]) -> Result<RecordBatch, Problem> {
        self.check_count(key.len())?;
        self.parse_bounds(&[key])
    }

    /// Parses bounds of a scan. Each has texts for the first columns, and all have equally many.
    ///
    /// # Errors
    /// A problem names the column that is wrong.
    pub fn parse_bounds(&self, bounds: &[&[String]]) -> Result<RecordBatch, Problem> {
        let count = bounds.first().map_or(0, |bound| bound.len());
        if bounds.iter().any(|bound| bound.len() != count) || count > self.fields.len() {
            let names = self.names();
            let text = format!(
                "a bound has values for the first of the key columns {names:?}, and all bounds \
                 have equally many"
            );
            return Err(Problem::value(text));
        }
        let value = |(field, text): (&Field, &String)| {
            let value = match field.data_type() {
                DataType::Boolean | DataType::Struct(_) | DataType::List(_) => {
                    serde_json::from_str(text)
                        .map_err(|error| not_such(field, text, &error.to_string()))?
                }
                _ => Value::String(text.clone()),
            };
            Ok(value)
        };
        let rows = bounds.iter().map(|bound| {
            let columns = self.fields.iter().zip(bound.iter());
            columns.map(value).collect::<Result<Vec<Value>, Problem>>()
        });
        self.decode(rows.collect::<Result<_, _>>()?, count)
    }

    /// Parses keys: each is a JSON array with a value for each column, an object with the columns'
    /// names, or the value of the only column.
    ///
    /// # Errors
    /// A problem names the column that is wrong.
    pub fn parse_json(&self, keys: Vec<Value>) -> Result<RecordBatch, Problem> {
        let rows = keys.into_iter().map(|key| match key {
            Value::Array(values) if !self.is_one_list() => {
                self.check_count(values.len())?;
                Ok(values)
            }
            Value::Object(mut members) if !self.is_one_struct() => {
                let values = self.fields.iter().map(|field| {
                    members.remove(field.name()).ok_or_else(|| {
                        Problem::value(format!("a key has no column {:?}", field.name()))
                    })
                });
                let values: Vec<Value> = values.collect::<Result<_, _>>()?;
                match members.keys().next() {
                    Some(name) => {
                        let names = self.names();
                        let text = format!("a key has a column {name:?}; they are {names:?}");
                        Err(Problem::value(text))
                    }
                    None => Ok(values),
                }
            }
            value => {
                self.check_count(1)?;
                Ok(vec![value])
            }
        });
        let rows = rows.collect::<Result<Vec<Vec<Value>>, Problem>>()?;
        self.decode(rows, self.fields.len())
    }

    fn is_one_list(&self) -> bool {
        matches!(self.fields.as_slice(), [one] if matches!(one.data_type(), DataType::List(_)))
    }

    fn is_one_struct(&self) -> bool {
        matches!(self.fields.as_slice(), [one] if matches!(one.data_type(), DataType::Struct(_)))
    }

    fn check_count(&self, count: usize) -> Result<(), Problem> {
        if count == self.fields.len() {
            return Ok(());
        }
        let names = self.names();
        let text = format!("a row of this table is named by {names:?}, not by {count} values");
        Err(Problem::value(text))
    }

    /// Decodes rows of the first `count` columns.
    fn decode(&self, rows: Vec<Vec<Value>>, count: usize) -> Result<RecordBatch, Problem> {
        let fields = &self.fields[..count];
        // Two columns may have one name: a key column `start`, and the start of a window.
        let numbered = fields.iter().enumerate();
        let numbered = numbered.map(|(n, field)| field.clone().with_name(n.to_string()));
        let objects = rows.into_iter().map(|row| {
            let members = row.into_iter().zip(fields).enumerate();
            let members =
                members.map(|(n, (value, field))| Ok((n.to_string(), exact(field, value)?)));
            Ok(Value::Object(
                members.collect::<Result<Map<_, _>, Problem>>()?,
            ))
        });
        let objects = objects.collect::<Result<Vec<Value>, Problem>>()?;
        let wrong = |error| Problem::value(format!("the key columns are {fields:?}: {error}"));
        let decoded = ReaderBuilder::new(Arc::new(Schema::new(numbered.collect::<Vec<_>>())))
            .with_batch_size(objects.len().max(1))
            .build_decoder()
            .and_then(|mut decoder| {
                decoder.serialize(&objects)?;
                decoder.flush()
            })
            .map_err(|error| wrong(error.to_string()))?;
        let schema = Arc::new(Schema::new(fields.to_vec()));
        match decoded {
            Some(batch) => RecordBatch::try_new(schema, batch.columns().to_vec())
                .map_err(|error| wrong(error.to_string())),
            None => Ok(RecordBatch::new_empty(schema)),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{
        Date32Type, Decimal128Type, Float64Type, Int32Type, TimestampMicrosecondType,
    };

    use super::*;

    fn columns(kinds: &[DataType]) -> KeyColumns {
        let names = ["a", "b", "c", "d", "e", "f"];
        let fields = kinds.iter().zip(names);
        KeyColumns {
            fields: fields
                .map(|(kind, name)| Field::new(name, kind.clone(), true))
                .collect(),
        }
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn utc() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    }

    fn ntz() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, None)
    }

    #[test]
    fn numbers_are_exact() {
        for json in [
            "0.1",
            "17.170000000000002",
            "5.0e-324",
            "123456789012345680.0",
        ] {
            let value = serde_json::from_str(json).expect("JSON");
            let keys = columns(&[DataType::Float64]).parse_json(vec![value]);
            let keys = keys.unwrap_or_else(|_| panic!("{json}"));
            let expected: f64 = json.parse().expect("a number");
            let found = keys.column(0).as_primitive::<Float64Type>().value(0);
            assert_eq!(found.to_bits(), expected.to_bits(), "{json}");
        }
        let digits = "12345678901234567.89";
        let decimal = columns(&[DataType::Decimal128(20, 2)]);
        let keys = decimal
            .parse_json(vec![digits.into()])
            .unwrap_or_else(|_| panic!("{digits}"));
        let found = keys.column(0).as_primitive::<Decimal128Type>().value(0);
        assert_eq!(found, 1_234_567_890_123_456_789);
    }

    #[test]
    fn whole_number_that_a_float_rounds_is_refused() {
        let key = |kind: DataType, number: i64| columns(&[kind]).parse_json(vec![number.into()]);
        for (kind, digits) in [(DataType::Float64, 53), (DataType::Float32, 24)] {
            for held in [0, 1 << digits, -1 << digits, i64::MIN] {
                assert!(key(kind.clone(), held).is_ok(), "{held} in {kind}");
            }
            for rounded in [(1 << digits) + 1, (-1 << digits) - 1, i64::MAX] {
                assert!(key(kind.clone(), rounded).is_err(), "{rounded} in {kind}");
                let text = columns(std::slice::from_ref(&kind)).parse_text(&[rounded.to_string()]);
                assert!(text.is_err(), "{rounded} in {kind}");
            }
        }
    }

    #[test]
    fn time_without_a_zone_is_as_written() {
        let keys = columns(&[ntz()]).parse_text(&texts(&["1970-01-01T00:00:01.5"]));
        let keys = keys.unwrap_or_else(|_| panic!("a time"));
        let time = keys.column(0).as_primitive::<TimestampMicrosecondType>();
        assert_eq!(time.value(0), 1_500_000);
    }

    #[test]
    fn text_becomes_the_type_of_its_column() {
        let columns = columns(&[
            DataType::Utf8,
            DataType::Int32,
            DataType::Date32,
            utc(),
            DataType::Decimal128(10, 2),
            DataType::Boolean,
        ]);
        let key = [
            "a/b",
            "-7",
            "1970-01-02",
            "1970-01-01T00:00:01Z",
            "1.50",
            "true",
        ];
        let key = columns.parse_text(&texts(&key)).expect("a key");
        assert_eq!(key.column(0).as_string::<i32>().value(0), "a/b");
        assert_eq!(key.column(1).as_primitive::<Int32Type>().value(0), -7);
        assert_eq!(key.column(2).as_primitive::<Date32Type>().value(0), 1);
        let time = key.column(3).as_primitive::<TimestampMicrosecondType>();
        assert_eq!(time.value(0), 1_000_000);
        assert_eq!(key.column(4).as_primitive::<Decimal128Type>().value(0), 150);
        assert!(key.column(5).as_boolean().value(0));
    }

    #[test]
    fn values_that_do_not_fit_exactly_are_refused() {
        let wrong = [
            (DataType::Int32, "1.5"),
            (DataType::Int32, "3000000000"),
            (DataType::Int8, "300"),
            (DataType::Date32, "tomorrow"),
            (DataType::Date32, "2026-03-01T23:00:00-05:00"),
            (DataType::Decimal128(10, 2), "1.505"),
            (DataType::Decimal128(10, 2), "15e-3"),
            (utc(), "2026-01-01T00:00:00"),
            (ntz(), "2026-01-01T00:00:00Z"),
            (ntz(), "2026-01-01T00:00:00.0000001"),
            (DataType::Boolean, "yes"),
        ];
        for (kind, text) in wrong {
            let problem = columns(std::slice::from_ref(&kind)).parse_text(&texts(&[text]));
            assert!(problem.is_err(), "{kind} {text}");
        }
        let numbers = [
            (DataType::Int32, "1.5"),
            (DataType::Int64, "1e3"),
            (utc(), "1.5"),
            (DataType::Decimal128(10, 2), "1.505"),
            (DataType::Decimal128(20, 2), "1.5"),
        ];
        for (kind, json) in numbers {
            let value = serde_json::from_str(json).expect("JSON");
            let problem = columns(std::slice::from_ref(&kind)).parse_json(vec![value]);
            assert!(problem.is_err(), "{kind} {json}");
        }
    }

    #[test]
    fn members_of_a_struct_and_items_of_a_list_are_exact() {
        let number = |name: &str| Field::new(name, DataType::Int64, true);
        let members = [Field::new("k", DataType::Utf8, true), number("n")];
        let pair = columns(&[DataType::Struct(members.to_vec().into())]);
        let many = columns(&[DataType::List(Arc::new(number("item")))]);
        for (columns, json, is_right) in [
            (&pair, r#"[{"k": "a", "n": 3}]"#, true),
            (&pair, r#"[{"k": "a", "n": 3.7}]"#, false),
            (&pair, r#"[{"k": "a"}]"#, false),
            (&pair, r#"[{"k": "a", "n": 3, "m": 3}]"#, false),
            (&many, "[[1, 2]]", true),
            (&many, "[[1, 2.5]]", false),
        ] {
            let keys = serde_json::from_str(json).expect("JSON");
            assert_eq!(columns.parse_json(keys).is_ok(), is_right, "{json}");
        }
        let text = texts(&[r#"{"k": "a", "n": 3.7}"#]);
        assert!(pair.parse_text(&text).is_err());
    }

    #[test]
    fn json_keys_are_values_arrays_or_objects() {
        let parse = |columns: &KeyColumns, json: &str| {
            columns.parse_json(serde_json::from_str(json).expect("JSON"))
        };
        let one = columns(&[DataType::Utf8]);
        let keys = parse(&one, r#"["x", ["y"], {"a": "z"}, null]"#).expect("keys");
        let found: Vec<Option<&str>> = keys.column(0).as_string::<i32>().iter().collect();
        assert_eq!(found, [Some("x"), Some("y"), Some("z"), None]);
        let two = columns(&[DataType::Utf8, DataType::Int32]);
        let keys = parse(&two, r#"[["x", 1], {"b": 2, "a": "y"}]"#).expect("keys");
        assert_eq!(keys.column(1).as_primitive::<Int32Type>().values(), &[1, 2]);
        assert_eq!(parse(&two, "[]").expect("no keys").num_rows(), 0);
        let wrong = [
            r#"["x"]"#,
            r#"[["x"]]"#,
            r#"[{"a": "x"}]"#,
            r#"[["x", 1, 2]]"#,
        ];
        for json in wrong {
            assert!(parse(&two, json).is_err(), "{json}");
        }
        assert!(parse(&two, r#"[{"a": "x", "b": 1, "c": 2}]"#).is_err());
    }
}
