//! A root that is served.

use std::path::Path;
use std::sync::Arc;

use holdfast_core::{ErrorKind, Result};
use holdfast_host::reader::{StateReader, TableDescription};

use crate::problem::Problem;
use crate::settings::RootSettings;

/// A root with its reader.
pub struct ServedRoot {
    name: String,
    address: String,
    reader: Arc<StateReader>,
}

/// A table of a root.
pub struct RootTable {
    /// The root's reader.
    pub reader: Arc<StateReader>,
    /// The table.
    pub description: TableDescription,
}

impl RootTable {
    /// The table as `StateReader` names it.
    pub fn named(&self) -> (&str, &str) {
        (&self.description.operator, &self.description.store)
    }
}

impl ServedRoot {
    /// Connects to a root.
    ///
    /// # Errors
    /// Those of `StateReader::connect`.
    pub fn connect(settings: &RootSettings, cache_dir: Option<&Path>) -> Result<Self> {
        Ok(Self {
            name: settings.name.clone(),
            address: settings.address.clone(),
            reader: StateReader::connect(&settings.address, &settings.options, cache_dir)?,
        })
    }

    /// The name in paths.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder, or the address in an object store.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The reader.
    pub fn reader(&self) -> &Arc<StateReader> {
        &self.reader
    }

    /// Finds a table: `operator`, or `operator.store` if the operator has several.
    ///
    /// # Errors
    /// A problem names the tables that there are; those of the reader.
    pub fn table(&self, name: &str) -> std::result::Result<RootTable, Problem> {
        // The name of an operator has no dot.
        let (operator, store) = match name.split_once('.') {
            Some((operator, store)) => (operator, Some(store)),
            None => (name, None),
        };
        let is_wanted = |table: &TableDescription| {
            table.operator == operator && store.is_none_or(|store| table.store == store)
        };
        let known = match self.reader.tables_of(operator) {
            Ok(tables) => tables,
            // No operator has this name.
            Err(error) if error.kind() == ErrorKind::InvalidValue => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let mut found: Vec<TableDescription> = known.into_iter().filter(is_wanted).collect();
        let mut all = Vec::new();
        if found.is_empty() {
            // The operator may have more tables since it was read.
            all = self.reader.tables()?;
            found.extend(all.iter().filter(|table| is_wanted(table)).cloned());
        }
        if found.len() > 1 {
            let names: Vec<String> = found.iter().map(full_name).collect();
            let text = format!("operator {operator} has several tables: ask for one of {names:?}");
            return Err(Problem::absent(text));
        }
        match found.pop() {
            Some(description) => Ok(RootTable {
                reader: Arc::clone(&self.reader),
                description,
            }),
            None => {
                let names: Vec<String> = all.iter().map(full_name).collect();
                let text = format!("there is no table {name:?}; there are {names:?}");
                Err(Problem::absent(text))
            }
        }
    }
}

/// The name of a table that no other has.
fn full_name(table: &TableDescription) -> String {
    format!("{}.{}", table.operator, table.store)
}
