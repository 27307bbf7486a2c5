//! The parts of sessions: rows of an epoch, and stored sessions.

/// A part of a session, with its first and its last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionPart {
    /// The key's number.
    pub key: u32,
    /// The first row's time.
    pub first: i64,
    /// The last row's time.
    pub last: i64,
    /// Where it comes from.
    pub source: PartSource,
}

/// Where a part of a session comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartSource {
    /// A stored session, by the number of its state.
    Stored(u32),
    /// Rows of the epoch, by the number of their run.
    Rows(u32),
}

/// The stored sessions that row runs touch.
#[derive(Default)]
pub struct TouchedSessions {
    /// The states of the open ones, by the numbers in [`PartSource`].
    pub states: Vec<Vec<u8>>,
    /// The closed ones, sorted: the key's number, the first and the last time.
    pub closed: Vec<(u32, i64, i64)>,
}

impl SessionPart {
    /// Whether the part is a stored session.
    pub fn is_stored(&self) -> bool {
        matches!(self.source, PartSource::Stored(_))
    }

    fn place(&self) -> (u32, i64, i64) {
        (self.key, self.first, self.last)
    }
}

impl TouchedSessions {
    /// Returns the last time of the closed session of a key that has this first time.
    pub fn closed_at(&self, key: u32, first: i64) -> Option<i64> {
        let after = self
            .closed
            .partition_point(|closed| (closed.0, closed.1) <= (key, first));
        let (of_key, start, last) = *self.closed.get(after.checked_sub(1)?)?;
        ((of_key, start) == (key, first)).then_some(last)
    }
}

/// Sorts parts by key and first time, stored sessions before rows. A stored session that is in the
/// list several times remains once.
pub fn in_order(mut parts: Vec<SessionPart>) -> Vec<SessionPart> {
    parts.sort_unstable_by_key(|part| (part.key, part.first, !part.is_stored(), part.last));
    parts.dedup_by(|part, before| {
        part.is_stored() && before.is_stored() && part.place() == before.place()
    });
    parts
}

/// Returns how many of the first parts are one session: each begins at most the gap after the rows
/// before it. The parts are in the order of [`in_order`].
pub fn count_joined(parts: &[SessionPart], gap: i64) -> usize {
    let Some(first) = parts.first() else {
        return 0;
    };
    let mut last = first.last;
    let is_joined = |part: &&SessionPart| {
        let is_joined = part.key == first.key && part.first <= last.saturating_add(gap);
        if is_joined {
            last = last.max(part.last);
        }
        is_joined
    };
    parts.iter().take_while(is_joined).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GAP: i64 = 3;

    /// A key, a first time, a length, and whether the part is stored.
    type Drawn = (u32, i64, i64, bool);

    fn parts(drawn: &[Drawn]) -> Vec<SessionPart> {
        let part = |(number, (key, first, length, is_stored)): (u32, &Drawn)| SessionPart {
            key: *key,
            first: *first,
            last: first + length,
            source: if *is_stored {
                PartSource::Stored(number)
            } else {
                PartSource::Rows(number)
            },
        };
        (0..).zip(drawn).map(part).collect()
    }

    proptest! {
        #[test]
        fn parts_are_joined_as_if_they_were_compared_one_by_one(
            drawn in prop::collection::vec((0..3_u32, 0..40_i64, 0..6_i64, any::<bool>()), 0..30),
        ) {
            let parts = in_order(parts(&drawn));
            let mut rest = &parts[..];
            let mut found = Vec::new();
            while !rest.is_empty() {
                let session;
                (session, rest) = rest.split_at(count_joined(rest, GAP));
                let last = session.iter().map(|part| part.last).max();
                found.push((session[0].key, session[0].first, last.expect("a part")));
            }
            // Two sessions of a key that are not further apart than the gap become one, until there
            // are none.
            let mut model: Vec<(u32, i64, i64)> = Vec::new();
            for (key, first, length, _) in &drawn {
                let mut session = (*key, *first, first + length);
                while let Some(near) = model.iter().position(|other| {
                    other.0 == *key && session.1 <= other.2 + GAP && other.1 <= session.2 + GAP
                }) {
                    let other = model.swap_remove(near);
                    session = (*key, session.1.min(other.1), session.2.max(other.2));
                }
                model.push(session);
            }
            model.sort_unstable();
            prop_assert_eq!(found, model);
        }
    }

    #[test]
    fn a_closed_session_is_found_by_its_key_and_its_first_time() {
        let touched = TouchedSessions {
            closed: vec![(0, 5, 7), (1, 2, 3), (1, 5, 6), (1, 5, 9)],
            ..TouchedSessions::default()
        };
        let found = |key, first| touched.closed_at(key, first);
        assert_eq!([found(0, 5), found(1, 2)], [Some(7), Some(3)]);
        assert_eq!(found(1, 5), Some(9), "the longest one");
        assert_eq!([found(0, 4), found(0, 6), found(2, 5)], [None; 3]);
    }

    #[test]
    fn a_stored_session_is_in_order_once_and_before_rows() {
        let rows = (1, 5, 2, false);
        let sorted = in_order(parts(&[
            rows,
            (1, 5, 1, true),
            (0, 9, 1, true),
            (1, 5, 1, true),
            rows,
        ]));
        let found: Vec<_> = sorted
            .iter()
            .map(|part| (part.place(), part.is_stored()))
            .collect();
        let rows = ((1, 5, 7), false);
        assert_eq!(found, [((0, 9, 10), true), ((1, 5, 6), true), rows, rows]);
    }
}
