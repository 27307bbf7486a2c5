//! Which windows a moment lies in.

use super::spec::Window;

impl Window {
    /// The starts of the windows that hold `time`, the earliest first. None at the far ends of time, where a window would
    /// start before it.
    pub fn starts(self, time: i64) -> impl Iterator<Item = i64> {
        let into = time.rem_euclid(self.slide);
        let count = (self.length - into - 1) / self.slide + 1;
        (0..count).rev().filter_map(move |n| time.checked_sub(into + n * self.slide))
    }

    /// Whether a window is closed at a stream time: it ended `grace` before, or earlier.
    pub fn is_closed(self, start: i64, stream_time: i64, grace: i64) -> bool {
        start.saturating_add(self.length).saturating_add(grace) <= stream_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tumbling_and_hopping() {
        let starts = |length, slide, time| Window { length, slide }.starts(time).collect::<Vec<_>>();
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
        fn exactly_the_windows_around_a_moment(length in 1i64..50, part in 1i64..50, time in -200i64..200) {
            let slide = part.min(length);
            let found: Vec<i64> = Window { length, slide }.starts(time).collect();
            let all: Vec<i64> = (-300..300).map(|n| n * slide).filter(|start| (*start..start + length).contains(&time)).collect();
            prop_assert_eq!(found, all);
        }
    }
}
