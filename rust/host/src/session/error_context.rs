//! Operator, partition and recovery advice in the errors of a session.

use holdfast_core::{Error, ErrorKind};

use crate::protocol::{OperatorName, PartitionId};

const NOTHING_LOST: &str = "nothing that was committed is lost";

/// Adds operator, partition and recovery advice to an error of a disk or of damaged data.
pub fn with_context(error: Error, operator: &OperatorName, partition: PartitionId) -> Error {
    let about = format!("operator {operator}, partition {partition}");
    match error.kind() {
        ErrorKind::Io => {
            let text = error.to_string();
            let advice = if text.contains(NOTHING_LOST) {
                String::new()
            } else {
                format!(
                    ". Once the cause is removed, the Spark task may be retried: {NOTHING_LOST}"
                )
            };
            Error::new(ErrorKind::Io, format!("{about}: {text}{advice}"))
        }
        ErrorKind::StoreCorrupted => {
            let text = format!(
                "{about}: {error}. Only the executor's copy of the state is damaged, and the retry \
                 of the task rebuilds it: {NOTHING_LOST}"
            );
            Error::new(ErrorKind::StoreCorrupted, text)
        }
        ErrorKind::Serialization => error.about(&about),
        _ => error,
    }
}
