//! A function of an aggregation as the root records it, such as `sum(Int64)` or
//! `max_by(Utf8, Int64, 3)`.

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
    /// The number of values that the function returns, if it returns a list of them.
    pub limit: Option<usize>,
}

impl RecordedFunction {
    /// Checks that the root can record a function. Otherwise the table of the groups could not be
    /// read.
    ///
    /// # Errors
    /// `InvalidValue` names the column.
    pub fn check(aggregate: &AggregateColumn, layout: &InputLayout) -> Result<()> {
        // A function of the user has a record of its own.
        if aggregate.declared.is_some() {
            return Ok(());
        }
        let mut columns = aggregate
            .columns()
            .map(|column| Column::from(layout.field(layout.left.start + column)));
        if let Some(why) = columns.find_map(|column| column.unreadable()) {
            let text = format!("aggregate {:?}: {why}", aggregate.name);
            return Err(Error::new(ErrorKind::InvalidValue, text));
        }
        Ok(())
    }

    /// Returns the record of a column of the result.
    pub fn write(aggregate: &AggregateColumn, layout: &InputLayout) -> Column {
        let columns = aggregate.columns().map(|column| {
            let field = layout.field(layout.left.start + column);
            type_name(field.data_type())
        });
        let arguments = match &aggregate.declared {
            Some(declared) => declared.clone(),
            None if aggregate.column.is_none() => "*".to_owned(),
            None => {
                let limit = aggregate.limit.map(|limit| limit.to_string());
                columns.chain(limit).collect::<Vec<_>>().join(", ")
            }
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
        let mut arguments = match arguments {
            "*" => Vec::new(),
            _ => split_types(arguments),
        };
        let limit = match arguments.get(2) {
            Some(limit) if function.is_ranked() => {
                let limit = limit.parse::<usize>().map_err(|_| unreadable())?;
                arguments.remove(2);
                Some(limit)
            }
            _ => None,
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
            limit,
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
        let types = format!("{}, {}", type_name(&value), type_name(&order));
        let (one, three) = (format!("max_by({types})"), format!("max_by({types}, 3)"));
        let ranked = vec![value, order];
        for (text, function, arguments, limit) in [
            ("count(*)", AggregateFunction::Count, vec![], None),
            (
                "sum(Decimal128(10, 2))",
                AggregateFunction::Sum,
                vec![DataType::Decimal128(10, 2)],
                None,
            ),
            (
                "exact avg(Duration(µs))",
                AggregateFunction::Avg,
                vec![DataType::Duration(TimeUnit::Microsecond)],
                None,
            ),
            (one.as_str(), AggregateFunction::MaxBy, ranked.clone(), None),
            (three.as_str(), AggregateFunction::MaxBy, ranked, Some(3)),
        ] {
            let found = read(text).expect("readable").expect("built in");
            assert_eq!(
                (found.function, found.arguments, found.limit),
                (function, arguments, limit),
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
            "max_by(Int64, 3)",
            "max_by(Int64, Int64, 3, 3)",
            "max_by(Int64, Int64, -3)",
            "sum(Int64, 3)",
        ] {
            let error = read(text).err().expect(text);
            assert_eq!(error.kind(), ErrorKind::Restore, "{text}");
        }
    }
}
