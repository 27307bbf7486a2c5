//! What fails: connections, hosts, local databases, disks, roots, and requests that are refused.

mod backups;
mod connections;
mod ending;
mod foreign_objects;
mod full_disk;
mod hosts;
mod refusals;
mod roots;
