//! The store of a processor's timers. The worker also stores the stream time in it.

use holdfast_core::{Database, Result, StoreKind, Transaction};

/// The store's name. Its rows are described in `python/holdfast/spark/worker/processor/timers.py`.
const TIMERS: &str = "holdfast.timers";
/// The key of the stream time.
const STREAM_TIME: &[u8] = b"";

/// Returns the stream time as the worker has stored it; none if the processor's rows have no time,
/// or if the worker has not stored one yet.
///
/// The stream times of the other stores are not used: the processor's code may write any times to
/// them.
///
/// # Errors
/// Those of the database.
pub fn stream_time(db: &Database, tx: &mut Transaction) -> Result<Option<i64>> {
    let is_timers = |name: &str, kind: &StoreKind| name == TIMERS && *kind == StoreKind::KeyValue;
    if !db.stores().any(|spec| is_timers(&spec.name, &spec.kind)) {
        return Ok(None);
    }
    db.key_value(TIMERS)?
        .get(tx, STREAM_TIME, |time| time.and_then(moment))
}

/// Decodes a time: 8 bytes, big-endian, with the sign bit flipped.
fn moment(bytes: &[u8]) -> Option<i64> {
    let bytes = bytes.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ (1 << 63)).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_decoded_from_the_bytes_that_the_worker_stores() {
        assert_eq!(moment(b"\x80\0\0\0\0\0\0\x05"), Some(5));
        assert_eq!(moment(b"\x7f\xff\xff\xff\xff\xff\xff\xff"), Some(-1));
        assert_eq!(moment(b"short"), None);
    }
}
