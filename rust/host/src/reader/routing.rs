//! Finds the partitions that a read asks.

mod partitioning;

use std::collections::BTreeMap;

use arrow_array::{ArrayRef, RecordBatch};
use holdfast_core::{Error, ErrorKind, Result};

use self::partitioning::partitions_of;
use crate::codec::float;
use crate::protocol::PartitionId;
use crate::tables::{ReadCall, ReadRows, StateTable};

/// The most keys of one request: a host holds them in memory.
const MAX_KEYS: usize = 10_000;

/// The partitions of a root.
pub struct Routing {
    /// How many there are.
    pub partitions: u32,
}

impl Routing {
    /// All partitions.
    fn all_partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..i32::try_from(self.partitions).unwrap_or(i32::MAX)).map(PartitionId)
    }

    /// One partition, or all of them.
    ///
    /// # Errors
    /// `InvalidValue` if there is no such partition.
    pub fn chosen(&self, partition: Option<PartitionId>) -> Result<Vec<PartitionId>> {
        let mut all = self.all_partitions();
        let Some(one) = partition else {
            return Ok(all.collect());
        };
        if all.any(|partition| partition == one) {
            return Ok(vec![one]);
        }
        let text = format!(
            "there is no partition {one}: the state has {} partitions, from 0",
            self.partitions
        );
        Err(Error::new(ErrorKind::InvalidValue, text))
    }

    /// Returns the partitions that may have the keys, each with the numbers of its rows in `keys`.
    /// A partition with more than [`MAX_KEYS`] rows comes several times. If there are many keys,
    /// the rows of a partition are roughly in ascending order of their keys.
    ///
    /// # Errors
    /// As [`partitions_of`] and [`KeyForm::encode`](crate::tables::KeyForm::encode).
    pub fn asked(
        &self,
        table: &StateTable,
        keys: &RecordBatch,
    ) -> Result<Vec<(PartitionId, Vec<u64>)>> {
        let rows = table.key().ascending(keys)?;
        let mut asked: BTreeMap<PartitionId, Vec<u64>> = BTreeMap::new();
        match self.places(table, keys)? {
            Some(places) => {
                for row in rows {
                    let place = usize::try_from(row).ok().and_then(|row| places.get(row));
                    if let Some(partition) = place {
                        asked.entry(*partition).or_default().push(row);
                    }
                }
            }
            None => {
                let all = self.all_partitions();
                asked.extend(all.map(|partition| (partition, rows.clone())));
            }
        }
        let chunks = asked.iter().flat_map(|(partition, rows)| {
            let chunks = rows.chunks(MAX_KEYS);
            chunks.map(|rows| (*partition, rows.to_vec()))
        });
        Ok(chunks.collect())
    }

    /// The partition of each row of keys; none if the keys do not choose it.
    ///
    /// # Errors
    /// As [`partitions_of`].
    pub fn places(
        &self,
        table: &StateTable,
        keys: &RecordBatch,
    ) -> Result<Option<Vec<PartitionId>>> {
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
