//! Fuzz targets, and the harness that makes their inputs. README.md says how to run them.

pub mod harness;
pub mod targets;
