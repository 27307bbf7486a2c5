//! Settings of the windows of an aggregation.

use serde::Deserialize;

/// The windows of an aggregation. Durations are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Window {
    /// Windows of one length that start at multiples of the slide.
    Hopping(HoppingWindow),
    /// Windows of one length. Each row makes two: one that ends at the row, and one that begins one
    /// microsecond after it.
    Sliding {
        /// The time from a window's first moment to its last. Both moments are in the window.
        length: i64,
    },
    /// Windows separated by pauses.
    Session {
        /// The longest pause within a session.
        gap: i64,
    },
}

impl Window {
    /// Returns the longest time from a row to the end of a window that the row can change. The
    /// grace is not included.
    pub fn reach(self) -> i64 {
        match self {
            Self::Hopping(window) => window.length,
            // The windows that the row is in, and the window that begins right after the row.
            Self::Sliding { length } => length.saturating_add(2),
            // A row exactly `gap` after the last one still belongs to the session.
            Self::Session { gap } => gap.saturating_add(1),
        }
    }

    /// The settings that the root records.
    pub fn settings(self) -> Vec<(&'static str, i64)> {
        match self {
            Self::Hopping(HoppingWindow { length, slide }) => {
                vec![("length", length), ("slide", slide)]
            }
            Self::Sliding { length } => vec![("sliding", length)],
            Self::Session { gap } => vec![("gap", gap)],
        }
    }
}

/// When results are emitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emit {
    /// In each epoch, the results of the groups that it changed.
    #[default]
    Update,
    /// Once, when no row can change the window any more.
    Close,
}

/// Windows that start at multiples of `slide`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct HoppingWindow {
    /// The time from a window's start to its end, in microseconds. The end is not in the window.
    pub length: i64,
    /// The time from one window's start to the next one's, in microseconds; at most the length.
    pub slide: i64,
}

impl HoppingWindow {
    /// Returns the starts of the windows that hold `time`, the earliest first. Windows that would
    /// start before `i64::MIN` are left out.
    pub fn starts(self, time: i64) -> impl Iterator<Item = i64> {
        let into = time.rem_euclid(self.slide);
        let count = (self.length - into - 1) / self.slide + 1;
        (0..count)
            .rev()
            .filter_map(move |n| time.checked_sub(into + n * self.slide))
    }

    /// Returns the first moment of the pane that holds `time`. All moments of a pane are in the
    /// same windows. A pane that would begin before `i64::MIN` begins there.
    pub fn pane(self, time: i64) -> i64 {
        let into = time.rem_euclid(self.slide);
        // A window ends between two starts if its length is no multiple of the slide.
        let end = self.length % self.slide;
        time.saturating_sub(if into < end { into } else { into - end })
    }

    /// Whether no two windows overlap, so that each moment is in one window.
    pub fn is_tumbling(self) -> bool {
        self.slide == self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tumbling_windows_do_not_overlap_and_hopping_windows_do() {
        let starts = |length, slide, time| {
            HoppingWindow { length, slide }
                .starts(time)
                .collect::<Vec<_>>()
        };
        assert_eq!(starts(10, 10, 0), [0]);
        assert_eq!(starts(10, 10, 9), [0]);
        assert_eq!(starts(10, 10, -1), [-10]);
        assert_eq!(starts(10, 5, 7), [0, 5]);
        // A length that is no multiple of the slide.
        assert_eq!(starts(10, 4, 9), [0, 4, 8]);
        assert_eq!(starts(10, 4, 10), [4, 8]);
    }

    proptest! {
        #[test]
        fn starts_are_those_of_all_windows_around_a_moment(length in 1i64..50, part in 1i64..50,
            time in -200i64..200) {
            let slide = part.min(length);
            let found: Vec<i64> = HoppingWindow { length, slide }.starts(time).collect();
            let all: Vec<i64> = (-300..300).map(|n| n * slide)
                .filter(|start| (*start..start + length).contains(&time)).collect();
            prop_assert_eq!(found, all);
        }

        #[test]
        fn moments_are_in_one_pane_if_they_are_in_the_same_windows(length in 1i64..50,
            part in 1i64..50, first in prop::sample::select(vec![i64::MIN, -99, i64::MAX - 99])) {
            let window = HoppingWindow { length, slide: part.min(length) };
            let windows = |time| window.starts(time).collect::<Vec<_>>();
            for time in first..first + 99 {
                let is_one_pane = window.pane(time) == window.pane(time + 1);
                prop_assert!(window.pane(time) <= time);
                // Windows that would start before all times are left out.
                if is_one_pane || first > i64::MIN {
                    prop_assert_eq!(windows(time) == windows(time + 1), is_one_pane);
                }
            }
        }
    }
}
