//! RocksDB's integer properties among the figures.

/// Properties that are summed over a store's families: name (without `rocksdb.`), unit, meaning.
pub(super) const STORE_PROPERTIES: [(&str, &str, &str); 16] = [
    (
        "num-immutable-mem-table",
        "memtables",
        "Memtables that are full and not yet written to files",
    ),
    (
        "cur-size-active-mem-table",
        "bytes",
        "Size of the memtables that are written to",
    ),
    (
        "cur-size-all-mem-tables",
        "bytes",
        "Size of all memtables that are not yet written to files",
    ),
    (
        "size-all-mem-tables",
        "bytes",
        "Size of all memtables, including those that a reader still uses",
    ),
    (
        "num-entries-active-mem-table",
        "rows",
        "Rows in the memtables that are written to",
    ),
    (
        "num-deletes-active-mem-table",
        "rows",
        "Deletes in the memtables that are written to",
    ),
    (
        "num-entries-imm-mem-tables",
        "rows",
        "Rows in full memtables",
    ),
    (
        "num-deletes-imm-mem-tables",
        "rows",
        "Deletes in full memtables",
    ),
    (
        "mem-table-flush-pending",
        "families",
        "Column families that wait to be flushed",
    ),
    (
        "compaction-pending",
        "families",
        "Column families that wait to be compacted",
    ),
    (
        "estimate-pending-compaction-bytes",
        "bytes",
        "Bytes that compactions have to rewrite",
    ),
    (
        "total-sst-files-size",
        "bytes",
        "Size of all files, including those that a reader still uses",
    ),
    (
        "live-sst-files-size",
        "bytes",
        "Size of the files of the newest state",
    ),
    (
        "num-live-versions",
        "versions",
        "Versions of the list of files that are still in use",
    ),
    (
        "estimate-num-keys",
        "rows",
        "About how many rows files and memtables hold",
    ),
    (
        "estimate-table-readers-mem",
        "bytes",
        "Memory of open files outside the block cache",
    ),
];

/// Properties of the whole database, or of the memory that the process's databases share.
pub(super) const DATABASE_PROPERTIES: [(&str, &str, &str); 5] = [
    ("num-running-flushes", "flushes", "Flushes that are running"),
    (
        "num-running-compactions",
        "compactions",
        "Compactions that are running",
    ),
    (
        "block-cache-capacity",
        "bytes",
        "Capacity of the block cache; all databases of a process share it",
    ),
    (
        "block-cache-usage",
        "bytes",
        "Used size of the block cache; all databases of a process share it",
    ),
    (
        "block-cache-pinned-usage",
        "bytes",
        "Size of the cached blocks in use; all databases of a process share the cache",
    ),
];
