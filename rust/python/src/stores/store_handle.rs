//! A store in one view: what the classes of all kinds of stores share.

use crate::open_database::OpenDatabase;
use crate::run::{run, run_attached};
use crate::stores::row_iterator::{RowIterator, RowScan};
use crate::view::{InputOffsets, View};
use holdfast_core::{Result, Transaction};
use pyo3::prelude::*;
use std::sync::Arc;

/// A store of the engine, and the view in which it is read and written.
pub struct StoreHandle<S> {
    store: S,
    view: View,
}

impl<S: Clone + Sync> StoreHandle<S> {
    /// Returns the writer's handle.
    pub fn writer(store: S, db: Arc<OpenDatabase>) -> Self {
        Self {
            store,
            view: View::writer(db),
        }
    }

    /// Returns a reader's handle of the same store; `name` returns the store's name.
    pub fn read_only(
        &self,
        py: Python<'_>,
        name: fn(&S) -> &str,
        level: &str,
        bound: Option<InputOffsets>,
    ) -> PyResult<Self> {
        let view = run_attached(py, || self.view.reader(level, name(&self.store), bound))?;
        Ok(Self {
            store: self.store.clone(),
            view,
        })
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Runs `work` without the GIL.
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&S, &View) -> Result<T> + Send,
    ) -> PyResult<T> {
        run(py, self.view.process(), || work(&self.store, &self.view))
    }

    /// Reads one record, or opens a scan.
    pub fn read<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&S, &mut Transaction) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.run(py, |store, view| view.read(|tx| work(store, tx)))
    }

    /// Reads many records.
    pub fn read_batch<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&S, &mut Transaction) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.run(py, |store, view| view.read_batch(|tx| work(store, tx)))
    }

    /// Writes one record.
    pub fn write<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&S, &mut Transaction) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.run(py, |store, view| view.write(|tx| work(store, tx)))
    }

    /// Writes many records as one unit.
    pub fn write_batch<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&S, &mut Transaction) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.run(py, |store, view| view.write_batch(|tx| work(store, tx)))
    }

    /// Returns the rows of a scan of this store.
    pub fn rows<R: RowScan>(&self, scan: R) -> RowIterator<R> {
        RowIterator::new(self.view.db(), scan)
    }
}
