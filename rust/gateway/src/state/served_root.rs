//! A root that is served.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{ErrorKind, Result};
use holdfast_host::reader::{CacheSettings, StateReader, TableDescription};
use parking_lot::Mutex;

use super::key_reads::{GetRows, KeyReads};
use super::work::Work;
use crate::problem::Problem;
use crate::settings::RootSettings;

/// The minimum time between two attempts to connect to a root that was made again.
const PAUSE: Duration = Duration::from_secs(1);

/// A root with its reader.
pub struct ServedRoot {
    settings: RootSettings,
    cache: CacheSettings,
    work: Work,
    connection: Arc<Mutex<Connection>>,
}

/// The reader of a root, until another root is under its address.
#[derive(Clone)]
struct Connection {
    reader: Arc<StateReader>,
    key_reads: Arc<KeyReads>,
    since: Instant,
}

impl Connection {
    fn open(settings: &RootSettings, cache: &CacheSettings, work: &Work) -> Result<Self> {
        let reader = StateReader::connect(&settings.address, &settings.options, cache.clone())?;
        Ok(Self {
            key_reads: Arc::new(KeyReads::new(get_rows(&reader), work.clone())),
            reader,
            since: Instant::now(),
        })
    }
}

/// A table of a root.
pub struct RootTable {
    /// The root's reader.
    pub reader: Arc<StateReader>,
    /// The table.
    pub description: Arc<TableDescription>,
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
    pub fn connect(settings: &RootSettings, cache: CacheSettings, work: &Work) -> Result<Self> {
        let connection = Connection::open(settings, &cache, work)?;
        Ok(Self {
            settings: settings.clone(),
            cache,
            work: work.clone(),
            connection: Arc::new(Mutex::new(connection)),
        })
    }

    /// The name in paths.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The folder, or the address in an object store.
    pub fn address(&self) -> &str {
        &self.settings.address
    }

    /// The reader.
    pub fn reader(&self) -> Arc<StateReader> {
        self.connection().reader
    }

    /// The reads of single keys.
    pub fn key_reads(&self) -> Arc<KeyReads> {
        self.connection().key_reads
    }

    /// Returns the connection. If the root was deleted and made again, another one is opened in the
    /// background: opening it blocks, and requests run on asynchronous threads.
    fn connection(&self) -> Connection {
        let mut connection = self.connection.lock();
        if connection.reader.is_outdated() && connection.since.elapsed() > PAUSE {
            connection.since = Instant::now();
            let (settings, cache) = (self.settings.clone(), self.cache.clone());
            let (work, slot) = (self.work.clone(), Arc::clone(&self.connection));
            let opening = move || match Connection::open(&settings, &cache, &work) {
                Ok(opened) => {
                    let outdated = mem::replace(&mut *slot.lock(), opened);
                    // Dropped without the lock, because the drop deletes the reader's copies.
                    drop(outdated);
                }
                Err(error) => log::warn!("root {}: {error}", settings.name),
            };
            let thread = thread::Builder::new().name("holdfast-connect".to_owned());
            if let Err(error) = thread.spawn(opening) {
                log::warn!("root {}: no thread can be started: {error}", self.name());
            }
        }
        connection.clone()
    }

    /// As [`ServedRoot::table`], from memory; none if the table was not read yet.
    pub fn known_table(&self, name: &str) -> Option<RootTable> {
        let wanted = WantedTable::parse(name);
        let reader = self.reader();
        let known = reader.known_tables_of(wanted.operator)?;
        match wanted.among(&known).as_slice() {
            [only] => Some(found(&reader, only)),
            _ => None,
        }
    }

    /// Finds a table: `operator`, or `operator.store` if the operator has several.
    ///
    /// # Errors
    /// A problem names the tables that there are; those of the reader.
    pub fn table(&self, name: &str) -> std::result::Result<RootTable, Problem> {
        let wanted = WantedTable::parse(name);
        let reader = self.reader();
        let mut known = match reader.tables_of(wanted.operator) {
            Ok(tables) => tables,
            // An operator cannot have this name.
            Err(error) if error.kind() == ErrorKind::InvalidValue => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        if wanted.among(&known).is_empty() {
            // The operator may have more tables since it was read.
            known = reader.tables()?;
        }
        let names = |tables: &[Arc<TableDescription>]| -> Vec<String> {
            tables.iter().map(|table| full_name(table)).collect()
        };
        match wanted.among(&known).as_slice() {
            [only] => Ok(found(&reader, only)),
            [] => {
                let names = names(&known);
                let text = format!("there is no table {name:?}; there are {names:?}");
                Err(Problem::absent(text))
            }
            several => {
                let (operator, names) = (wanted.operator, names(several));
                let text =
                    format!("operator {operator} has several tables: ask for one of {names:?}");
                Err(Problem::absent(text))
            }
        }
    }
}

fn found(reader: &Arc<StateReader>, description: &Arc<TableDescription>) -> RootTable {
    RootTable {
        reader: Arc::clone(reader),
        description: Arc::clone(description),
    }
}

/// The name of a table in a path.
#[derive(Clone, Copy)]
struct WantedTable<'a> {
    operator: &'a str,
    /// None: the operator's only one.
    store: Option<&'a str>,
}

impl<'a> WantedTable<'a> {
    fn parse(name: &'a str) -> Self {
        // The name of an operator has no dot.
        match name.split_once('.') {
            Some((operator, store)) => Self {
                operator,
                store: Some(store),
            },
            None => Self {
                operator: name,
                store: None,
            },
        }
    }

    /// The tables that have the name.
    fn among(self, tables: &[Arc<TableDescription>]) -> Vec<Arc<TableDescription>> {
        let is_wanted = |table: &&Arc<TableDescription>| {
            table.operator == self.operator && self.store.is_none_or(|store| table.store == store)
        };
        tables.iter().filter(is_wanted).cloned().collect()
    }
}

fn get_rows(reader: &Arc<StateReader>) -> Arc<GetRows> {
    let reader = Arc::clone(reader);
    Arc::new(move |kind, keys| {
        reader.get((&kind.operator, &kind.store), &kind.call, keys, kind.from)
    })
}

/// A name that no other table has.
fn full_name(table: &TableDescription) -> String {
    format!("{}.{}", table.operator, table.store)
}
