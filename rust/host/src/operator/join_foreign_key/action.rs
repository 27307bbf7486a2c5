//! What the second stage must do with a left row.

/// What to do with a row at its foreign key. The numbers are sent between the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Action {
    /// Remove the row from its time on, and send nothing: the row with the action `Moved`, at the
    /// new foreign key, replaces its result.
    Drop = 0,
    /// Add the newest row of its key. The row before it had the same foreign key, or there was
    /// none.
    Join = 1,
    /// Add the newest row of its key. The row before it had another foreign key, and its result
    /// must be replaced.
    Moved = 2,
    /// Remove the row and its result.
    Withdraw = 3,
}

impl Action {
    /// Returns the action of a number.
    pub fn of(number: i8) -> Option<Self> {
        [Self::Drop, Self::Join, Self::Moved, Self::Withdraw]
            .into_iter()
            .find(|action| *action as i8 == number)
    }

    /// Whether the row exists after the action.
    pub fn subscribes(self) -> bool {
        matches!(self, Self::Join | Self::Moved)
    }
}
