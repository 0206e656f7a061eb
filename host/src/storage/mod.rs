//! Where tables, checkpoints and leases are: a folder of this machine, or a prefix in a bucket of an object store.
//!
//! Everything here rests on two promises of a store: to write what is not there yet (put-if-absent), and to replace only what
//! was read (compare-and-swap). S3, Azure and GCS keep both; of servers that claim to speak their protocols, some do not
//! (`docs/decisions/0018`).
//!
//! An answer can be lost while the request was served, and the client then sends it again and is told that the object is
//! there, or has changed. So who is told "no" reads what is there: what it has in it says whose it is.

mod bucket;
mod credentials;
mod options;
mod place;
mod promises;
mod side_by_side;

pub use options::{Scheme, StorageOptions};
pub use place::{ObjectPlace, Place, Stores};

pub(crate) use bucket::Version;
pub(crate) use promises::expect_promises;
pub(crate) use side_by_side::side_by_side;
