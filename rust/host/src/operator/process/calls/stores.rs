//! Finds the store that a call names, and executes the call.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use holdfast_core::{Database, Error, ErrorKind, Result, StoreKind, Transaction};

use super::arguments::CallArguments;
use super::reply::{Pages, Reply};
use super::{key_value, session, timestamped, versioned, window};
use crate::net::OTHER_VERSION;
use crate::net::call::CallMessage;

/// The processor's stores, and its open scans.
pub struct ProcessStores<'a> {
    db: &'a Database,
    open: HashMap<u64, Pages>,
    scans: u64,
}

impl<'a> ProcessStores<'a> {
    /// The stores of a database.
    pub fn new(db: &'a Database) -> Self {
        Self {
            db,
            open: HashMap::new(),
            scans: 0,
        }
    }

    /// Executes a call.
    ///
    /// # Errors
    /// `InvalidState` for a call that only another version of Holdfast makes, `StoreClosed` for a
    /// scan that is closed; those of the store.
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
        match self.reply(tx, &name, &method, &CallArguments::new(&call.batch))? {
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
        arguments: &CallArguments<'_>,
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
        if method == "uncommitted_bytes" {
            let bytes = self.db.uncommitted_bytes_in(tx, name)?;
            return Reply::number(i64::try_from(bytes).ok());
        }
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
                "a {} store has no method {method:?}: {OTHER_VERSION}",
                spec.kind.name()
            );
            Error::new(ErrorKind::InvalidState, words).store(name)
        })
    }
}
