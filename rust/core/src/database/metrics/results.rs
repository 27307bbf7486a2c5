//! The figures of a database at one moment.

use crate::metrics::{Figure, FigureValue};

/// The current figures of a database.
#[derive(Clone, Debug, Default)]
pub struct DatabaseMetrics {
    /// Figures of the database as a whole.
    pub figures: Vec<Figure>,
    /// Figures of each store.
    pub stores: Vec<StoreMetrics>,
}

/// The current figures of a store.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {
    /// The store's name.
    pub store: String,
    /// The store's figures.
    pub figures: Vec<Figure>,
}

impl DatabaseMetrics {
    /// Returns a figure of the database by its name.
    pub fn get(&self, name: &str) -> Option<FigureValue> {
        find(&self.figures, name)
    }

    /// Returns a figure of a store by its name.
    pub fn of_store(&self, store: &str, name: &str) -> Option<FigureValue> {
        self.stores
            .iter()
            .find(|metrics| metrics.store == store)
            .and_then(|metrics| find(&metrics.figures, name))
    }
}

fn find(figures: &[Figure], name: &str) -> Option<FigureValue> {
    figures
        .iter()
        .find(|figure| figure.name == name)
        .map(|figure| figure.value)
}
