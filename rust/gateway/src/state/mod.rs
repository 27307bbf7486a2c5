//! What all requests share.

mod served_root;
mod traffic;
mod work;

use std::sync::Arc;

use holdfast_core::Result;
use holdfast_host::reader::Offline;

pub use served_root::ServedRoot;
pub use traffic::{REQUEST_SECONDS, Traffic};
pub use work::{Work, WorkPermit};

use crate::problem::Problem;
use crate::settings::{GatewaySettings, Limits};

/// What all requests share.
pub struct GatewayState {
    /// The roots, in the order of the settings.
    pub roots: Vec<Arc<ServedRoot>>,
    /// The work for them.
    pub work: Work,
    /// What was answered.
    pub traffic: Traffic,
    /// What clients may use.
    pub limits: Limits,
    /// Whether reads use copies.
    pub offline: Offline,
}

impl GatewayState {
    /// Connects to the roots.
    ///
    /// # Errors
    /// Those of `StateReader::connect`.
    pub fn connect(settings: &GatewaySettings) -> Result<Self> {
        let roots = settings
            .roots
            .iter()
            .map(|root| ServedRoot::connect(root, settings.cache_dir.as_deref()).map(Arc::new));
        Ok(Self {
            roots: roots.collect::<Result<_>>()?,
            work: Work::new(settings.limits.requests),
            traffic: Traffic::default(),
            limits: settings.limits,
            offline: settings.offline,
        })
    }

    /// Returns the root with a name; without one, the only root.
    ///
    /// # Errors
    /// A problem names the roots.
    pub fn root(&self, name: Option<&str>) -> std::result::Result<Arc<ServedRoot>, Problem> {
        let found = match (name, self.roots.as_slice()) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(name), roots) => roots.iter().find(|root| root.name() == name),
        };
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = self.roots.iter().map(|root| root.name()).collect();
            let text = match name {
                Some(name) => format!("there is no root {name:?}; there are {names:?}"),
                None => format!(
                    "this gateway has several roots, {names:?}: ask for /v1/roots/NAME/tables"
                ),
            };
            Problem::absent(text)
        })
    }
}
