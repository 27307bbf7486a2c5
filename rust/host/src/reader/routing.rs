//! Which partitions a read asks.

use arrow_array::{ArrayRef, RecordBatch};
use holdfast_core::Result;

use super::partitioning::partitions_of;
use crate::codec::float;
use crate::protocol::PartitionId;
use crate::tables::{ReadCall, ReadRows, StateTable};

/// The most keys of one request: a host holds the rows of a request in memory.
const MAX_KEYS: usize = 10_000;

/// The partitions of a root.
pub struct Routing {
    /// How many there are.
    pub partitions: u32,
}

impl Routing {
    fn all_partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..i32::try_from(self.partitions).unwrap_or(i32::MAX)).map(PartitionId)
    }

    /// The partitions that keys are asked of, each with the rows of its keys,
    /// at most [`MAX_KEYS`].
    ///
    /// # Errors
    /// As [`partitions_of`].
    pub fn asked(
        &self,
        table: &StateTable,
        keys: &RecordBatch,
    ) -> Result<Vec<(PartitionId, Vec<u64>)>> {
        let places = self.places(table, keys)?;
        let rows = 0..keys.num_rows() as u64;
        let asked = self.all_partitions().map(|partition| {
            let is_there = |row: &u64| {
                let row = usize::try_from(*row).unwrap_or(usize::MAX);
                places
                    .as_ref()
                    .is_none_or(|places| places.get(row) == Some(&partition))
            };
            (partition, rows.clone().filter(is_there).collect::<Vec<_>>())
        });
        let chunks = asked.flat_map(|(partition, rows)| {
            let chunks = rows.chunks(MAX_KEYS).map(<[u64]>::to_vec);
            chunks
                .map(move |rows| (partition, rows))
                .collect::<Vec<_>>()
        });
        Ok(chunks.collect())
    }

    /// The partition of each row of keys; none if the keys do not choose it.
    fn places(&self, table: &StateTable, keys: &RecordBatch) -> Result<Option<Vec<PartitionId>>> {
        let fields = table.key().fields();
        if !table.key().routes() || keys.num_columns() < fields.len() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = keys
            .columns()
            .iter()
            .take(fields.len())
            .map(float::for_equality)
            .collect();
        partitions_of(&columns, keys.num_rows(), self.partitions).map(Some)
    }

    /// The partitions that hold the rows of a scan.
    ///
    /// # Errors
    /// As [`partitions_of`].
    pub fn of_bounds(
        &self,
        table: &StateTable,
        call: &ReadCall,
        batch: &RecordBatch,
    ) -> Result<Vec<PartitionId>> {
        let is_one_key = matches!(call.rows, ReadRows::Prefix | ReadRows::VersionsOfKey);
        if is_one_key && let Some(places) = self.places(table, batch)? {
            return Ok(places);
        }
        Ok(self.all_partitions().collect())
    }
}
