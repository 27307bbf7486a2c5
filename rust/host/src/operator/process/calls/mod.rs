//! What the processor's code asks of its stores.
//!
//! A call names a store and a method; its arguments are the columns of its batch, scalars being
//! columns of one row. Scans are pages: an answer with the word `cursor` has more, which the
//! store-less method `next` brings. The snapshot of a scan lives until its end, or until a call
//! names its cursor in the word `close`.

mod ahead;
mod arguments;
mod key_value;
mod session;
mod timestamped;
mod versioned;
mod window;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use holdfast_core::column::batch;
use holdfast_core::{Database, Error, ErrorKind, Result, StoreKind, Timestamp, Transaction};

use crate::net::call::CallMessage;
use arguments::Arguments;

/// Rows of a scan, page by page.
pub struct Pages {
    schema: SchemaRef,
    next: Box<dyn FnMut(usize) -> Result<Option<RecordBatch>>>,
}

impl Pages {
    /// Pages of these columns; `next` makes one of so many rows or fewer, and none at the end.
    fn new(
        schema: SchemaRef,
        next: impl FnMut(usize) -> Result<Option<RecordBatch>> + 'static,
    ) -> Self {
        Self {
            schema,
            next: Box::new(next),
        }
    }
}

/// What a store answers.
pub enum Reply {
    /// A batch.
    Batch(RecordBatch),
    /// Rows that may be more than a batch.
    Pages(Pages),
}

impl Reply {
    /// A batch without rows and columns: it is done.
    fn done() -> Self {
        Self::Batch(RecordBatch::new_empty(Arc::new(Schema::empty())))
    }

    /// One number, or none.
    fn number(number: Option<i64>) -> Result<Self> {
        let schema = Schema::new(vec![Field::new("number", DataType::Int64, true)]);
        batch(
            Arc::new(schema),
            vec![Arc::new(Int64Array::from(vec![number]))],
        )
        .map(Self::Batch)
    }

    /// A store's stream time.
    fn time(time: Option<Timestamp>) -> Result<Self> {
        Self::number(time.map(|time| time.0))
    }
}

/// The processor's stores, and the scans that it has open.
pub struct Stores<'a> {
    db: &'a Database,
    open: HashMap<u64, Pages>,
    scans: u64,
}

impl<'a> Stores<'a> {
    /// The stores of a task.
    pub fn new(db: &'a Database) -> Self {
        Self {
            db,
            open: HashMap::new(),
            scans: 0,
        }
    }

    /// Does what a call asks.
    ///
    /// # Errors
    /// `InvalidState` for a call that another version must have made; the store's own.
    pub fn call(&mut self, tx: &mut Transaction, call: &CallMessage) -> Result<CallMessage> {
        for cursor in call
            .attribute("close")
            .into_iter()
            .flat_map(|cursors| cursors.split(','))
        {
            if let Ok(cursor) = cursor.parse() {
                self.open.remove(&cursor);
            }
        }
        let method: String = call.parsed("method")?;
        if method == "next" {
            let cursor = call.parsed("cursor")?;
            let pages = self.open.remove(&cursor).ok_or_else(|| {
                Error::new(ErrorKind::StoreClosed, "this scan is closed; open another")
            })?;
            return self.page(pages, call);
        }
        let name: String = call.parsed("store")?;
        match self.reply(tx, &name, &method, &Arguments::new(&call.batch))? {
            Reply::Batch(batch) => Ok(CallMessage::of(batch)),
            Reply::Pages(pages) => self.page(pages, call),
        }
    }

    fn page(&mut self, mut pages: Pages, call: &CallMessage) -> Result<CallMessage> {
        let page = (pages.next)(call.parsed("rows")?)?;
        Ok(match page {
            None => CallMessage::of(RecordBatch::new_empty(pages.schema)),
            Some(page) => {
                self.scans += 1;
                self.open.insert(self.scans, pages);
                CallMessage::of(page).with("cursor", self.scans)
            }
        })
    }

    fn reply(
        &self,
        tx: &mut Transaction,
        name: &str,
        method: &str,
        arguments: &Arguments<'_>,
    ) -> Result<Reply> {
        let unknown = || {
            Error::new(
                ErrorKind::InvalidState,
                format!("the processor has no store {name:?}"),
            )
        };
        let spec = self
            .db
            .stores()
            .find(|spec| spec.name == name)
            .ok_or_else(unknown)?;
        let reply = match spec.kind {
            StoreKind::KeyValue => {
                key_value::call(&self.db.key_value(name)?, tx, method, arguments)
            }
            StoreKind::TimestampedKeyValue => {
                timestamped::call(&self.db.timestamped_key_value(name)?, tx, method, arguments)
            }
            StoreKind::Versioned { .. } => {
                versioned::call(&self.db.versioned(name)?, tx, method, arguments)
            }
            StoreKind::Window { timestamped, .. } => {
                window::call(&self.db.window(name)?, timestamped, tx, method, arguments)
            }
            StoreKind::Session { .. } => {
                session::call(&self.db.session(name)?, tx, method, arguments)
            }
        };
        reply?.ok_or_else(|| {
            let words = format!(
                "a {} store has no method {method:?}: worker and host are of different versions",
                spec.kind.name()
            );
            Error::new(ErrorKind::InvalidState, words).store(name)
        })
    }
}
