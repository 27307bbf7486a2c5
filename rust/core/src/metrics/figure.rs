//! Figures: the values that metrics report.

use crate::metrics::counter::Count;
use std::borrow::Cow;

/// A measured value, its unit and its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name: Kafka Streams' name if it has this figure. A figure named `…-total` only grows
    /// while the database is open.
    pub name: Cow<'static, str>,
    /// The value now.
    pub value: FigureValue,
    /// The unit: `bytes`, `seconds`, `records` and so on; for a rate, the unit per second.
    pub unit: &'static str,
    /// The meaning in one sentence, for dashboards.
    pub help: Cow<'static, str>,
}

/// The value of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureValue {
    /// A count or a size.
    Whole(u64),
    /// A rate, a ratio or a time in seconds.
    Real(f64),
}

impl From<u64> for FigureValue {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for FigureValue {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// A list of figures that is being built.
#[derive(Default)]
pub(crate) struct Sheet {
    figures: Vec<Figure>,
}

impl Sheet {
    pub(crate) fn push(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<FigureValue>,
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

    /// Adds a counter as a total and a rate.
    pub(crate) fn push_count(&mut self, name: &str, count: Count, unit: &'static str, help: &str) {
        self.push(
            format!("{name}-rate"),
            count.rate,
            unit,
            format!("{help}, per second"),
        );
        self.push(format!("{name}-total"), count.total, unit, help.to_owned());
    }

    pub(crate) fn finish(self) -> Vec<Figure> {
        self.figures
    }
}
