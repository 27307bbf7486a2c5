//! Random operations of window and session stores.

use crate::pair::{Event, event};
use proptest::prelude::*;

/// An operation of the store, or an event.
#[derive(Clone, Debug)]
pub enum Step {
    /// Key, time, length of a session, value.
    Puts(Vec<(u8, i64, i64, Option<u8>)>),
    Scan {
        keys: (Option<u8>, Option<u8>),
        from: i64,
        span: i64,
        reverse: bool,
    },
    Find(Vec<(u8, i64, i64)>),
    Gets(Vec<(u8, i64, i64)>),
    Event(Event),
}

pub fn step() -> impl Strategy<Value = Step> {
    let time = || -20i64..120;
    let put = (0u8..6, time(), 0i64..6, prop::option::of(any::<u8>()));
    prop_oneof![
        8 => prop::collection::vec(put, 1..12).prop_map(Step::Puts),
        4 => (prop::option::of(0u8..6), prop::option::of(0u8..6), time(), -5i64..90, any::<bool>())
            .prop_map(|(low, high, from, span, reverse)| Step::Scan { keys: (low, high), from, span,
                reverse }),
        2 => prop::collection::vec((0u8..6, time(), -3i64..60), 0..6).prop_map(Step::Find),
        2 => prop::collection::vec((0u8..6, time(), 0i64..6), 0..6).prop_map(Step::Gets),
        9 => event().prop_map(Step::Event),
    ]
}
