//! What a request asks for, as text and JSON.

mod exact;
mod key_columns;
mod moment;
mod parameter;
mod params;

pub use key_columns::KeyColumns;
pub use parameter::{
    AS_OF, AT_LEAST, COLUMNS, END, EPOCH, FROM_EPOCH, ISOLATION_LEVEL, LIMIT, PARTITION, PREFIX,
    Parameter, ParameterKind, REWIND, STALE_OK, START, TIME_FROM, TIME_TO, TIMEOUT, TO_EPOCH,
};
pub use params::Params;
