//! A session: one attempt at one partition of one epoch, from its request to its staged object.
//!
//! A session is a private buffer over a pinned view. Sessions do not read each other's changes.
//! They wait for each other only while one opens its view. A session that ends early leaves no
//! changes; chunks that it put are in the log, but no head names them.

mod error_context;
mod far_future;
mod idle_times;
mod pipeline;
mod staging;
mod state;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Error, ErrorKind, Result};

use crate::host::request::{MovedTo, Opened, Request, StageReport};
use crate::host::{Host, WritableRoot};
use crate::operator::Worker;
use crate::partition::apply_object;
use crate::root::Ownership;
use crate::session::error_context::with_context;
use crate::session::far_future::{publish_far_future_rows, put_far_future_rows};
use crate::session::idle_times::{EpochTimes, epoch_times};
use crate::session::pipeline::SessionPipeline;
use crate::session::staging::{find_repeated, first_chunk, stage};
use crate::session::state::{PersistentState, SessionState};

/// A session.
pub struct Session {
    host: Arc<Host>,
    request: Request,
    state: SessionState,
    /// `None` until the columns are known.
    pipeline: Option<SessionPipeline>,
}

/// Where a session runs.
pub enum Routed {
    /// On this host.
    Local(Box<Session>, Opened),
    /// On the host that owns the partition.
    Remote(MovedTo),
}

impl Session {
    /// Opens a session here, or returns the owner of its partition.
    ///
    /// The root must belong to the query, and the run must be the newest.
    ///
    /// # Errors
    /// `InvalidValue` for an invalid request; those of `Host::register_call`; otherwise those of
    /// the root and the protocol.
    pub fn open(host: &Arc<Host>, json: &[u8]) -> Result<Routed> {
        let request = Request::parse(json)?;
        host.serve(&request);
        Self::open_request(host, request, None)
    }

    /// As [`Session::open`], for a worker of another executor that may write `writable`. Returns
    /// `None` unless a task of this host's executor has used that root and the request's local
    /// folder.
    ///
    /// Without this check, the worker's key would give the right to read and write any folder as
    /// the host's user.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_from_network(
        host: &Arc<Host>,
        writable: &WritableRoot,
        json: &[u8],
    ) -> Result<Option<Routed>> {
        let request = Request {
            // Only tasks of this host's own executor admit workers of others.
            writer_secret: None,
            ..Request::parse(json)?
        };
        if !host.serves(&request, writable) {
            log::warn!(
                "a worker of another executor asks for the root {:?} with the local folder {:?}, \
                 which no task of this executor has used: refused",
                request.root,
                request.local_dir
            );
            return Ok(None);
        }
        Self::open_request(host, request, Some(writable)).map(Some)
    }

    /// Opens a session here, or returns the owner. `writable` is the only root that the session may
    /// use. If it is `None`, the session may use any root.
    fn open_request(
        host: &Arc<Host>,
        request: Request,
        writable: Option<&WritableRoot>,
    ) -> Result<Routed> {
        let partition = request.partition;
        let mut opened = Opened {
            epoch: None,
            state_epoch: None,
            run: None,
            partition,
        };
        let state = match request.query_epoch()? {
            None => SessionState::Scratch,
            Some(query) => {
                let root = host.root(&request, &query)?;
                if writable
                    .is_some_and(|writable| WritableRoot::of(&root).as_ref() != Some(writable))
                {
                    let text = "the path of the session's root now has another root";
                    return Err(Error::new(ErrorKind::StateMismatch, text).path(root.path()));
                }
                // The run is claimed before anything of the epoch is listed.
                let run = root
                    .runs
                    .claim(&query.query_id, &query.run_id, query.epoch)?;
                host.admit_writers(&root, run, &request);
                if let Ownership::Elsewhere(owner) = host.own(&request, &root, run, &query)? {
                    let root_id = root.identity.first_id().unwrap_or_default();
                    return Ok(Routed::Remote(MovedTo { root_id, owner }));
                }
                host.register_call(&root, &request, run, query.epoch)?;
                opened = Opened {
                    epoch: Some(query.epoch),
                    state_epoch: query.epoch.previous(),
                    run: Some(run),
                    partition,
                };
                SessionState::Persistent(PersistentState { root, run, query })
            }
        };
        let session = Self {
            host: Arc::clone(host),
            request,
            state,
            pipeline: None,
        };
        Ok(Routed::Local(Box::new(session), opened))
    }

    /// Sets the input's columns and restores the state of the epoch before.
    ///
    /// The restore may take a while: a restart replays what the last flush missed. Call this before
    /// the first rows arrive.
    ///
    /// # Errors
    /// The operator's for columns that do not fit; the partition's if the state cannot be restored.
    pub fn columns(&mut self, schema: &Schema) -> Result<()> {
        self.pipeline(schema)
            .map(|_| ())
            .map_err(|error| self.with_context(error))
    }

    /// Takes a batch of input. The first batch also sets the columns, if they are not known.
    ///
    /// # Errors
    /// The operator's for rows that do not fit, and those of [`Session::columns`].
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.push_batch(batch)
            .map_err(|error| self.with_context(error))
    }

    fn push_batch(&mut self, batch: RecordBatch) -> Result<()> {
        let pipeline = self.pipeline(&batch.schema())?;
        pipeline.push(batch).inspect_err(|error| {
            if let Some(database) = pipeline.database() {
                database.discard_if_damaged(error);
            }
        })
    }

    /// Ends the input: runs the operator, sends its output, stages its changes.
    ///
    /// `schema` has the input's columns. If the worker is gone, nothing is staged.
    ///
    /// # Errors
    /// Those of the store, the worker and the protocol.
    pub fn finish(self, schema: Option<&Schema>, worker: &mut dyn Worker) -> Result<StageReport> {
        let (operator, partition) = (self.request.operator.name.clone(), self.request.partition);
        self.run(schema, worker)
            .map_err(|error| with_context(error, &operator, partition))
    }

    fn run(mut self, schema: Option<&Schema>, worker: &mut dyn Worker) -> Result<StageReport> {
        let schema = schema.ok_or_else(|| {
            let text = "the session's input had no columns: push a batch, an empty one if there \
                        are no rows";
            Error::new(ErrorKind::InvalidValue, text)
        })?;
        self.pipeline(schema)?;
        let Some(pipeline) = self.pipeline.take() else {
            return Err(Error::new(
                ErrorKind::InvalidState,
                "the session has no operator",
            ));
        };
        let database = pipeline.database();
        self.run_and_stage(pipeline, worker).inspect_err(|error| {
            if let Some(database) = database {
                database.discard_if_damaged(error);
            }
        })
    }

    fn run_and_stage(
        self,
        mut pipeline: SessionPipeline,
        worker: &mut dyn Worker,
    ) -> Result<StageReport> {
        let Self {
            host,
            request,
            state,
            ..
        } = self;
        let times = match &state {
            SessionState::Persistent(state) => {
                epoch_times(&request, state, pipeline.view.offsets, &pipeline.admission)?
            }
            SessionState::Scratch => EpochTimes {
                followed: pipeline.admission.heartbeat(),
                ..EpochTimes::default()
            },
        };
        pipeline.end_input(times.followed);
        if let (Some(input), SessionState::Persistent(state)) =
            (pipeline.operator.repeats(), &state)
        {
            let input = pipeline.admission.digest(input);
            if let Some(head) = find_repeated(&request, state, input, pipeline.view.base)? {
                let view = &mut pipeline.view;
                apply_object(&state.root, &view.db, &mut view.transaction, &head)?;
                pipeline.operator.set_repeated();
            }
        }
        let view = &mut pipeline.view;
        let mut outcome = pipeline
            .operator
            .run(&view.db, &mut view.transaction, worker)?;
        outcome.input = pipeline.admission.digest(outcome.input);
        outcome.output = pipeline.admission.with_far_future_rows(outcome.output);
        outcome.counts.ahead = pipeline.admission.far_future_rows();
        let SessionState::Persistent(state) = state else {
            return Ok(StageReport {
                epoch: None,
                digest: None,
                adopted: false,
                records: 0,
                counts: outcome.counts,
            });
        };
        worker.check_alive()?;
        host.count_rows(
            &state.root,
            (&request.operator.name, request.partition),
            state.query.epoch,
            outcome.counts,
        );
        let chunk = first_chunk(&host, &request, &state);
        let far_future = match pipeline.admission.take_file() {
            Some(rows) => put_far_future_rows(&state, &chunk, rows)?,
            None => None,
        };
        let (outcome, far_future) = ((&outcome, times.idle), far_future.as_ref());
        let staged = stage(&request, &state, pipeline, outcome, (chunk, far_future))?;
        publish_far_future_rows(&request, &state, (far_future, &staged))?;
        Ok(staged)
    }

    /// Adds the session's operator and partition to an error.
    pub(crate) fn with_context(&self, error: Error) -> Error {
        with_context(error, &self.request.operator.name, self.request.partition)
    }

    fn pipeline(&mut self, schema: &Schema) -> Result<&mut SessionPipeline> {
        let pipeline = match self.pipeline.take() {
            Some(pipeline) => pipeline,
            None => SessionPipeline::start(&self.host, &self.request, &self.state, schema)?,
        };
        Ok(self.pipeline.insert(pipeline))
    }
}

#[cfg(test)]
mod tests;
