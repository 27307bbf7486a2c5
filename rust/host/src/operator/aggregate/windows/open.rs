//! Opens the windows that an aggregation's settings describe.

use holdfast_core::{Database, Result};

use super::by_key::ByKey;
use super::clock::WindowClock;
use super::hopping::HoppingWindows;
use super::sessions::SessionWindows;
use super::sliding::SlidingWindows;
use super::windowing::Windows;
use crate::operator::aggregate::spec::{AggregateSpec, GROUPS};
use crate::operator::aggregate::window_spec::Window;

/// Opens the windows of an aggregation.
///
/// # Errors
/// The database's, if it does not have the store.
pub fn open_windows(
    spec: &AggregateSpec,
    db: &Database,
    clock: WindowClock,
) -> Result<Box<dyn Windows>> {
    Ok(match spec.window {
        None => Box::new(ByKey::new(db.key_value(GROUPS)?, clock)),
        Some(Window::Hopping(window)) => Box::new(HoppingWindows::new(
            db.window(GROUPS)?,
            window,
            clock,
            spec.emit,
        )),
        Some(Window::Sliding { length }) => Box::new(SlidingWindows::new(
            db.window(GROUPS)?,
            length,
            clock,
            spec.emit,
        )),
        Some(Window::Session { gap }) => Box::new(SessionWindows::new(
            db.session(GROUPS)?,
            gap,
            clock,
            spec.emit,
        )),
    })
}
