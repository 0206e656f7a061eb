//! Fuzz targets and their corpus. README.md says how to run them.

pub mod corpus;
pub mod targets;
