//! Epochs of one query: attempts, runs, guarantees, results, growth.

mod at_least_once;
mod attempts;
mod bounded;
mod changed_settings;
mod cut_off;
mod far_future;
mod heartbeats;
mod oracle;
mod rows;
