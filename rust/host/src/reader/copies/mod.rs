//! A reader's own copies of partitions.

mod cache_settings;
mod copies_folder;
mod copy_cache;
mod replica;
mod replicas;

pub use cache_settings::CacheSettings;
pub use copy_cache::HeldCopy;
pub use replica::ReplicaSource;
pub use replicas::Replicas;
