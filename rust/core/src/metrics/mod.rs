//! Figures of a database and its stores, under the names that Kafka Streams gives them (KIP-471,
//! KIP-607, KIP-1035).
//!
//! Counting is an atomic addition a call; everything else happens when somebody asks.
//! `operation.rs` what a store's methods count · `store.rs` all of a store's counts · `window.rs`
//! what "a second" and "recently" mean.

mod operation;
mod store;
mod window;

pub(crate) use operation::{Call, Calls, Operation, OperationCounts};
pub(crate) use store::{OpenIterator, StoreCounts};
pub(crate) use window::{Count, Counter, Window};

use std::borrow::Cow;

/// How much is measured. What costs time in every call is measured at `Debug` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricsLevel {
    /// Counts of everything, and times of what takes long: commits, batches, how long iterators are
    /// open.
    #[default]
    Info,
    /// Also the time of each call for one record, and RocksDB's own counts.
    Debug,
}

impl MetricsLevel {
    /// The name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// A figure and what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Kafka Streams' name where it has one. What ends in `-total` only grows while the database is
    /// open.
    pub name: Cow<'static, str>,
    /// As it is now.
    pub value: Value,
    /// What it counts: `bytes`, `seconds`, `records` and so on; a rate is so many of them a second.
    pub unit: &'static str,
    /// A sentence for whoever looks at a dashboard.
    pub help: Cow<'static, str>,
}

/// A figure's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count or a size.
    Whole(u64),
    /// A rate, a ratio or a time in seconds.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Figures as they are put together.
#[derive(Default)]
pub(crate) struct Sheet {
    figures: Vec<Figure>,
}

impl Sheet {
    pub(crate) fn push(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Value>,
        unit: &'static str,
        help: impl Into<Cow<'static, str>>,
    ) {
        self.figures.push(Figure {
            name: name.into(),
            value: value.into(),
            unit,
            help: help.into(),
        });
    }

    /// A counter as a total and a rate.
    pub(crate) fn push_count(&mut self, name: &str, count: Count, unit: &'static str, help: &str) {
        self.push(
            format!("{name}-rate"),
            count.rate,
            unit,
            format!("{help}, a second"),
        );
        self.push(format!("{name}-total"), count.total, unit, help.to_owned());
    }

    pub(crate) fn finish(self) -> Vec<Figure> {
        self.figures
    }
}
