//! The machine on which this process runs.

use std::fs::{self, File};
use std::io::{self, Read};

use holdfast_core::{Error, ErrorKind, Result};

/// The machine's name, in characters that a file name may have.
pub fn name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name
        .trim()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name
    }
}

/// Returns a random token of 64 hexadecimal digits.
///
/// # Errors
/// `Io` if the system gives no random bytes.
pub fn random_token() -> Result<String> {
    let read = || -> io::Result<[u8; 32]> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| {
        let text = format!("the system gives no random bytes: {error}");
        Error::new(ErrorKind::Io, text)
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
