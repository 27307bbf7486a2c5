//! The figures of the gateway and of the hosts, for Prometheus. docs/metrics.md lists them.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use holdfast_host::net::metrics::{
    DatabaseAccess, HostMetrics, PartitionMetrics, READ_SECONDS, RestoreSource,
};

use super::asked::Asked;
use crate::problem::Problem;
use crate::response::{Exposition, MEDIA_TYPE};
use crate::state::{GatewayState, REQUEST_SECONDS};

/// Sends the figures of the gateway, and of each host of its roots.
pub async fn metrics(asked: Asked) -> Result<Response, Problem> {
    let state = asked.state;
    let mut text = Exposition::default();
    add_gateway(&mut text, &state);
    let roots = state.roots.clone();
    let work = move |_permit| {
        let hosts = roots.iter().map(|root| {
            // A root that cannot be read shows as one without epoch and hosts.
            let epoch = root.reader().epoch();
            let hosts = root.reader().metrics();
            for error in [epoch.as_ref().err(), hosts.as_ref().err()]
                .into_iter()
                .flatten()
            {
                log::warn!("root {}: {error}", root.name());
            }
            let epoch = epoch.ok().flatten();
            (root.name().to_owned(), epoch, hosts.unwrap_or_default())
        });
        Ok(hosts.collect::<Vec<_>>())
    };
    for (root, epoch, hosts) in state.watching.run(work).await? {
        let labels = [("root", root.as_str())];
        if let Some(epoch) = epoch {
            let help = "The newest final epoch.";
            text.gauge("holdfast_root_epoch", help, &labels, epoch.0 as f64);
        }
        let help = "State hosts that answer.";
        text.gauge("holdfast_root_hosts", help, &labels, hosts.len() as f64);
        for host in &hosts {
            add_host(&mut text, &root, host);
            for partition in &host.partitions {
                add_partition(&mut text, (&root, &host.host), partition);
            }
        }
    }
    let mut response = Response::new(Body::from(text.text()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    Ok(response)
}

fn add_gateway(text: &mut Exposition, state: &GatewayState) {
    for ((endpoint, status), answered) in state.traffic.answered() {
        let status = status.to_string();
        let labels = [("endpoint", endpoint), ("status", status.as_str())];
        text.histogram(
            (
                "holdfast_gateway_request_seconds",
                "Time until a response begins.",
            ),
            &labels,
            (&REQUEST_SECONDS, &answered.by_seconds),
            answered.seconds,
        );
    }
    text.gauge(
        "holdfast_gateway_reads",
        "Reads that run, scans included until their last row is sent.",
        &[],
        state.work.running() as f64,
    );
}

fn add_host(text: &mut Exposition, root: &str, host: &HostMetrics) {
    let labels = [("root", root), ("host", host.host.as_str())];
    let connections = host.connections as f64;
    text.gauge(
        "holdfast_host_connections",
        "Open connections.",
        &labels,
        connections,
    );
    let sessions = host.sessions as f64;
    text.gauge(
        "holdfast_host_sessions",
        "Open sessions of tasks.",
        &labels,
        sessions,
    );
    for memory in &host.memory {
        let labels = [labels[0], labels[1], ("part", memory.part.as_str())];
        let help = "Memory in use.";
        text.gauge(
            "holdfast_host_memory_bytes",
            help,
            &labels,
            memory.held as f64,
        );
        let help = "How often a session outgrew its memory and spilled to disk.";
        text.counter("holdfast_host_spills_total", help, &labels, memory.spills);
        if let Some(limit) = memory.limit {
            let help = "Memory that may be in use.";
            text.gauge(
                "holdfast_host_memory_limit_bytes",
                help,
                &labels,
                limit as f64,
            );
        }
    }
    text.histogram(
        ("holdfast_host_read_seconds", "Time of a read by a reader."),
        &labels,
        (&READ_SECONDS, &host.reads.by_seconds),
        host.reads.seconds,
    );
    let help = "Rows that were sent to readers.";
    text.counter(
        "holdfast_host_read_rows_total",
        help,
        &labels,
        host.reads.rows,
    );
}

fn add_partition(text: &mut Exposition, (root, host): (&str, &str), partition: &PartitionMetrics) {
    let number = partition.partition.to_string();
    let labels = [
        ("root", root),
        ("host", host),
        ("operator", partition.operator.as_str()),
        ("partition", number.as_str()),
    ];
    let (database, snapshots) = (&partition.database, &partition.snapshots);
    let busy = f64::from(u8::from(partition.access == DatabaseAccess::Busy));
    let help = "1 while a session opens or restores the partition.";
    text.gauge("holdfast_partition_busy", help, &labels, busy);
    let uploading = f64::from(u8::from(snapshots.is_uploading));
    let help = "1 while a snapshot is uploaded.";
    text.gauge("holdfast_partition_uploading", help, &labels, uploading);
    let help = "Size of the newest snapshot that this host has copied.";
    text.gauge(
        "holdfast_partition_snapshot_bytes",
        help,
        &labels,
        snapshots.bytes as f64,
    );
    let unused = &partition.unused_rows;
    for (reason, rows) in [
        ("late", unused.late),
        ("expired", unused.expired),
        ("dropped", unused.dropped),
        ("far_future", unused.far_future),
    ] {
        let mut labels = labels.to_vec();
        labels.push(("reason", reason));
        let help = "Rows of the input without a result.";
        text.counter("holdfast_partition_unused_rows_total", help, &labels, rows);
    }
    if let Some(restore) = &partition.restore {
        let source = match restore.source {
            RestoreSource::Snapshot => "snapshot_bytes",
            RestoreSource::Log => "log_epochs",
        };
        let mut labels = labels.to_vec();
        labels.push(("of", source));
        let help = "How much a running restore has read.";
        let done = restore.done as f64;
        text.gauge("holdfast_partition_restore_done", help, &labels, done);
        let help = "How much a running restore has to read.";
        let all = restore.all as f64;
        text.gauge("holdfast_partition_restore_all", help, &labels, all);
    }
    if partition.access != DatabaseAccess::Open {
        return;
    }
    if let Some(epoch) = partition.epoch {
        let help = "The last epoch in the database.";
        text.gauge("holdfast_partition_epoch", help, &labels, epoch.0 as f64);
    }
    if let Some(time) = partition.stream_time {
        let help = "The greatest event time.";
        let seconds = time as f64 / 1e6;
        text.gauge(
            "holdfast_partition_stream_time_seconds",
            help,
            &labels,
            seconds,
        );
    }
    if let Some(age) = snapshots.age_seconds {
        let help = "Time since this host began a snapshot.";
        text.gauge(
            "holdfast_partition_snapshot_age_seconds",
            help,
            &labels,
            age,
        );
    }
    if let Some(epoch) = snapshots.epoch {
        let help = "The epoch of the newest snapshot.";
        text.gauge(
            "holdfast_partition_snapshot_epoch",
            help,
            &labels,
            epoch.0 as f64,
        );
    }
    let gauges = [
        (
            "holdfast_partition_prepared_epochs",
            "Staged epochs in memory.",
            partition.prepared.epochs as f64,
        ),
        (
            "holdfast_partition_prepared_bytes",
            "Changes of staged epochs in memory.",
            partition.prepared.bytes as f64,
        ),
        (
            "holdfast_partition_level0_files",
            "Files that no compaction has sorted yet.",
            database.level0_files as f64,
        ),
        (
            "holdfast_partition_rows",
            "About how many rows there are, old versions included.",
            database.rows as f64,
        ),
        (
            "holdfast_partition_file_bytes",
            "Size of the database's files.",
            database.files as f64,
        ),
        (
            "holdfast_partition_unflushed_bytes",
            "Committed changes that are not in files.",
            database.unflushed as f64,
        ),
        (
            "holdfast_partition_pending_compaction_bytes",
            "What compactions have to rewrite.",
            database.pending_compaction as f64,
        ),
        (
            "holdfast_partition_commit_seconds",
            "Mean time of the last commits.",
            database.commit_seconds,
        ),
        (
            "holdfast_partition_log_bytes",
            "Changes that a restore would read from the log.",
            snapshots.log_bytes as f64,
        ),
        (
            "holdfast_partition_snapshot_failures",
            "Attempts that have failed since the last snapshot.",
            snapshots.failures as f64,
        ),
        (
            "holdfast_partition_restored",
            "1 if this host made the database from the root.",
            f64::from(u8::from(snapshots.is_restored)),
        ),
    ];
    for (name, help, value) in gauges {
        text.gauge(name, help, &labels, value);
    }
    let help = "How often the database was damaged or deleted, and rebuilt.";
    text.counter(
        "holdfast_partition_rebuilds_total",
        help,
        &labels,
        snapshots.rebuilds,
    );
}
