//! What the first stage tells the second about a left row.

/// What to do with a row at its foreign key. The numbers are what crosses between the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Action {
    /// It is not there any more from its time on, and something else is said of its key elsewhere;
    /// nothing goes out.
    Drop = 0,
    /// It is the newest of its key, and the one before had the same foreign key, or there was none.
    Join = 1,
    /// It is the newest of its key, and the one before had another foreign key: what that gave must
    /// be replaced.
    Moved = 2,
    /// The row is gone, and so is what it gave.
    Withdraw = 3,
}

impl Action {
    /// The action of a number.
    pub fn of(number: i8) -> Option<Self> {
        [Self::Drop, Self::Join, Self::Moved, Self::Withdraw]
            .into_iter()
            .find(|action| *action as i8 == number)
    }

    /// Whether the row is there afterwards.
    pub fn subscribes(self) -> bool {
        matches!(self, Self::Join | Self::Moved)
    }
}
