//! The operator of a session with its admission, its input buffers and its view of the state.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Database, DatabaseOptions, Error, ErrorKind, Result, StoreSpec};
use tempfile::TempDir;

use crate::host::Host;
use crate::host::request::Request;
use crate::operator::input::{Admission, FarFutureFile, Intake};
use crate::operator::{Operator, OperatorRequest};
use crate::partition::{PartitionState, StateView, ViewRequest};
use crate::session::state::{PersistentState, SessionState};

/// The parts of a session that process rows. They exist once the columns are known.
pub struct SessionPipeline {
    pub operator: Box<dyn Operator>,
    pub admission: Admission,
    pub stores: Vec<StoreSpec>,
    pub view: StateView,
    /// `None` in a scratch session.
    pub partition: Option<Arc<PartitionState>>,
    intake: Intake,
    /// The folder of a scratch database. Fields drop in order: the folder is removed after the
    /// database is closed.
    _scratch: Option<TempDir>,
}

/// A partition's database as a session has it open.
pub struct SessionDatabase(Arc<PartitionState>, Arc<Database>);

impl SessionPipeline {
    /// Starts the operator and restores the state of the epoch before.
    pub fn start(
        host: &Host,
        request: &Request,
        state: &SessionState,
        schema: &Schema,
    ) -> Result<Self> {
        let operator = request.operator.kind.spec().start(schema)?;
        host.apply_memory(&request.settings);
        match state {
            SessionState::Scratch => Self::start_scratch(host, request, operator),
            SessionState::Persistent(state) => {
                Self::start_persistent(host, request, state, operator, schema)
            }
        }
    }

    fn start_scratch(host: &Host, request: &Request, operator: Box<dyn Operator>) -> Result<Self> {
        let (stores, options) = database_settings(request);
        let folder = tempfile::Builder::new()
            .prefix("holdfast-scratch-")
            .tempdir()
            .map_err(|error| {
                Error::new(
                    ErrorKind::Io,
                    format!(
                        "no temporary folder for a scratch state ({error}): set TMPDIR to a \
                         folder that can be written"
                    ),
                )
            })?;
        let db = Database::open(folder.path(), &stores, options)?;
        Ok(Self {
            operator,
            // A static frame has no micro-batch whose time could limit its rows.
            admission: Admission::default(),
            stores,
            view: StateView::new(db, host.memory().uncommitted(), None)?,
            partition: None,
            intake: Intake {
                partition: None,
                memory: Arc::clone(host.memory().sorting()),
                folder: folder.path().to_owned(),
                cancellation: host.cancellation().clone(),
            },
            _scratch: Some(folder),
        })
    }

    fn start_persistent(
        host: &Host,
        request: &Request,
        state: &PersistentState,
        mut operator: Box<dyn Operator>,
        schema: &Schema,
    ) -> Result<Self> {
        let PersistentState { root, run, query } = state;
        let (stores, options) = database_settings(request);
        let OperatorRequest {
            name,
            kind,
            max_ahead,
            ..
        } = &request.operator;
        let meta = request.operator.meta(
            &*operator,
            query.epoch,
            request.settings.default_isolation_level,
        );
        let stored = root
            .operators
            .register(name, &meta, *run, request.partitions)?;
        operator.rows().layout_mut()?.set_stored_payloads(&stored)?;
        let partition = host.partition(request, root, &query.query_id);
        let view = partition.view(&ViewRequest {
            run: *run,
            epoch: query.epoch,
            planned_at: request.planned_at,
            first_epoch: stored.first_epoch,
            ran: host.ran_before(root, request, (*run, query.epoch), stored.first_epoch),
            partitions: request.partitions,
            stores: &stores,
            options: &options,
            executor: host.executor(),
            snapshots: request.settings.snapshots(),
            flushes: request.settings.flushes(),
            memory: host.memory().uncommitted(),
        })?;
        let latest = max_ahead
            .zip(view.offsets)
            .map(|(ahead, offsets)| {
                root.spark
                    .batch_time(query.epoch, offsets)
                    .map(|now| now.saturating_add(ahead))
            })
            .transpose()?;
        let far_future = FarFutureFile::new(
            kind.spec().rows().named(schema),
            partition.home().to_owned(),
        );
        Ok(Self {
            operator,
            admission: Admission::new(latest.zip(Some(far_future))),
            stores,
            view,
            intake: Intake {
                partition: Some(request.partition.0),
                memory: Arc::clone(host.memory().sorting()),
                folder: partition.home().to_owned(),
                cancellation: host.cancellation().clone(),
            },
            partition: Some(partition),
            _scratch: None,
        })
    }

    /// Takes a batch of input.
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let batch = self.admission.admit(batch)?;
        self.operator.push(batch, &self.intake)
    }

    /// Ends the input: the partition follows this heartbeat.
    pub fn end_input(&mut self, heartbeat: Option<i64>) {
        let rows = self.operator.rows();
        rows.heartbeat = heartbeat;
        rows.take_share(&self.intake);
    }

    /// Returns the partition's database; `None` in a scratch session.
    pub fn database(&self) -> Option<SessionDatabase> {
        self.partition
            .as_ref()
            .map(|partition| SessionDatabase(Arc::clone(partition), Arc::clone(&self.view.db)))
    }
}

impl SessionDatabase {
    /// Discards the database if the error reports damage.
    ///
    /// Opening a database checks only a few of its bytes: a retry would open the damaged database
    /// again.
    pub fn discard_if_damaged(&self, error: &Error) {
        let Self(partition, db) = self;
        if error.kind() == ErrorKind::StoreCorrupted {
            partition.discard(db);
        }
    }
}

fn database_settings(request: &Request) -> (Vec<StoreSpec>, DatabaseOptions) {
    (
        request.operator.stores(),
        request.settings.database_options(),
    )
}
