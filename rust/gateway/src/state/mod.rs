//! What all requests share.

mod key_reads;
mod served_root;
mod traffic;
mod work;

use std::sync::Arc;

use holdfast_core::Result;
use holdfast_host::reader::Offline;

pub use key_reads::ReadKind;
pub use served_root::{RootTable, ServedRoot};
pub use traffic::{REQUEST_SECONDS, Traffic};
pub use work::{Work, WorkPermit};

use crate::problem::Problem;
use crate::settings::{GatewaySettings, Limits};

/// How many requests for figures run at the same time.
pub const WATCHING: usize = 4;

/// What all requests share.
pub struct GatewayState {
    /// The roots, in the order of the settings.
    pub roots: Vec<Arc<ServedRoot>>,
    /// The reads of their rows.
    pub work: Work,
    /// The requests for figures of hosts. They run even if all permits for reads are taken.
    pub watching: Work,
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
        let work = Work::new(settings.limits.requests);
        let roots = settings.roots.iter();
        let roots = roots
            .map(|root| ServedRoot::connect(root, settings.cache.clone(), &work).map(Arc::new));
        Ok(Self {
            roots: roots.collect::<Result<_>>()?,
            work,
            watching: Work::new(WATCHING),
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
