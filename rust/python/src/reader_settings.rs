//! The settings of readers: where copies are, and whether reads use them.

use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::reader::{CacheSettings, Offline};
use std::path::PathBuf;

/// The folder of a reader's copies, and the maximum of their bytes. Each is `None` for the default.
pub type Cache = (Option<PathBuf>, Option<i64>);

/// Returns where a reader's copies are, and how many bytes of the disk they may take.
pub fn cache_settings((directory, bytes): Cache) -> Result<CacheSettings> {
    let default = CacheSettings::default();
    let bytes = bytes.map_or(Ok(default.bytes), |bytes| {
        u64::try_from(bytes).map_err(|_| {
            let text = format!("cache_bytes is {bytes}: give 0 or more");
            Error::new(ErrorKind::InvalidValue, text)
        })
    })?;
    Ok(CacheSettings { directory, bytes })
}

/// Parses the setting that says whether reads use copies.
pub fn offline(text: &str) -> Result<Offline> {
    match text {
        "auto" => Ok(Offline::Auto),
        "never" => Ok(Offline::Never),
        "only" => Ok(Offline::Only),
        other => {
            let message = format!("offline is {other:?}: give \"auto\", \"never\" or \"only\"");
            Err(Error::new(ErrorKind::InvalidValue, message))
        }
    }
}
