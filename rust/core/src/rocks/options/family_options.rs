//! RocksDB's options of a column family, by the kind of its rows.

use super::rocks_options::RocksOptions;
use super::shared_memory::with_shared;
use super::user_options::with_extra;
use crate::error::{Error, ErrorKind, Result};
use crate::table::{FamilyKind, FamilySpec, TIME_BYTES};
use rust_rocksdb::{
    BlockBasedOptions, BlockBasedPinningTier, DBCompactionStyle, DBCompressionType,
    DataBlockIndexType, Options, SliceTransform, UniversalCompactOptions,
};

/// A memtable takes memory in blocks of this size, and the write-buffer manager counts whole
/// blocks. With RocksDB's default of 512 KiB to 1 MiB, 40 databases with a few rows each would use
/// up the memory of all write buffers, and every commit would flush.
const ARENA_BLOCK: usize = 64 << 10;

/// The same for families that have few rows in every database.
const SMALL_ARENA_BLOCK: usize = 8 << 10;

/// How many sorted files a temporary family has before they are merged. A read checks the filter of
/// each.
const TEMPORARY_FILES: i32 = 32;

fn key_part(row: &[u8]) -> &[u8] {
    &row[..row.len() - TIME_BYTES]
}

fn has_key_part(row: &[u8]) -> bool {
    row.len() >= TIME_BYTES
}

pub(in crate::rocks) fn family_options(
    spec: &FamilySpec,
    options: &RocksOptions,
) -> Result<Options> {
    // Every write is a batch sorted by key, for which the hint halves the memtable's work. The
    // crate has no setter for it, so it is parsed from a string, before the setters below.
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
    family.set_arena_block_size(match spec.kind {
        FamilyKind::Metadata | FamilyKind::Offsets => SMALL_ARENA_BLOCK,
        _ => ARENA_BLOCK,
    });
    family.set_compression_type(DBCompressionType::Lz4);
    family.set_level_compaction_dynamic_level_bytes(true);
    family.set_target_file_size_base(32 << 20);
    family.set_memtable_batch_lookup_optimization(true);

    let mut table = BlockBasedOptions::default();
    table.set_block_size(8 << 10);
    table.set_format_version(6);
    with_shared(|shared| table.set_block_cache(&shared.cache));
    table.set_bloom_filter(10.0, false);
    // A row has 1.25 bytes of filter and up to 0.3 of index. They are stored in the cache: outside
    // it, their memory would grow with the rows.
    table.set_cache_index_and_filter_blocks(true);
    if !options.temporary {
        // Without the pin, a get makes two more look-ups in the cache: it takes 7 % longer, and a
        // get of a missing key 28 % longer.
        table.set_unpartitioned_pinning_tier(BlockBasedPinningTier::All);
    }
    if matches!(
        spec.kind,
        FamilyKind::KeyValue | FamilyKind::Stamped | FamilyKind::Latest
    ) {
        // These families are read more by key than in order. A get of an existing key spends a
        // third of its time on the search within a block. These settings save 8 % of that get's
        // time and add 2 % of bytes.
        table.set_block_restart_interval(4);
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    }
    if matches!(spec.kind, FamilyKind::Versions | FamilyKind::Latest) {
        // A version is inserted into two skip lists. Lists of 4 MiB stay in the processor's caches,
        // which makes a put a third cheaper. The limit for bytes that wait for a flush is that of
        // the other families; the limits for bytes in level 0 are not above theirs
        // (`docs/design/versioned-puts.md`).
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
            // 27 bits for each key of a full memtable. With 0.05 a put costs a fourteenth more;
            // with 0 a read of a missing key costs a sixth more.
            family.set_memtable_prefix_bloom_ratio(0.02);
            table.set_whole_key_filtering(false);
        }
        FamilyKind::Windowed | FamilyKind::Times | FamilyKind::Latest | FamilyKind::KeyValue => {}
        FamilyKind::Stamped | FamilyKind::Metadata | FamilyKind::Offsets => {}
    }
    if matches!(
        spec.kind,
        FamilyKind::Versions | FamilyKind::Windowed | FamilyKind::Times
    ) && let Some((_, filter)) = options
        .row_filters
        .iter()
        .find(|(store, _)| *store == spec.store)
    {
        filter.set(spec.kind, &mut family);
    }
    if options.temporary {
        set_temporary(&mut family);
    }
    family.set_block_based_table_factory(&table);
    let extra = if options.temporary {
        &[][..]
    } else {
        &options.extra
    };
    if !options.temporary && !extra.iter().any(|(name, _)| name == "compression") {
        // Rows of level 0 are soon rewritten, and a writer waits for flushes: LZ4 took two fifths
        // of a flush's time.
        family.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
    }
    with_extra(family, extra)
}

/// Sets options that make writes cheap, for spilled rows: they are deleted with their transaction.
fn set_temporary(family: &mut Options) {
    family.set_compression_type(DBCompressionType::None);
    // Files of similar size are merged when there are many. Most transactions end before that.
    let mut merging = UniversalCompactOptions::default();
    merging.set_max_size_amplification_percent(i32::MAX);
    family.set_compaction_style(DBCompactionStyle::Universal);
    family.set_universal_compaction_options(&merging);
    family.set_level_zero_file_num_compaction_trigger(TEMPORARY_FILES);
    family.set_level_zero_slowdown_writes_trigger(i32::MAX);
    family.set_level_zero_stop_writes_trigger(i32::MAX);
}
