//! RocksDB used by hand: the baseline of the stores.
#![allow(dead_code, reason = "each bench uses a part")]

use rust_rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType, Options, WriteBatch,
    WriteOptions,
};
use std::path::Path;

/// Opens a database with the file options of a key-value store. `hinted` adds its options of
/// memtables: the hint, which only helps sorted batches, and the write buffers.
pub fn open(path: &Path, hinted: bool) -> DB {
    let mut options = Options::default();
    if hinted {
        options = options
            .get_options_from_string(
                "memtable_insert_with_hint_prefix_extractor=rocksdb.CappedPrefix.0",
            )
            .expect("the option exists");
    }
    options.create_if_missing(true);
    options.set_max_background_jobs(2);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
    options.set_memtable_batch_lookup_optimization(true);
    options.set_level_compaction_dynamic_level_bytes(true);
    if hinted {
        options.set_write_buffer_size(16 << 20);
        options.set_max_write_buffer_number(8);
    } else {
        options.set_write_buffer_size(64 << 20);
        options.set_max_write_buffer_number(3);
    }
    let mut table = BlockBasedOptions::default();
    table.set_block_size(8 << 10);
    table.set_format_version(6);
    table.set_block_restart_interval(4);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    table.set_bloom_filter(10.0, false);
    table.set_block_cache(&Cache::new_hyper_clock_cache(128 << 20, 0));
    options.set_block_based_table_factory(&table);
    DB::open(&options, path).expect("a new database opens")
}

/// Returns write options that disable the WAL.
pub fn no_wal() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

/// Puts rows one by one.
pub fn put_loop<'a>(db: &DB, rows: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
    let options = no_wal();
    for (key, value) in rows {
        db.put_opt(key, value, &options).expect("a put");
    }
}

/// Puts rows in sorted batches and does nothing else: the fastest way.
pub fn sorted_batches<'a>(db: &DB, rows: &[(&'a [u8], &'a [u8])], batch: usize) {
    let options = no_wal();
    for chunk in rows.chunks(batch) {
        let mut sorted: Vec<_> = chunk.to_vec();
        sorted.sort_unstable_by(|a, b| a.0.cmp(b.0));
        let mut write = WriteBatch::default();
        for (key, value) in sorted {
            write.put(key, value);
        }
        db.write_opt(&write, &options).expect("a write");
    }
}
