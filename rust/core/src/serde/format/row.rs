//! Struct values: rows that describe their columns, so a later schema can read them.
//!
//! ```text
//! row     01 | length | columns (see description.rs) | cells
//! cells   one bit for each column, lowest first, 1 for a value | the cells of columns with a value
//! cell    bool 00 or 01 · number little-endian · string, binary length | bytes · struct cells ·
//!         list count | one bit an item | the items with a value; a map is a list of pairs
//! ```
//!
//! All rows of one schema begin with the same description. A reader with the same schema compares
//! it and reads the cells. A reader with another schema finds each column by its name. It skips
//! columns that its schema lacks, and sets columns that the row lacks to null.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::format::cells::{CellData, Cells};
use crate::serde::format::description::{describe, parse, put_length, same_type, take_length};
use crate::serde::format::ordered::take;
use crate::serde::format::sink::{Sink, SinkData};
use crate::serde::format::stored_column::{Shape, StoredColumn, below};

const VERSION: u8 = 1;

/// Encodes and decodes rows of one schema.
#[derive(Debug)]
pub struct RowCodec {
    columns: Vec<StoredColumn>,
    /// The bytes that every row of this schema begins with: version, length and columns.
    head: Vec<u8>,
    /// How rows of this schema are read.
    plan: Plan,
}

impl RowCodec {
    /// Returns the codec of rows of these columns.
    pub fn new(columns: &[StoredColumn]) -> Result<Self> {
        let mut description = Vec::new();
        describe(columns, &mut description);
        let mut head = vec![VERSION];
        put_length(&mut head, description.len());
        head.extend_from_slice(&description);
        Ok(Self {
            columns: columns.to_vec(),
            head,
            plan: Plan::new(columns, columns, "")?,
        })
    }

    /// Returns the bytes that every row of this schema begins with.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Appends a row.
    pub fn put(&self, out: &mut Vec<u8>, fields: &[Cells], row: usize) {
        out.extend_from_slice(&self.head);
        put_cells(out, fields.iter().map(|cells| (cells, row)));
    }

    /// Returns a reader of rows, which caches the last other schema that it read.
    pub fn reader(&self) -> RowReader<'_> {
        RowReader {
            codec: self,
            other: None,
        }
    }
}

/// Reads rows that were written with this or another schema.
pub struct RowReader<'a> {
    codec: &'a RowCodec,
    other: Option<(Vec<u8>, Plan)>,
}

impl RowReader<'_> {
    /// Decodes the bytes as one row and appends it to `sink`, a struct column.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not a row, or its columns do not fit: the message names the
    /// column.
    pub fn read(&mut self, bytes: &[u8], sink: &mut Sink) -> Result<()> {
        let (plan, mut input) = match bytes.strip_prefix(self.codec.head.as_slice()) {
            Some(input) => (&self.codec.plan, input),
            None => self.other_plan(bytes)?,
        };
        if let SinkData::Struct(fields) = &mut sink.data {
            plan.read(&mut input, Some(fields))?;
        }
        if !input.is_empty() {
            return Err(Error::new(
                ErrorKind::Serialization,
                format!("{} bytes are left over", input.len()),
            ));
        }
        sink.end(0)
    }

    fn other_plan<'b>(&mut self, bytes: &'b [u8]) -> Result<(&Plan, &'b [u8])> {
        let mut input = bytes;
        let version = take(&mut input, 1)?[0];
        if version != VERSION {
            let message = format!(
                "its first byte, the version of the row's format, is {version}; this version of \
                 Holdfast reads {VERSION}"
            );
            return Err(Error::new(ErrorKind::Serialization, message));
        }
        let length = take_length(&mut input)?;
        let description = take(&mut input, length)?;
        let other = match self.other.take() {
            Some(known) if known.0 == description => known,
            _ => {
                let written = parse(&mut { description })?;
                (
                    description.to_vec(),
                    Plan::new(&written, &self.codec.columns, "")?,
                )
            }
        };
        Ok((&self.other.insert(other).1, input))
    }
}

/// Fails, naming the column, if rows of the columns `written` cannot be read as `wanted`.
pub fn check_evolution(written: &[StoredColumn], wanted: &[StoredColumn]) -> Result<()> {
    Plan::new(written, wanted, "").map(drop)
}

fn put_cells<'a>(out: &mut Vec<u8>, cells: impl ExactSizeIterator<Item = (&'a Cells, usize)>) {
    let bits = out.len();
    out.resize(bits + cells.len().div_ceil(8), 0);
    for (n, (cells, row)) in cells.enumerate() {
        if cells.is_valid(row) {
            out[bits + n / 8] |= 1 << (n % 8);
            put_cell(out, cells, row);
        }
    }
}

fn put_cell(out: &mut Vec<u8>, cells: &Cells, row: usize) {
    match &cells.data {
        CellData::Bool(bits) => out.push(bits.value(row).into()),
        data @ CellData::Fixed(..) => out.extend_from_slice(data.bytes(row)),
        data @ CellData::Bytes(..) => {
            let bytes = data.bytes(row);
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        CellData::Struct(fields) => put_cells(out, fields.iter().map(|cells| (cells, row))),
        CellData::List(offsets, items) => {
            let items_of_row = offsets[row] as usize..offsets[row + 1] as usize;
            put_length(out, items_of_row.len());
            put_cells(out, items_of_row.map(|item| (items.as_ref(), item)));
        }
    }
}

/// How rows of one schema are read as columns of another.
#[derive(Debug)]
struct Plan {
    /// A step for each column of the row, in order.
    steps: Vec<ColumnStep>,
    /// The places of wanted columns that the row does not have.
    missing: Vec<usize>,
}

#[derive(Debug)]
struct ColumnStep {
    /// The place among the wanted columns; `None` skips the column.
    place: Option<usize>,
    cell: Cell,
    name: String,
    nullable: bool,
}

#[derive(Debug)]
enum Cell {
    Bool,
    Fixed(usize),
    Bytes,
    Struct(Plan),
    List(Box<ColumnStep>),
}

impl Plan {
    fn new(written: &[StoredColumn], wanted: &[StoredColumn], path: &str) -> Result<Self> {
        let step = |column: &StoredColumn| {
            let place = wanted.iter().position(|wanted| wanted.name == column.name);
            ColumnStep::new(
                column,
                place,
                place.map(|place| &wanted[place]),
                &below(path, &column.name),
            )
        };
        let steps = written.iter().map(step).collect::<Result<_>>()?;
        let is_missing =
            |wanted: &StoredColumn| written.iter().all(|column| column.name != wanted.name);
        let missing: Vec<usize> = (0..wanted.len())
            .filter(|place| is_missing(&wanted[*place]))
            .collect();
        if let Some(place) = missing.iter().find(|place| !wanted[**place].nullable) {
            let path = below(path, &wanted[*place].name);
            let message = format!(
                "column {path} is not in rows that were stored before, and may not be null; make \
                 it nullable"
            );
            return Err(Error::new(ErrorKind::Serialization, message));
        }
        Ok(Self { steps, missing })
    }

    /// Reads the columns of a row; without sinks it skips them.
    fn read(&self, input: &mut &[u8], mut sinks: Option<&mut [Sink]>) -> Result<()> {
        let bits = take(input, self.steps.len().div_ceil(8))?;
        for (n, step) in self.steps.iter().enumerate() {
            let sink = match (&mut sinks, step.place) {
                (Some(sinks), Some(place)) => Some(&mut sinks[place]),
                _ => None,
            };
            step.read(input, bits[n / 8] >> (n % 8) & 1 == 1, sink)?;
        }
        if let Some(sinks) = sinks {
            self.missing
                .iter()
                .for_each(|place| sinks[*place].push_null());
        }
        Ok(())
    }
}

impl ColumnStep {
    fn new(
        written: &StoredColumn,
        place: Option<usize>,
        wanted: Option<&StoredColumn>,
        path: &str,
    ) -> Result<Self> {
        if let Some(wanted) = wanted
            && !same_type(written, wanted)
        {
            let message = format!(
                "column {path} was stored as {} and is now asked for as {}; a type cannot change: \
                 give the new column another name",
                written.data_type, wanted.data_type
            );
            return Err(Error::new(ErrorKind::Serialization, message));
        }
        let cell = match (&written.shape, wanted.map(|wanted| &wanted.shape)) {
            (Shape::Bool, _) => Cell::Bool,
            (Shape::Fixed(width, _), _) => Cell::Fixed(*width),
            (Shape::Bytes, _) => Cell::Bytes,
            (Shape::Struct(columns), Some(Shape::Struct(wanted))) => {
                Cell::Struct(Plan::new(columns, wanted, path)?)
            }
            (Shape::Struct(columns), _) => Cell::Struct(Plan::new(columns, &[], path)?),
            (Shape::List(item), Some(Shape::List(wanted))) => {
                let mut item = (**item).clone();
                item.name.clone_from(&wanted.name);
                Cell::List(Box::new(Self::new(
                    &item,
                    Some(0),
                    Some(wanted),
                    &format!("{path}[]"),
                )?))
            }
            (Shape::List(item), _) => Cell::List(Box::new(Self::new(item, None, None, path)?)),
        };
        Ok(Self {
            place,
            cell,
            name: path.to_owned(),
            nullable: wanted.is_none_or(|wanted| wanted.nullable),
        })
    }

    fn read(&self, input: &mut &[u8], has_value: bool, mut sink: Option<&mut Sink>) -> Result<()> {
        if !has_value {
            return match sink {
                Some(_) if !self.nullable => {
                    let message = format!(
                        "column {} is null in it, which the schema does not allow any more",
                        self.name
                    );
                    Err(Error::new(ErrorKind::Serialization, message))
                }
                Some(sink) => {
                    sink.push_null();
                    Ok(())
                }
                None => Ok(()),
            };
        }
        let mut items = 0;
        match &self.cell {
            Cell::Bool => {
                let value = take(input, 1)?[0];
                if let Some(sink) = sink {
                    sink.push_bool(value != 0);
                }
                return Ok(());
            }
            Cell::Fixed(width) => {
                let cell = take(input, *width)?;
                if let Some(sink) = sink {
                    sink.push_number(cell);
                }
                return Ok(());
            }
            Cell::Bytes => {
                let length = take_length(input)?;
                let bytes = take(input, length)?;
                if let Some(SinkData::Bytes(_, all)) =
                    sink.as_deref_mut().map(|sink| &mut sink.data)
                {
                    all.extend_from_slice(bytes);
                }
            }
            Cell::Struct(plan) => {
                let fields = match sink.as_deref_mut().map(|sink| &mut sink.data) {
                    Some(SinkData::Struct(fields)) => Some(fields.as_mut_slice()),
                    _ => None,
                };
                plan.read(input, fields)?;
            }
            Cell::List(step) => {
                items = take_length(input)?;
                let bits = take(input, items.div_ceil(8))?;
                let mut to = match sink.as_deref_mut().map(|sink| &mut sink.data) {
                    Some(SinkData::List(_, _, item)) => Some(item.as_mut()),
                    _ => None,
                };
                for n in 0..items {
                    step.read(input, bits[n / 8] >> (n % 8) & 1 == 1, to.as_deref_mut())?;
                }
            }
        }
        sink.map_or(Ok(()), |sink| sink.end(items))
    }
}
