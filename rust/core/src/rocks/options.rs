//! RocksDB's options, chosen by measurement (`layout.md` sections 1, 3 and 4). Given anew at every
//! open: options that are left to what the files remember have silently fallen back to defaults in
//! other projects.

use super::environment::Environment;
use super::family::{FamilyKind, FamilySpec};
use super::shared::with_shared;
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::{Ends, ExpiryFilter, Horizon};
use crate::failpoint::Failpoint;
use crate::store::windowed;
use rust_rocksdb::{
    BlockBasedOptions, DBCompactionStyle, DBCompressionType, DBRecoveryMode, DataBlockIndexType,
    Options, SliceTransform, UniversalCompactOptions,
};

/// How a database is opened.
#[derive(Clone, Default)]
pub struct RocksOptions {
    /// Keep a write-ahead log and fsync it at every write.
    pub sync: bool,
    /// RocksDB's own option strings, passed through, of the database and of every family.
    pub extra: Vec<(String, String)>,
    /// The expiry horizon of each store whose rows grow old, read by its compactions.
    pub horizons: Vec<(String, Horizon)>,
    /// Keep RocksDB's own counts, which costs every call some time.
    pub statistics: bool,
    /// The file system beneath; `None` is the operating system's.
    pub environment: Option<Environment>,
    /// The number of a commit that has a commit file, and may not be in the files yet.
    pub begun: Option<u64>,
    /// What was spilled of a transaction: only sorted files come in, and the directory goes with
    /// the last who holds the database.
    pub temporary: bool,
}

/// Sorted files of one temporary family that wait to be merged; a read asks the filters of each.
const TEMPORARY_FILES: i32 = 32;

/// Bytes of the time part at the end of every key of a `versions` family.
pub(crate) const TIME_BYTES: usize = 8;

/// What answers, snapshots or durability rest on.
const OURS: [&str; 17] = [
    "atomic_flush",
    "comparator",
    "compaction_filter",
    "compaction_filter_factory",
    "compaction_options_fifo",
    "compaction_style",
    "create_if_missing",
    "create_missing_column_families",
    "env",
    "inplace_update_support",
    "memtable_insert_with_hint_prefix_extractor",
    "merge_operator",
    "prefix_extractor",
    "unordered_write",
    "wal_dir",
    "wal_recovery_mode",
    "write_buffer_manager",
];

fn key_part(row: &[u8]) -> &[u8] {
    &row[..row.len() - TIME_BYTES]
}

fn has_key_part(row: &[u8]) -> bool {
    row.len() >= TIME_BYTES
}

pub(super) fn rocks_options(options: &RocksOptions) -> Result<Options> {
    let mut db = Options::default();
    db.set_max_background_jobs(2);
    db.set_max_open_files(512);
    // Sixteen for each family otherwise, started also for one file of it.
    db.set_max_file_opening_threads(4);
    db.set_keep_log_file_num(3);
    db.set_max_log_file_size(4 << 20);
    // Every flush adds to it, and every checkpoint copies it: begun anew well before it is larger
    // than the rows of a small state.
    db.set_max_manifest_file_size(1 << 20);
    db.set_stats_dump_period_sec(0);
    db.set_max_total_wal_size(64 << 20);
    db = with_extra(db, &options.extra)?;
    if let Some(environment) = &options.environment {
        db.set_env(&environment.env);
    }
    db.create_if_missing(true);
    db.create_missing_column_families(true);
    db.set_atomic_flush(true);
    // A torn record at the very end is a commit that never returned; anything else damaged is an
    // error.
    db.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    with_shared(|shared| db.set_write_buffer_manager(&shared.write_buffers));
    Ok(db)
}

pub(super) fn family_options(spec: &FamilySpec, options: &RocksOptions) -> Result<Options> {
    // Every write comes as a batch sorted by key, where the hint halves the memtable's work. The
    // crate has no setter for it, so it is read from a string first; the setters below then apply
    // on top.
    let hint = "memtable_insert_with_hint_prefix_extractor=rocksdb.CappedPrefix.0".to_owned();
    let mut family = Options::default();
    family = family.get_options_from_string(hint).map_err(|error| {
        Error::new(
            ErrorKind::UnsupportedOperation,
            format!(
                "this build of RocksDB does not know an option that Holdfast needs (cause: \
                 {error})"
            ),
        )
    })?;
    family.set_write_buffer_size(16 << 20);
    family.set_max_write_buffer_number(8);
    family.set_compression_type(DBCompressionType::Lz4);
    family.set_level_compaction_dynamic_level_bytes(true);
    family.set_target_file_size_base(32 << 20);
    family.set_memtable_batch_lookup_optimization(true);

    let mut table = BlockBasedOptions::default();
    table.set_block_size(8 << 10);
    table.set_format_version(6);
    with_shared(|shared| table.set_block_cache(&shared.cache));
    table.set_bloom_filter(10.0, false);
    if matches!(
        spec.kind,
        FamilyKind::KeyValue | FamilyKind::Stamped | FamilyKind::Latest
    ) {
        // Read by key more than in order: a third of a hit's time goes into the search within its
        // block, and this takes 8 % off a hit for 2 % more bytes.
        table.set_block_restart_interval(4);
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    }
    if matches!(spec.kind, FamilyKind::Versions | FamilyKind::Latest) {
        // A version is inserted into two skip lists. Lists of 4 MiB stay in the processor's caches,
        // which makes a put a third cheaper; as many bytes may wait for a flush or lie in level 0
        // as elsewhere (`docs/design/versioned-puts.md`).
        family.set_write_buffer_size(4 << 20);
        family.set_max_write_buffer_number(32);
        family.set_level_zero_file_num_compaction_trigger(8);
        family.set_level_zero_slowdown_writes_trigger(40);
        family.set_level_zero_stop_writes_trigger(60);
    }
    match spec.kind {
        FamilyKind::Versions => {
            family.set_prefix_extractor(SliceTransform::create(
                "holdfast.key_part",
                key_part,
                Some(has_key_part),
            ));
            // 27 bits a key of a full memtable: at 0.05 a put costs a tenth more, at 0 a read of a
            // key that is not there a sixth.
            family.set_memtable_prefix_bloom_ratio(0.02);
            table.set_whole_key_filtering(false);
        }
        FamilyKind::Windowed | FamilyKind::Times | FamilyKind::Latest | FamilyKind::KeyValue => {}
        FamilyKind::Stamped | FamilyKind::Metadata | FamilyKind::Offsets => {}
    }
    if matches!(
        spec.kind,
        FamilyKind::Versions | FamilyKind::Windowed | FamilyKind::Times
    ) && let Some((_, horizon)) = options
        .horizons
        .iter()
        .find(|(store, _)| *store == spec.store)
    {
        family.set_compaction_filter_factory(ExpiryFactory {
            kind: spec.kind,
            horizon: horizon.clone(),
        });
    }
    if options.temporary {
        set_temporary(&mut family, &mut table);
    }
    family.set_block_based_table_factory(&table);
    let own = if options.temporary {
        &[][..]
    } else {
        &options.extra
    };
    if !options.temporary && !own.iter().any(|(name, _)| name == "compression") {
        // What lies in level 0 is soon written again, and its flush is what a writer waits for: two
        // fifths of it were LZ4.
        family.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
    }
    with_extra(family, own)
}

/// Options with the user's over them. RocksDB reads names of both kinds from a string, and each
/// kind takes its own.
fn with_extra(mut options: Options, extra: &[(String, String)]) -> Result<Options> {
    if let Some((name, _)) = extra.iter().find(|(name, _)| OURS.contains(&name.as_str())) {
        let words = format!(
            "rocksdb_options: {name} cannot be set, since what the stores promise rests on it; \
             leave it out"
        );
        return Err(Error::new(ErrorKind::InvalidValue, words));
    }
    if extra.is_empty() {
        return Ok(options);
    }
    let extra: String = extra
        .iter()
        .map(|(name, value)| format!("{name}={value};"))
        .collect();
    options.get_options_from_string(extra).map_err(|error| {
        Error::new(
            ErrorKind::InvalidValue,
            format!(
                "rocksdb_options: an option or its value is not known to RocksDB (cause: {error})"
            ),
        )
    })
}

/// Written and read through once, or not at all: cheap to write, and its filters within the shared
/// cache.
fn set_temporary(family: &mut Options, table: &mut BlockBasedOptions) {
    family.set_compression_type(DBCompressionType::None);
    table.set_cache_index_and_filter_blocks(true);
    // Files of like size are merged when there are many; the usual transaction ends before.
    let mut merging = UniversalCompactOptions::default();
    merging.set_max_size_amplification_percent(i32::MAX);
    family.set_compaction_style(DBCompactionStyle::Universal);
    family.set_universal_compaction_options(&merging);
    family.set_level_zero_file_num_compaction_trigger(TEMPORARY_FILES);
    family.set_level_zero_slowdown_writes_trigger(i32::MAX);
    family.set_level_zero_stop_writes_trigger(i32::MAX);
}

/// Makes one filter a compaction; what it drops is decided by the store.
struct ExpiryFactory {
    kind: FamilyKind,
    horizon: Horizon,
}

/// One pass over rows in key order.
struct Expiry {
    rows: Rows,
    moment: i64,
    horizon: Horizon,
    ends: Option<Ends>,
}

enum Rows {
    Versions(ExpiryFilter),
    Windowed(FamilyKind),
}

impl rust_rocksdb::compaction_filter_factory::CompactionFilterFactory for ExpiryFactory {
    type Filter = Expiry;

    fn create(
        &mut self,
        context: rust_rocksdb::compaction_filter_factory::CompactionFilterContext,
    ) -> Expiry {
        // A filter cannot fail.
        let _ = Failpoint::InCompaction.reached();
        let horizon = self.horizon.clone();
        let moment = horizon.get();
        let rows = match self.kind {
            FamilyKind::Versions => Rows::Versions(ExpiryFilter::new(moment)),
            kind => Rows::Windowed(kind),
        };
        let ends = if context.is_manual_compaction {
            horizon.wanted_ends()
        } else {
            None
        };
        Expiry {
            rows,
            moment,
            horizon,
            ends,
        }
    }

    fn name(&self) -> &std::ffi::CStr {
        c"holdfast.expiry"
    }
}

impl rust_rocksdb::compaction_filter::CompactionFilter for Expiry {
    fn filter(&mut self, _: u32, row: &[u8], _: &[u8]) -> rust_rocksdb::CompactionDecision {
        let end = match &mut self.rows {
            Rows::Versions(filter) => filter.end(row),
            Rows::Windowed(kind) => windowed::row_time(*kind, row),
        };
        if end.is_some_and(|end| end < self.moment) {
            return rust_rocksdb::CompactionDecision::Remove;
        }
        if let (Some(end), Some(ends)) = (end, &mut self.ends) {
            ends.note(end);
        }
        rust_rocksdb::CompactionDecision::Keep
    }

    fn name(&self) -> &std::ffi::CStr {
        c"holdfast.expiry"
    }
}

impl Drop for Expiry {
    fn drop(&mut self) {
        if let Some(ends) = &self.ends {
            self.horizon.add_ends(ends);
        }
    }
}
