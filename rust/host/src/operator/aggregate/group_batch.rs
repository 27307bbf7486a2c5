//! A batch of groups that have moved to disk.

use super::groups::Groups;
use super::moved_groups::MovedGroup;
use crate::codec::byte_list::ByteList;
use crate::operator::batch_size::BatchSize;

/// Groups with their states, as many as a batch of the result may have.
#[derive(Default)]
pub struct GroupBatch {
    groups: Groups,
    states: ByteList,
    touched: Vec<usize>,
    size: BatchSize,
}

impl GroupBatch {
    /// Adds a group if it fits; the first group always fits.
    pub fn try_add(&mut self, group: &MovedGroup<'_>) -> bool {
        let fits = self.size.try_add(group.key.len() + group.state.len());
        if fits {
            let number = self.groups.enter(group.key, group.start) as usize;
            self.touched.extend(group.is_touched.then_some(number));
            self.states.push(group.state);
        }
        fits
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The groups, in the order in which they were added.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The groups that have new rows.
    pub fn touched(&self) -> &[usize] {
        &self.touched
    }

    /// The states of the groups.
    pub fn states(&self) -> Vec<Option<&[u8]>> {
        let numbers = 0..self.states.len();
        numbers.map(|group| Some(self.states.get(group))).collect()
    }

    /// Returns the groups without the first ones.
    #[must_use]
    pub fn without_first(&self, count: usize) -> Self {
        let mut rest = Self::default();
        for group in count..self.states.len() {
            // A part of a batch always fits.
            rest.try_add(&MovedGroup {
                key: self.groups.key(group),
                start: self.groups.start(group),
                state: self.states.get(group),
                is_touched: self.touched.binary_search(&group).is_ok(),
            });
        }
        rest
    }
}
