//! Opening a database: its directory, its files, and the states of its stores.

mod checks;
mod directory;
mod discard;
mod finish;
mod foreign;
mod open_database;
mod opening;
mod store_entries;
mod store_serdes;
mod store_states;

pub(super) use directory::make_directory;
