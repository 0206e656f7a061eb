//! The standard components, which come inside the binary. The build script compiles them from `plugins/`.

use crate::transform::BuiltinComponent;

/// `mask` and `map`.
pub static BUILT_IN_COMPONENTS: &[BuiltinComponent] = include!(concat!(env!("OUT_DIR"), "/built_in.rs"));
