//! A transform that would be one, but for an import that no host offers.
#![cfg(target_arch = "wasm32")]
#![allow(missing_docs)]

wit_bindgen::generate!({
    path: "../../../wit/0.1.0",
    inline: "
        package test:unknown;

        interface secrets {
            reveal: func(name: string) -> string;
        }

        world guest {
            import secrets;
            export sluice:transform/transform@0.1.0;
        }
    ",
    world: "test:unknown/guest",
    generate_all,
});

use exports::sluice::transform::transform::{ApplyError, Batch, Guest, OpenError, Outcome, Plan, Table};

struct Component;

impl Guest for Component {
    fn open(_table: Table, config: String) -> Result<Plan, OpenError> {
        Ok(Plan {
            outputs: Vec::new(),
            reads: vec![test::unknown::secrets::reveal(&config)],
        })
    }

    fn apply(_batch: Batch) -> Result<Outcome, ApplyError> {
        Ok(Outcome {
            columns: Vec::new(),
            dropped: None,
            rejects: Vec::new(),
        })
    }
}

export!(Component);
