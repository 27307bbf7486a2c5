//! The far-future rows of the job: each partition has one such order in half of the epochs.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_ipc::reader::FileReader;

/// The operator's `max_ahead`, in microseconds.
pub const MAX_AHEAD: i64 = 1_000_000;
/// The time of far-future orders.
pub const TIME: i64 = 1 << 50;

/// The id of a partition's far-future order.
pub fn order(rows: u64, partition: usize) -> Option<i64> {
    let has_one = rows >> partition & 1 == 1;
    has_one.then_some((rows >> 2).cast_signed())
}

/// Checks that the root has this far-future order of a partition, and no other one.
pub fn check(
    root: &Path,
    epoch: usize,
    partition: usize,
    expected: Option<i64>,
) -> Result<(), String> {
    let name = format!("ahead/join/{epoch:020}.{partition}.arrow");
    let stored = stored(&root.join(&name)).map_err(|error| format!("{name}: {error}"))?;
    let expected = Vec::from_iter(expected);
    if stored == expected {
        return Ok(());
    }
    Err(format!("{name}: {stored:?} instead of {expected:?}"))
}

fn stored(path: &Path) -> Result<Vec<i64>, String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        file => file.map_err(|error| error.to_string())?,
    };
    let mut ids = Vec::new();
    for batch in FileReader::try_new(file, None).map_err(|error| error.to_string())? {
        let batch = batch.map_err(|error| error.to_string())?;
        ids.extend(batch["id"].as_primitive::<Int64Type>().values());
    }
    Ok(ids)
}
