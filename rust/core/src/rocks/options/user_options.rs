//! The user's RocksDB options (`rocksdb_options`).

use super::reserved_options::refusal;
use crate::error::{Error, ErrorKind, Result};
use rust_rocksdb::Options;

/// Checks the names and values of the user's options, without opening a database.
///
/// # Errors
/// `InvalidValue` for an option that guarantees depend on, and for a name or value that RocksDB
/// does not know.
pub fn check_rocksdb_options(options: &[(String, String)]) -> Result<()> {
    with_extra(Options::default(), options).map(drop)
}

/// Overrides the given options with the user's. `extra` may hold options of the database and of its
/// families: RocksDB ignores those that do not apply.
pub(super) fn with_extra(mut options: Options, extra: &[(String, String)]) -> Result<Options> {
    for (name, value) in extra {
        check_option(name, value).map_err(|words| {
            let words = format!("rocksdb_options: {words}; leave it out");
            Error::new(ErrorKind::InvalidValue, words)
        })?;
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

/// Returns the reason as an error unless RocksDB reads the pair as one option that a user can set.
fn check_option(name: &str, value: &str) -> std::result::Result<(), String> {
    // RocksDB would drop spaces around a name, and read `a.b` as part b of the option a.
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_letter) {
        return Err(format!(
            "{name:?} is not the name of an option: a name consists of letters, digits and \
             underscores (a part of an option is set in its value, as {{part=value}})"
        ));
    }
    if !is_one_value(value) {
        return Err(format!(
            "the value of {name} is not one value: one value has no semicolon outside braces, and \
             if it begins with a brace, it ends with the matching one"
        ));
    }
    refusal(name, value).map_or(Ok(()), Err)
}

/// Whether RocksDB reads all of `value` as one value. If it begins with a brace, RocksDB reads up
/// to the matching one, otherwise up to the first semicolon (`StringToMap` in
/// `options/options_helper.cc`, 11.12).
fn is_one_value(value: &str) -> bool {
    let value = value.trim_ascii();
    if !value.starts_with('{') {
        return !value.contains(';');
    }
    let mut depth = 0_usize;
    let closing = value.bytes().position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    closing == Some(value.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rust_rocksdb::{DB, WriteOptions};

    fn refused(name: &str, value: &str) -> Option<String> {
        let checked = check_rocksdb_options(&[(name.to_owned(), value.to_owned())]);
        let error = checked.err()?;
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        Some(error.to_string())
    }

    #[test]
    fn reserved_option_is_refused_in_every_spelling() {
        let options = [
            ("paranoid_checks", "false"),
            (" paranoid_checks", "false"),
            ("paranoid_checks\n", "false"),
            ("max_open_files=77; paranoid_checks", "false"),
            ("max_open_files", "77;paranoid_checks=false"),
            ("max_open_files", "77 ; paranoid_checks = false ;"),
            ("db_host_id", "a{;paranoid_checks=false;db_log_dir=}"),
            ("db_host_id", "\x0b{a};paranoid_checks=false;db_log_dir={b}"),
            ("compression_opts", "{level=1};paranoid_checks=false"),
            (
                "compression_opts",
                "{level=1};paranoid_checks=false;db_log_dir={a}",
            ),
            ("compaction_options_fifo.max_table_files_size", "1"),
        ];
        for (name, value) in options {
            let refused = refused(name, value);
            assert!(
                refused.is_some_and(|words| !words.contains("not known to RocksDB")),
                "{name:?}: {value:?}"
            );
        }
    }

    #[test]
    fn option_that_could_lose_or_hide_a_commit_is_reserved() {
        let accepted: Vec<_> = [
            ("WAL_size_limit_MB", "100"),
            ("WAL_ttl_seconds", "100"),
            ("allow_2pc", "true"),
            ("best_efforts_recovery", "true"),
            ("block_based_table_factory", "{checksum=kNoChecksum}"),
            (
                "block_based_table_factory",
                "{{block_size=1; checksum =kXXH3}}",
            ),
            ("compaction_verify_record_count", "false"),
            ("enable_blob_direct_write", "true"),
            ("enable_pipelined_write", "true"),
            ("error_if_exists", "true"),
            ("flush_verify_memtable_count", "false"),
            ("force_consistency_checks", "false"),
            ("manual_wal_flush", "true"),
            ("open_files_async", "true"),
            ("persist_stats_to_disk", "true"),
            ("plain_table_factory", "{user_key_len=0}"),
            ("table_factory", "PlainTable"),
            ("track_and_verify_wals", "true"),
            ("track_and_verify_wals_in_manifest", "true"),
            ("two_write_queues", "true"),
            ("verify_sst_unique_id_in_manifest", "false"),
            ("wal_compression", "kZSTD"),
        ]
        .into_iter()
        .filter(|(name, value)| {
            !refused(name, value).is_some_and(|words| words.contains("cannot be set"))
        })
        .collect();
        assert!(accepted.is_empty(), "{accepted:?}");
    }

    #[test]
    fn best_efforts_recovery_loses_a_synced_write() {
        for (string, kept) in [("", true), ("best_efforts_recovery=true", false)] {
            let dir = tempfile::tempdir().expect("a folder");
            let mut options = Options::default();
            options.create_if_missing(true);
            let mut sync = WriteOptions::default();
            sync.set_sync(true);
            let db = DB::open(&options, dir.path()).expect("a new database");
            db.put_opt(b"k", b"v", &sync).expect("a write");
            drop(db);
            let options = options
                .get_options_from_string(string)
                .expect("a known option");
            let db = DB::open(&options, dir.path()).expect("the database");
            let found = db.get(b"k").expect("a read");
            assert_eq!(found.is_some(), kept, "{string}");
        }
    }

    #[test]
    fn parts_of_an_option_are_set_in_braces() {
        for (name, value) in [
            ("max_open_files", " 77 "),
            ("dump_malloc_stats", "true"),
            ("compression_opts", "{level=1;max_dict_bytes=0}"),
            ("compression_opts", " {{level=1;max_dict_bytes=0}} "),
            (
                "block_based_table_factory",
                "{block_size=4096;filter_policy={id=ribbonfilter:9:1;};}",
            ),
        ] {
            assert_eq!(refused(name, value), None, "{name:?}: {value:?}");
        }
    }
}
