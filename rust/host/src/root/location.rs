//! Where a root lies.

use std::path::PathBuf;

use holdfast_core::{Error, ErrorKind, Result};

/// The local folder that a root names.
pub fn local(root: &str) -> Result<PathBuf> {
    if root.trim().is_empty() {
        return Err(Error::new(ErrorKind::InvalidValue, "the state's root is empty: give a path"));
    }
    let path = match root.split_once(':') {
        Some(("file", rest)) => rest.strip_prefix("//").unwrap_or(rest),
        // A scheme has at least two letters and a path behind it; "C:" or "a:b" may be a folder's name.
        Some((scheme, rest)) if rest.starts_with("//") => {
            return Err(Error::new(
                ErrorKind::UnsupportedOperation,
                format!("root {root}: this version keeps state on local disks only, not on {scheme}://. Give a path or file://"),
            ));
        }
        _ => root,
    };
    std::path::absolute(path).map_err(|error| Error::new(ErrorKind::InvalidValue, format!("root {root}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_path_or_a_file_url() {
        for root in ["/data/state", "file:///data/state", "file:/data/state"] {
            assert_eq!(local(root).expect("local"), PathBuf::from("/data/state"), "{root}");
        }
        assert!(local("relative").expect("local").is_absolute());
        for (root, kind) in [("s3://bucket/state", ErrorKind::UnsupportedOperation), (" ", ErrorKind::InvalidValue)] {
            let error = local(root).expect_err("not local");
            assert_eq!(error.kind(), kind);
        }
        assert!(local("s3://bucket/state").expect_err("not local").to_string().contains("s3://bucket/state"));
    }
}
