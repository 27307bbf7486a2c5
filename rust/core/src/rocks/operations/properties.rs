//! RocksDB's integer properties, which cost nothing until they are read, and its statistics.

use crate::error::Result;
use crate::rocks::family::Family;
use crate::rocks::rocks_db::RocksDb;
use crate::rocks::statistics::{Job, JobTimes, Tickers};

impl RocksDb {
    /// Returns the sum of an integer property over all families.
    pub fn property(&self, name: &str) -> Result<u64> {
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        Ok(self
            .handles
            .iter()
            .filter_map(|(_, f)| db.property_int_value_cf(&f.handle, name).ok().flatten())
            .sum())
    }

    /// Returns an integer property of one family.
    pub fn family_property(&self, family: Family, name: &str) -> Result<u64> {
        let guard = self.guard()?;
        Ok(self
            .opened(&guard)?
            .property_int_value_cf(&family.handle, name)
            .ok()
            .flatten()
            .unwrap_or(0))
    }

    /// Returns how many flushes and compactions have failed since the open. RocksDB counts those of
    /// all families in its default family, which holds no rows.
    pub(crate) fn background_errors(&self) -> Result<u64> {
        let guard = self.guard()?;
        Ok(self
            .opened(&guard)?
            .property_int_value("rocksdb.background-errors")
            .ok()
            .flatten()
            .unwrap_or(0))
    }

    /// The sum of an integer property over some families.
    pub(crate) fn families_property(&self, families: &[Family], name: &str) -> Result<u64> {
        families
            .iter()
            .map(|family| self.family_property(*family, name))
            .sum()
    }

    /// How many files some families have at level 0 together. RocksDB has this number as text only.
    pub(crate) fn level0_files(&self, families: &[Family]) -> Result<u64> {
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        let files = families.iter().map(|family| {
            let text = db.property_value_cf(&family.handle, "rocksdb.num-files-at-level0");
            text.ok()
                .flatten()
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(0)
        });
        Ok(files.sum())
    }

    /// RocksDB's totals; `None` if statistics are off.
    pub(crate) fn tickers(&self) -> Option<Tickers> {
        self.statistics.tickers()
    }

    /// How long the jobs of one kind took; `None` if statistics are off.
    pub(crate) fn job_times(&self, job: Job) -> Option<JobTimes> {
        self.statistics.job_times(job)
    }
}
