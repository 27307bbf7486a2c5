//! Which host serves a partition: its claim, and its address for readers.

mod owner_claims;
mod reader_addresses;

pub use owner_claims::{OwnerClaims, Ownership, OwnershipRequest};
pub use reader_addresses::{ReaderAddress, ReaderAddresses};
