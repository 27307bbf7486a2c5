//! The parameters of requests.

/// A parameter in a request's query.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its type.
    pub kind: ParameterKind,
    /// Whether it may come more than once.
    pub repeats: bool,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A number that is not negative.
    Count,
    /// Seconds.
    Seconds,
    /// A time with its zone, or epoch microseconds.
    Moment,
    /// Text.
    Text,
    /// One of these.
    OneOf(&'static [&'static str]),
}

const fn one(name: &'static str, kind: ParameterKind, about: &'static str) -> Parameter {
    Parameter {
        name,
        about,
        kind,
        repeats: false,
    }
}

const fn many(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        about,
        kind: ParameterKind::Text,
        repeats: true,
    }
}

/// Exactly this epoch.
pub const EPOCH: Parameter = one(
    "epoch",
    ParameterKind::Count,
    "Read exactly this epoch. By default the newest final one.",
);
/// The first epoch of changes.
pub const FROM_EPOCH: Parameter = one(
    "from_epoch",
    ParameterKind::Count,
    "The first epoch, included. By default the oldest one of the log.",
);
/// The last epoch of changes.
pub const TO_EPOCH: Parameter = one(
    "to_epoch",
    ParameterKind::Count,
    "The last epoch, included. By default the newest final one.",
);
/// The rewind of an earlier answer.
pub const REWIND: Parameter = one(
    "rewind",
    ParameterKind::Count,
    "The Holdfast-Rewind of the answer before. If a rewind has taken back the epoch before \
     from_epoch since, the status is 410.",
);
/// One partition.
pub const PARTITION: Parameter = one(
    "partition",
    ParameterKind::Count,
    "Only changes of this partition, from 0.",
);
/// This epoch or a newer one.
pub const AT_LEAST: Parameter = one(
    "at_least",
    ParameterKind::Count,
    "Wait until this epoch is final, then read the newest one.",
);
/// How long to wait.
pub const TIMEOUT: Parameter = one(
    "timeout",
    ParameterKind::Seconds,
    "Seconds to wait for an epoch or a state host, at most the gateway's limit.",
);
/// What is seen of the next epoch.
pub const ISOLATION_LEVEL: Parameter = one(
    "isolation_level",
    ParameterKind::OneOf(&["read_committed", "read_uncommitted"]),
    "Whether to read only what is final, or also what is staged. By default as the query says.",
);
/// Whether copies may be behind.
pub const STALE_OK: Parameter = one(
    "stale_ok",
    ParameterKind::OneOf(&["false", "true"]),
    "If no state host answers, read the copies that the gateway has, also if they are behind.",
);
/// The moment at which a versioned table is read.
pub const AS_OF: Parameter = one(
    "as_of",
    ParameterKind::Moment,
    "Read the versions that were valid at this moment. Only versioned tables.",
);
/// The columns of the result.
pub const COLUMNS: Parameter = many(
    "columns",
    "A column of the result; once for each. By default all columns.",
);
/// The most rows.
pub const LIMIT: Parameter = one("limit", ParameterKind::Count, "The most rows.");
/// The first columns of the keys of a scan.
pub const PREFIX: Parameter = many(
    "prefix",
    "The value of a key column; once for each of the first key columns. Only keys that begin so.",
);
/// The first key of a scan.
pub const START: Parameter = many(
    "start",
    "The first key, a value for each column as in prefix. It is included.",
);
/// The last key of a scan.
pub const END: Parameter = many(
    "end",
    "The last key, a value for each column as in prefix. It is included.",
);
/// The first time of windows or versions.
pub const TIME_FROM: Parameter = one(
    "time_from",
    ParameterKind::Moment,
    "The first time of windows, sessions or versions.",
);
/// The last time of windows or versions.
pub const TIME_TO: Parameter = one(
    "time_to",
    ParameterKind::Moment,
    "The last time of windows, sessions or versions.",
);
