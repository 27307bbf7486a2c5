//! The operators of a root and their tables, as a reader knows them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use holdfast_core::{Error, ErrorKind, Result, StoreSpec};
use parking_lot::Mutex;

use super::epochs::FinalEpochs;
use super::host_connection::TableCall;
use crate::protocol::{Epoch, IsolationLevel, OperatorName, RunNumber};
use crate::root::Root;
use crate::tables::{ReadCall, ReadRows, StateTable, operator_tables};

/// A table, as a list of tables shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescription {
    /// The operator.
    pub operator: String,
    /// The operator's kind: `join_asof`, …
    pub operator_kind: String,
    /// The store.
    pub store: String,
    /// The store's kind: `versioned`, …
    pub kind: &'static str,
    /// The names of the key's columns.
    pub key: Vec<String>,
    /// All columns of a row.
    pub schema: SchemaRef,
}

/// An operator with its tables.
pub struct OperatorTables {
    /// The newest run whose epochs were known when the operator was read.
    run: RunNumber,
    /// The epoch in which it first took part.
    pub first_epoch: Epoch,
    /// All its stores.
    pub stores: Vec<StoreSpec>,
    /// The isolation level of reads that name none.
    pub isolation_level: IsolationLevel,
    /// Its tables.
    pub tables: Vec<Arc<StateTable>>,
    /// The descriptions of its tables.
    pub descriptions: Vec<Arc<TableDescription>>,
}

/// One table with its operator.
pub struct NamedTable {
    /// The operator's name.
    pub operator: OperatorName,
    /// The operator.
    pub entry: Arc<OperatorTables>,
    /// The table.
    pub table: Arc<StateTable>,
}

impl NamedTable {
    /// A read of the table.
    pub fn read<'a>(&'a self, call: &'a ReadCall) -> TableCall<'a> {
        TableCall {
            operator: &self.operator,
            store: self.table.store(),
            call,
        }
    }

    /// Returns the call with explicit columns. A host may have read the table at another start of
    /// the query, with other columns or another order.
    pub fn explicit(&self, call: &ReadCall, rows: ReadRows) -> ReadCall {
        let names = || {
            let fields = self.table.schema().fields().iter();
            fields.map(|field| field.name().clone()).collect()
        };
        ReadCall {
            rows,
            columns: Some(call.columns.clone().unwrap_or_else(names)),
            ..call.clone()
        }
    }
}

/// The tables of a root.
pub struct TableCatalog {
    root: Arc<Root>,
    epochs: Arc<FinalEpochs>,
    operators: Mutex<HashMap<OperatorName, Arc<OperatorTables>>>,
}

impl TableCatalog {
    /// The tables of a root.
    pub fn new(root: Arc<Root>, epochs: Arc<FinalEpochs>) -> Self {
        Self {
            root,
            epochs,
            operators: Mutex::default(),
        }
    }

    /// Reads an operator's tables from the root.
    ///
    /// # Errors
    /// `StateMismatch` if there is no such operator; `Restore` for one that cannot be read; those
    /// of [`operator_tables`].
    pub fn read(&self, operator: &OperatorName) -> Result<Arc<OperatorTables>> {
        // Read the newest epoch first if no run is known yet. Otherwise a reader's first read of
        // rows would find a newer run and be repeated.
        if self.epochs.newest_run() == RunNumber(0)
            && let Err(error) = self.epochs.newest()
        {
            log::debug!("the newest epoch is not known: {error}");
        }
        let run = self.epochs.newest_run();
        let recorded = match self.root.operators.recorded(operator) {
            Err(error) => {
                let names = self.root.operators.names()?;
                return Err(if names.contains(operator) {
                    error
                } else {
                    self.unknown(operator, &names)
                });
            }
            Ok(recorded) => recorded,
        };
        let tables = operator_tables(&recorded)?.into_iter().map(Arc::new);
        let tables: Vec<Arc<StateTable>> = tables.collect();
        let describe =
            |table: &Arc<StateTable>| Arc::new(described(operator, &recorded.meta.kind, table));
        let found = Arc::new(OperatorTables {
            run,
            first_epoch: recorded.meta.first_epoch,
            stores: recorded
                .stores_of_copies()
                .iter()
                .map(StoreSpec::from)
                .collect(),
            isolation_level: recorded.isolation_level(),
            descriptions: tables.iter().map(describe).collect(),
            tables,
        });
        self.operators
            .lock()
            .insert(operator.clone(), Arc::clone(&found));
        Ok(found)
    }

    /// Returns an operator's tables as they were last read, or reads them.
    ///
    /// # Errors
    /// As [`TableCatalog::read`].
    pub fn known(&self, operator: &OperatorName) -> Result<Arc<OperatorTables>> {
        self.in_memory(operator)
            .map_or_else(|| self.read(operator), Ok)
    }

    /// Returns an operator's tables as they were last read; none if they were not.
    pub fn in_memory(&self, operator: &OperatorName) -> Option<Arc<OperatorTables>> {
        self.operators.lock().get(operator).cloned()
    }

    /// Returns a table as it was last read.
    ///
    /// # Errors
    /// As [`TableCatalog::read`]; `InvalidValue` if the operator has no such table.
    pub fn named(&self, operator: &str, store: &str) -> Result<NamedTable> {
        let operator = OperatorName::new(operator)?;
        let entry = self.known(&operator)?;
        let table = entry.table(&operator, store)?;
        Ok(NamedTable {
            operator,
            entry,
            table,
        })
    }

    /// As [`TableCatalog::named`], from memory only; none if the tables were not read, or
    /// if there is no such table.
    pub fn named_in_memory(&self, operator: &str, store: &str) -> Option<NamedTable> {
        let operator = OperatorName::new(operator).ok()?;
        let entry = self.in_memory(&operator)?;
        let table = entry.table(&operator, store).ok()?;
        Some(NamedTable {
            operator,
            entry,
            table,
        })
    }

    /// Reads a table again, because it may have more columns now.
    ///
    /// # Errors
    /// As [`TableCatalog::named`].
    pub fn renewed(&self, known: &NamedTable) -> Result<NamedTable> {
        let entry = self.read(&known.operator)?;
        let table = entry.table(&known.operator, known.table.store())?;
        Ok(NamedTable {
            operator: known.operator.clone(),
            entry,
            table,
        })
    }

    /// Returns whether the query has had a final epoch of another start since the table was read:
    /// the table may have other columns or settings now.
    pub fn may_be_old(&self, known: &NamedTable) -> bool {
        known.entry.run != self.epochs.newest_run()
    }

    /// Describes all tables, by operator.
    ///
    /// # Errors
    /// As [`TableCatalog::read`].
    pub fn describe(&self) -> Result<Vec<Arc<TableDescription>>> {
        let mut names = self.root.operators.names()?;
        names.sort_unstable();
        let mut descriptions = Vec::new();
        for name in names {
            descriptions.extend(self.read(&name)?.descriptions.iter().cloned());
        }
        Ok(descriptions)
    }

    fn unknown(&self, operator: &OperatorName, names: &[OperatorName]) -> Error {
        let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
        names.sort_unstable();
        let text = format!("there is no operator {operator}; the root has {names:?}");
        Error::new(ErrorKind::StateMismatch, text).path(self.root.path())
    }
}

impl OperatorTables {
    /// The table in a store.
    ///
    /// # Errors
    /// `InvalidValue` if the operator has no such table.
    pub fn table(&self, operator: &OperatorName, store: &str) -> Result<Arc<StateTable>> {
        let table = self.tables.iter().find(|table| table.store() == store);
        table.cloned().ok_or_else(|| {
            let names: Vec<&str> = self.tables.iter().map(|table| table.store()).collect();
            let text = format!("operator {operator} has no table {store:?}; it has {names:?}");
            Error::new(ErrorKind::InvalidValue, text)
        })
    }
}

fn described(operator: &OperatorName, kind: &str, table: &StateTable) -> TableDescription {
    let key = table.key().fields().iter();
    TableDescription {
        operator: operator.to_string(),
        operator_kind: kind.to_owned(),
        store: table.store().to_owned(),
        kind: table.kind().name(),
        key: key.map(|field| field.name().clone()).collect(),
        schema: Arc::clone(table.schema()),
    }
}
