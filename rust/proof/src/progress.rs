//! Notes of a running workload, and its progress.

/// A note of the running workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Commit n begins.
    Attempting(u64),
    /// Commit n has returned.
    Done(u64),
    /// From now on no crash may lose transaction n.
    Durable(u64),
    /// An operation other than a transaction begins.
    Upkeep(&'static str),
    /// The database is about to be closed, cleanly.
    Closing,
    /// The database is open; a stop from now on is unclean.
    Opened,
}

/// The progress of a run when it was stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunProgress {
    /// The last commit that began.
    pub attempting: u64,
    /// The last commit that no crash may lose.
    pub durable: u64,
    /// Whether the database was certainly open.
    pub open: bool,
}

impl RunProgress {
    /// Returns the progress of a run that starts after transaction `n`.
    pub fn start(n: u64) -> Self {
        Self {
            attempting: n,
            durable: n,
            open: false,
        }
    }

    /// Applies a note.
    pub fn note(&mut self, note: Note) {
        match note {
            Note::Attempting(n) => self.attempting = n,
            Note::Durable(n) => self.durable = n,
            Note::Opened => self.open = true,
            Note::Closing => self.open = false,
            Note::Done(_) | Note::Upkeep(_) => {}
        }
    }

    /// Applies a note that another process wrote as a line.
    pub fn note_line(&mut self, line: &str) {
        let (what, n) = line.split_once(' ').unwrap_or((line, "0"));
        let n = n.parse().unwrap_or_default();
        match what {
            "attempting" => self.note(Note::Attempting(n)),
            "durable" => self.note(Note::Durable(n)),
            "opened" => self.note(Note::Opened),
            "closing" => self.note(Note::Closing),
            _ => {}
        }
    }
}
