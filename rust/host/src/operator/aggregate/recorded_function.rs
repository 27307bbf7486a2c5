//! A function of an aggregation as the root records it, such as `sum(Int64)` or
//! `max_by(Utf8, Int64)`.

use arrow_schema::DataType;
use holdfast_core::{Error, ErrorKind, Result};

use super::spec::{AggregateColumn, AggregateFunction};
use crate::codec::column::{Column, split_types, type_name};
use crate::operator::input::InputLayout;

/// A function and the types of the columns that it reads. `count` of rows reads none.
pub struct RecordedFunction {
    /// The function.
    pub function: AggregateFunction,
    /// The types of its columns.
    pub arguments: Vec<DataType>,
}

impl RecordedFunction {
    /// Returns the record of a column of the result.
    pub fn write(aggregate: &AggregateColumn, layout: &InputLayout) -> Column {
        let columns = aggregate.columns().map(|column| {
            let field = layout.field(layout.left.start + column);
            type_name(field.data_type())
        });
        let arguments = match &aggregate.declared {
            Some(declared) => declared.clone(),
            None if aggregate.column.is_none() => "*".to_owned(),
            None => columns.collect::<Vec<_>>().join(", "),
        };
        // Averages of intervals were stored as floats in an earlier format.
        let is_exact =
            aggregate.function == AggregateFunction::Avg && arguments.starts_with("Duration");
        let exact = if is_exact { "exact " } else { "" };
        Column {
            name: aggregate.name.clone(),
            data_type: format!("{exact}{}({arguments})", aggregate.function.name()),
        }
    }

    /// Reads the record of a column; none for a function of the user.
    ///
    /// # Errors
    /// `Restore` for a record that cannot be read.
    pub fn read(column: &Column) -> Result<Option<Self>> {
        let unreadable = || {
            let text = format!(
                "the root's column {:?} has a function that cannot be read ({})",
                column.name, column.data_type
            );
            Error::new(ErrorKind::Restore, text)
        };
        let text = column
            .data_type
            .strip_prefix("exact ")
            .unwrap_or(&column.data_type);
        let (name, arguments) = text
            .strip_suffix(')')
            .and_then(|text| text.split_once('('))
            .ok_or_else(unreadable)?;
        let function = AggregateFunction::BUILT_IN
            .into_iter()
            .find(|function| function.name() == name);
        let Some(function) = function else {
            return Ok(None);
        };
        let arguments = match arguments {
            "*" => Vec::new(),
            _ => split_types(arguments),
        };
        let data_type = |text: &str| {
            let column = Column {
                name: column.name.clone(),
                data_type: text.to_owned(),
            };
            column.field().map(|field| field.data_type().clone())
        };
        let arguments = arguments.into_iter().map(data_type);
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let is_complete = match arguments.len() {
            0 => function == AggregateFunction::Count,
            count => count == 1 + usize::from(function.is_ranked()),
        };
        if !is_complete {
            return Err(unreadable());
        }
        Ok(Some(Self {
            function,
            arguments,
        }))
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, TimeUnit};

    use super::*;

    fn read(text: &str) -> Result<Option<RecordedFunction>> {
        RecordedFunction::read(&Column {
            name: "n".to_owned(),
            data_type: text.to_owned(),
        })
    }

    #[test]
    fn functions_are_read_with_the_types_of_their_columns() {
        let value = DataType::Struct(
            vec![
                Field::new("a, b)", DataType::Decimal128(10, 2), true),
                Field::new("c", DataType::Utf8, true),
            ]
            .into(),
        );
        let order = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let max_by = format!("max_by({}, {})", type_name(&value), type_name(&order));
        for (text, function, arguments) in [
            ("count(*)", AggregateFunction::Count, vec![]),
            (
                "count(Int64)",
                AggregateFunction::Count,
                vec![DataType::Int64],
            ),
            (
                "sum(Decimal128(10, 2))",
                AggregateFunction::Sum,
                vec![DataType::Decimal128(10, 2)],
            ),
            (
                "exact avg(Duration(µs))",
                AggregateFunction::Avg,
                vec![DataType::Duration(TimeUnit::Microsecond)],
            ),
            (&max_by, AggregateFunction::MaxBy, vec![value, order]),
        ] {
            let found = read(text).expect("readable").expect("built in");
            assert_eq!(
                (found.function, found.arguments),
                (function, arguments),
                "{text}"
            );
        }
        assert!(
            read("aggregator(a double -> double)")
                .expect("readable")
                .is_none()
        );
    }

    #[test]
    fn function_with_other_columns_cannot_be_read() {
        for text in [
            "sum",
            "sum(*)",
            "sum(Int64, Int64)",
            "max_by(Int64)",
            "max_by(Int64, Int64, Int64)",
            "max_by(Int64, )",
        ] {
            let error = read(text).err().expect(text);
            assert_eq!(error.kind(), ErrorKind::Restore, "{text}");
        }
    }
}
