//! The root: opens its objects, and gives access to the type of each prefix.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};
use object_store::ObjectStore;

use super::epoch_decisions::EpochDecisions;
use super::epoch_log::EpochLog;
use super::far_future_rows::FarFutureRows;
use super::followers::Followers;
use super::garbage_collection::GarbageCollection;
use super::identity::RootIdentity;
use super::lookahead::Lookahead;
use super::objects::{Objects, RootLocation, StorageOptions};
use super::operator_catalog::OperatorCatalog;
use super::owners::{OwnerClaims, ReaderAddresses};
use super::rewind_marks::RewindMarks;
use super::run_claims::RunClaims;
use super::snapshot_repository::SnapshotRepository;
use super::spark_checkpoint::SparkCheckpoint;
use crate::cancellation::Cancellation;
use crate::protocol::{Digest, Epoch, OperatorName, PartitionId, RunNumber, Violation};

/// An open root. A host process has one for each root, and its threads share it.
#[derive(Debug)]
pub struct Root {
    pub(super) objects: Arc<Objects>,
    /// `meta.json`: the query and its partitions.
    pub identity: RootIdentity,
    /// `query/`: Spark's checkpoint.
    pub spark: Arc<SparkCheckpoint>,
    /// `runs/`: the runs of the query.
    pub runs: Arc<RunClaims>,
    /// `owners/`: the hosts of the partitions.
    pub owners: Arc<OwnerClaims>,
    /// `readers/`: where readers find the hosts of the partitions.
    pub readers: ReaderAddresses,
    /// `log/`: the staged epochs.
    pub log: Arc<EpochLog>,
    /// `log/<epoch>/decided.<r>`: the result of each epoch.
    pub decisions: EpochDecisions,
    /// `snapshots/`: copies of the partitions' databases.
    pub snapshots: Arc<SnapshotRepository>,
    /// `operators/`: what the operators store.
    pub operators: Arc<OperatorCatalog>,
    /// `ahead/`: far-future rows.
    pub far_future: FarFutureRows,
    /// `followers/`: the named followers, for which the log remains.
    pub followers: Arc<Followers>,
    /// Removes old snapshots and epochs.
    pub garbage: GarbageCollection,
}

impl Root {
    /// Opens a root: a local path, a `file://` URL, or an address such as `s3://bucket/prefix`.
    ///
    /// A missing local folder is made. `options` are for an object store; no request is sent to it
    /// yet.
    ///
    /// # Errors
    /// `UnsupportedOperation` for another scheme, `InvalidValue` for an invalid root or an option
    /// that the store does not have, `Io` if the folder cannot be made.
    pub fn open(root: &str, options: &StorageOptions) -> Result<Self> {
        Ok(Self::of(Objects::open(
            RootLocation::parse(root)?,
            options,
        )?))
    }

    /// Opens a root as [`Root::open`] does, for a host: all requests are cancelled when it ends.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn open_under(
        root: &str,
        options: &StorageOptions,
        cancellation: Cancellation,
    ) -> Result<Self> {
        let objects = Objects::open(RootLocation::parse(root)?, options)?;
        Ok(Self::of(objects.under(cancellation)))
    }

    /// Checks that the host is not ending: called between two steps of long work.
    ///
    /// # Errors
    /// `StoreClosed` if it is ending.
    pub fn check_running(&self) -> Result<()> {
        self.objects.check_running()
    }

    /// Opens a root that must exist, for commands: the user may have mistyped the path. Only a
    /// local folder is checked.
    ///
    /// # Errors
    /// `StateMismatch` for a missing folder, and those of [`Root::open`].
    pub fn existing(root: &str, options: &StorageOptions) -> Result<Self> {
        let location = RootLocation::parse(root)?;
        if let RootLocation::Local(path) = &location
            && !path.is_dir()
        {
            let text = "there is no such folder: give the root that State(...) was given";
            return Err(Error::new(ErrorKind::StateMismatch, text).path(path));
        }
        Ok(Self::of(Objects::open(location, options)?))
    }

    /// Returns a root over an object store that is open already; `path` is its name in messages.
    #[must_use]
    pub fn over(objects: Arc<dyn ObjectStore>, path: &Path) -> Self {
        Self::of(Objects::over(objects, path))
    }

    fn of(objects: Objects) -> Self {
        let objects = Arc::new(objects);
        let share = || Arc::clone(&objects);
        let spark = Arc::new(SparkCheckpoint::new(share()));
        let runs = Arc::new(RunClaims::new(share(), Arc::clone(&spark)));
        let marks = Arc::new(RewindMarks::new(share(), Arc::clone(&runs)));
        let owners = Arc::new(OwnerClaims::new(share(), Arc::clone(&runs)));
        let log = Arc::new(EpochLog::new(share(), Arc::clone(&marks)));
        let snapshots = Arc::new(SnapshotRepository::new(share(), marks));
        let followers = Arc::new(Followers::new(share()));
        let operators = Arc::new(OperatorCatalog::new(
            share(),
            Arc::clone(&runs),
            Arc::clone(&log),
            Arc::clone(&snapshots),
        ));
        Self {
            identity: RootIdentity::new(share(), Arc::clone(&spark)),
            decisions: EpochDecisions::new(
                share(),
                Arc::clone(&log),
                Arc::clone(&spark),
                Arc::clone(&operators),
            ),
            operators,
            readers: ReaderAddresses::new(share()),
            far_future: FarFutureRows::new(share(), Arc::clone(&log)),
            garbage: GarbageCollection::new(
                share(),
                (Arc::clone(&runs), Arc::clone(&owners)),
                (Arc::clone(&log), Arc::clone(&followers)),
                Arc::clone(&snapshots),
            ),
            followers,
            objects,
            spark,
            runs,
            owners,
            log,
            snapshots,
        }
    }

    /// Replaces the options of all later requests.
    ///
    /// # Errors
    /// `InvalidValue` for an unknown option.
    pub fn renew(&self, options: &StorageOptions) -> Result<()> {
        self.objects.renew(options)
    }

    /// Returns the root's folder, or its address.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.objects.path()
    }

    /// Returns whether the root is on a local disk.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.objects.is_local()
    }

    /// Returns the error for a broken rule of the protocol; its message names this root.
    pub fn violation(&self, violation: impl Into<Violation>) -> Error {
        self.objects.violation(violation)
    }

    /// Reads whether the root holds newer epochs of a partition than a session of `epoch` expects.
    ///
    /// # Errors
    /// As [`Lookahead::read`].
    pub fn lookahead(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        run: RunNumber,
        epoch: Epoch,
    ) -> Result<Lookahead> {
        Lookahead::read(
            &self.log,
            &self.snapshots,
            (operator, partition),
            (run, epoch),
        )
    }

    /// Returns the default folder of this machine's databases.
    ///
    /// It is `<root>/state`. For a root in an object store it is below `holdfast-<uid>` in the
    /// temporary folder. If the path is short enough for a socket, this user's sockets are there,
    /// too, and workers check that the folder is private.
    #[must_use]
    pub fn local_dir(&self) -> PathBuf {
        if self.objects.is_local() {
            return self.path().join("state");
        }
        let address = Digest::of(self.path().as_os_str().as_encoded_bytes());
        let user = rustix::process::getuid().as_raw();
        std::env::temp_dir()
            .join(format!("holdfast-{user}"))
            .join("state")
            .join(address.to_string())
    }
}
