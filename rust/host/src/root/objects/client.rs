//! The client of an object store: its options, retries and time limits.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::{Error, ErrorKind, Result};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use serde::{Deserialize, Serialize};

use super::location::{BucketAddress, Service};

/// Retries of one request.
const RETRIES: usize = 6;
/// The longest pause between two retries.
const PAUSE: Duration = Duration::from_secs(5);
/// If a request fails later than this after its first attempt, it is not retried.
///
/// An attempt that stalls ends after its own `timeout` (30 s unless the options say otherwise), so
/// no request takes longer than both together and one pause. Then the task fails and is retried,
/// perhaps on another machine.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// A value is a secret if the name of its option contains one of these words and does not end with
/// `_id`.
const SECRET: [&str; 6] = ["key", "secret", "token", "password", "sas", "credential"];

/// Options of an object store, by the names of the `object_store` crate (`region`, `endpoint`,
/// `access_key_id`, …).
///
/// They may hold secrets, so their values are never printed and never written.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StorageOptions(pub BTreeMap<String, String>);

impl fmt::Debug for StorageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl StorageOptions {
    /// Replaces all secrets of these options in a text.
    pub fn hide(&self, text: String) -> String {
        // The id of a key is not secret, and may also occur in the message for another reason.
        let is_secret = |name: &str| {
            let name = name.to_ascii_lowercase();
            !name.ends_with("_id") && SECRET.iter().any(|part| name.contains(part))
        };
        let secrets = self
            .0
            .iter()
            .filter(|(name, value)| is_secret(name) && !value.is_empty());
        secrets.fold(text, |text, (_, value)| {
            if text.contains(value) {
                text.replace(value, "***")
            } else {
                text
            }
        })
    }
}

/// Connects to the objects of an address; no request is sent yet.
///
/// Options that are not given come from the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`), then from
/// the machine's role.
///
/// # Errors
/// `InvalidValue` names an unknown option, or says what is wrong with one.
pub fn connect(address: &BucketAddress, options: &StorageOptions) -> Result<Arc<dyn ObjectStore>> {
    let wrong = |error: &object_store::Error| {
        Error::new(
            ErrorKind::InvalidValue,
            options.hide(format!(
                "root {address}: {error}. Check storage_options and the environment"
            )),
        )
    };
    let bucket = address.bucket.as_str();
    match address.service {
        Service::S3 => {
            let builder = configured(
                AmazonS3Builder::from_env().with_bucket_name(bucket),
                address,
                options,
                AmazonS3Builder::with_config,
            )?;
            builder
                .with_retry(retry())
                .build()
                .map(|store| below(address, store))
        }
        Service::Google => {
            let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
            let builder = configured(
                builder,
                address,
                options,
                GoogleCloudStorageBuilder::with_config,
            )?;
            builder
                .with_retry(retry())
                .build()
                .map(|store| below(address, store))
        }
        Service::Azure => {
            let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket);
            let builder = configured(
                builder,
                address,
                options,
                MicrosoftAzureBuilder::with_config,
            )?;
            builder
                .with_retry(retry())
                .build()
                .map(|store| below(address, store))
        }
    }
    .map_err(|error| wrong(&error))
}

fn below(address: &BucketAddress, store: impl ObjectStore) -> Arc<dyn ObjectStore> {
    Arc::new(PrefixStore::new(store, address.prefix.clone()))
}

fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            max_backoff: PAUSE,
            ..BackoffConfig::default()
        },
        max_retries: RETRIES,
        retry_timeout: RETRY_TIMEOUT,
    }
}

/// Sets all options of a builder. `Key` parses the option names of its service.
fn configured<Builder, Key: FromStr>(
    builder: Builder,
    address: &BucketAddress,
    options: &StorageOptions,
    set: impl Fn(Builder, Key, String) -> Builder,
) -> Result<Builder> {
    options
        .0
        .iter()
        .try_fold(builder, |builder, (name, value)| {
            let lower = name.to_ascii_lowercase();
            let key = lower
                .parse()
                .ok()
                .filter(|_| !lower.contains("bucket") || lower.contains("sse"))
                .filter(|_| !lower.contains("container_name"));
            let key = key.ok_or_else(|| {
                let text = format!(
                    "storage_options: {address} has no option {name:?}. The names are those of \
                     the object_store library, such as access_key_id, secret_access_key, region, \
                     endpoint, allow_http; the bucket comes from the address"
                );
                Error::new(ErrorKind::InvalidValue, text)
            })?;
            Ok(set(builder, key, value.clone()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::objects::RootLocation;

    fn options(pairs: &[(&str, &str)]) -> StorageOptions {
        StorageOptions(
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    fn connected(root: &str, pairs: &[(&str, &str)]) -> Result<Arc<dyn ObjectStore>> {
        let Ok(RootLocation::Bucket(address)) = RootLocation::parse(root) else {
            panic!("{root} is an address")
        };
        connect(&address, &options(pairs))
    }

    #[test]
    fn each_service_takes_its_own_options() {
        let s3 = [
            ("access_key_id", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"),
            ("endpoint", "http://localhost:1"),
            ("timeout", "5s"),
        ];
        connected("s3://bucket/p", &s3).expect("S3");
        connected(
            "az://container/p",
            &[("account_name", "a"), ("account_key", "Zm9v")],
        )
        .expect("Azure");
        connected("gs://bucket/p", &[("google_skip_signature", "true")]).expect("Google");
        for (root, name) in [
            ("s3://bucket", "secret"),
            ("s3://bucket", "bucket"),
            ("az://c", "container_name"),
            ("gs://b", "acess_key"),
        ] {
            let error = connected(root, &[(name, "do not tell")]).expect_err("no such option");
            assert_eq!(error.kind(), ErrorKind::InvalidValue);
            assert!(
                error.to_string().contains(&format!("{name:?}"))
                    && !error.to_string().contains("do not tell"),
                "{error}"
            );
        }
    }

    #[test]
    fn secrets_are_never_printed() {
        let options = options(&[
            ("secret_access_key", "hunter2"),
            ("access_key_id", "403"),
            ("region", "us-east-1"),
        ]);
        assert_eq!(
            options.hide("403 hunter2 in us-east-1".to_owned()),
            "403 *** in us-east-1"
        );
        assert!(!format!("{options:?}").contains("hunter2"));
        let error = connected(
            "az://c",
            &[("account_name", "a"), ("account_key", "not base64!")],
        )
        .expect_err("no key");
        assert!(!error.to_string().contains("not base64!"), "{error}");
    }
}
