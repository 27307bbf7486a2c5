//! The location of a root: a local folder, or a prefix of a bucket.

use std::fmt;
use std::path::PathBuf;

use holdfast_core::{Error, ErrorKind, Result};
use object_store::path::Path as Name;

/// The location of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootLocation {
    /// A folder of this machine.
    Local(PathBuf),
    /// A prefix of a bucket.
    Bucket(BucketAddress),
}

/// The protocol of an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Amazon S3 and compatible stores.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

/// A prefix of a bucket (Azure: of a container).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketAddress {
    /// The protocol.
    pub service: Service,
    /// The bucket.
    pub bucket: String,
    /// The prefix, without a slash at either end; it may be empty.
    pub prefix: Name,
}

impl RootLocation {
    /// Parses a root: a path, `file://…`, `s3://bucket/prefix` (Hadoop's `s3a://` is the same),
    /// `gs://…` or `az://…`.
    ///
    /// # Errors
    /// `InvalidValue` for an empty root, or for an invalid bucket or prefix; `UnsupportedOperation`
    /// for another scheme.
    pub fn parse(root: &str) -> Result<Self> {
        if root.trim().is_empty() {
            return Err(wrong(
                "the state's root is empty: give a path or an address such as s3://bucket/prefix",
            ));
        }
        let path = match root.split_once(':') {
            Some(("file", rest)) => rest.strip_prefix("//").unwrap_or(rest),
            // A scheme is followed by a slash, as in dbfs:/x; "a:b" may be a folder's name.
            Some((scheme, rest)) if rest.starts_with('/') && !scheme.contains('/') => {
                let service = match (scheme, rest.starts_with("//")) {
                    ("s3" | "s3a", true) => Service::S3,
                    ("gs", true) => Service::Google,
                    ("az", true) => Service::Azure,
                    _ => {
                        let text = format!(
                            "root {root}: such an address is not supported. Give a path, or an \
                             address with s3://, gs:// or az://"
                        );
                        return Err(Error::new(ErrorKind::UnsupportedOperation, text));
                    }
                };
                return BucketAddress::parse(root, service, &rest[2..]).map(Self::Bucket);
            }
            _ => root,
        };
        std::path::absolute(path)
            .map(Self::Local)
            .map_err(|error| wrong(&format!("root {root}: {error}")))
    }
}

impl BucketAddress {
    fn parse(root: &str, service: Service, rest: &str) -> Result<Self> {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (is_bucket, is_prefix) = (
            |c: char| c.is_ascii_alphanumeric() || "._-".contains(c),
            |c: char| c.is_ascii_alphanumeric() || "._-=+@/".contains(c),
        );
        if bucket.is_empty() || !bucket.chars().all(is_bucket) {
            return Err(wrong(&format!(
                "root {root}: {bucket:?} cannot be the name of a bucket; an address is \
                 s3://bucket/prefix"
            )));
        }
        // Spark must address the same objects, so characters that one side would escape are
        // refused.
        let parsed = Name::parse(prefix)
            .ok()
            .filter(|_| prefix.chars().all(is_prefix));
        let prefix = parsed.ok_or_else(|| {
            wrong(&format!(
                "root {root}: a prefix is made of ASCII letters, digits and ._-=+@, between \
                 single slashes, without . or .."
            ))
        })?;
        Ok(Self {
            service,
            bucket: bucket.to_owned(),
            prefix,
        })
    }
}

/// Writes the address without a trailing slash, and always with `s3://` for `s3a://`.
impl fmt::Display for BucketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.service {
            Service::S3 => "s3",
            Service::Google => "gs",
            Service::Azure => "az",
        };
        write!(f, "{scheme}://{}", self.bucket)?;
        if self.prefix.as_ref().is_empty() {
            Ok(())
        } else {
            write!(f, "/{}", self.prefix)
        }
    }
}

fn wrong(text: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_path_or_a_file_url() {
        for root in ["/data/state", "file:///data/state", "file:/data/state"] {
            assert_eq!(
                RootLocation::parse(root).expect("local"),
                RootLocation::Local(PathBuf::from("/data/state")),
                "{root}"
            );
        }
        assert!(matches!(RootLocation::parse("relative").expect("local"),
                RootLocation::Local(path) if path.is_absolute()));
        for path in ["a:b", "/data/a:/b", "data/a://b"] {
            assert!(matches!(RootLocation::parse(path).expect("local"),
                    RootLocation::Local(found) if found.ends_with(path)));
        }
    }

    #[test]
    fn a_root_may_be_a_prefix_of_a_bucket() {
        for (root, shown, service) in [
            ("s3://bucket/a/b", "s3://bucket/a/b", Service::S3),
            ("s3a://bucket/a/b/", "s3://bucket/a/b", Service::S3),
            ("s3://bucket", "s3://bucket", Service::S3),
            ("gs://my.bucket/x=1", "gs://my.bucket/x=1", Service::Google),
            (
                "az://container/state",
                "az://container/state",
                Service::Azure,
            ),
        ] {
            let RootLocation::Bucket(address) = RootLocation::parse(root).expect("an address")
            else {
                panic!("{root} is not local")
            };
            assert_eq!(
                (address.to_string().as_str(), address.service),
                (shown, service)
            );
        }
    }

    #[test]
    fn an_invalid_root_is_refused() {
        for (root, kind) in [
            (" ", ErrorKind::InvalidValue),
            ("s3://", ErrorKind::InvalidValue),
            ("s3:///state", ErrorKind::InvalidValue),
            ("s3://bucket/a//b", ErrorKind::InvalidValue),
            ("s3://bucket/a/../b", ErrorKind::InvalidValue),
            ("s3://bucket/a b", ErrorKind::InvalidValue),
            ("s3://key:secret@bucket/a", ErrorKind::InvalidValue),
            ("hdfs://name/a", ErrorKind::UnsupportedOperation),
            ("dbfs:/a", ErrorKind::UnsupportedOperation),
            ("s3:/bucket/a", ErrorKind::UnsupportedOperation),
        ] {
            assert_eq!(
                RootLocation::parse(root).expect_err("no root").kind(),
                kind,
                "{root}"
            );
        }
    }
}
