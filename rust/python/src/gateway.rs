//! The gateway: state over HTTP.

use crate::messages::log_to_python;
use crate::reader_settings::{Cache, cache_settings, offline};
use crate::run::{drop_without_gil, run};
use holdfast_core::{Error, ErrorKind, Process, Result};
use holdfast_gateway::{self as gateway, GatewaySettings, Limits, RootSettings, TlsFiles, Token};
use holdfast_host::root::StorageOptions;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::time::Duration;

/// The greatest `max_requests`: more reads at the same time than any machine can run.
const MOST_REQUESTS: usize = 1 << 20;

/// The settings of a gateway, as a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    /// Name and address of each root.
    roots: Vec<(String, String)>,
    storage_options: BTreeMap<String, String>,
    listen: String,
    token_file: Option<PathBuf>,
    /// Certificate and key.
    tls: Option<(PathBuf, PathBuf)>,
    insecure: bool,
    offline: String,
    cache: Cache,
    max_requests: usize,
    /// In seconds.
    timeout: f64,
}

impl Settings {
    fn parse(self) -> Result<GatewaySettings> {
        let invalid = |message| Error::new(ErrorKind::InvalidValue, message);
        let timeout = Duration::try_from_secs_f64(self.timeout)
            .map_err(|error| invalid(format!("timeout is {}: {error}", self.timeout)))?;
        if !(1..=MOST_REQUESTS).contains(&self.max_requests) {
            return Err(invalid(format!(
                "max_requests is {}: give 1 to {MOST_REQUESTS}",
                self.max_requests
            )));
        }
        let root = |(name, address)| RootSettings {
            name,
            address,
            options: StorageOptions(self.storage_options.clone()),
        };
        Ok(GatewaySettings {
            roots: self.roots.into_iter().map(root).collect(),
            listen: self.listen,
            token: self
                .token_file
                .as_deref()
                .map(Token::from_file)
                .transpose()?,
            tls: self
                .tls
                .map(|(certificate, key)| TlsFiles { certificate, key }),
            insecure: self.insecure,
            offline: offline(&self.offline)?,
            cache: cache_settings(self.cache)?,
            limits: Limits {
                requests: self.max_requests,
                timeout,
                ..Limits::default()
            },
        })
    }
}

/// A running gateway.
#[pyclass(frozen, module = "holdfast._core")]
pub struct Gateway {
    process: Process,
    gateway: ManuallyDrop<gateway::Gateway>,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // In a forked child there are no threads to wait for.
        if self.process.check().is_ok() {
            drop_without_gil(|| self.gateway.stop());
        }
    }
}

#[pymethods]
impl Gateway {
    #[staticmethod]
    fn start(py: Python<'_>, settings: Settings) -> PyResult<Self> {
        log_to_python(py)?;
        let process = Process::current();
        let gateway = run(py, process, || gateway::Gateway::start(&settings.parse()?))?;
        Ok(Self {
            process,
            gateway: ManuallyDrop::new(gateway),
        })
    }

    fn url(&self) -> String {
        self.gateway.url()
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.process, || {
            self.gateway.stop();
            Ok(())
        })
    }
}
