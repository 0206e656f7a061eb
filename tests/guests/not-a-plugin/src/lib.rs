//! A good component of a world that has nothing to do with transforms.
#![cfg(target_arch = "wasm32")]
#![allow(missing_docs)]

wit_bindgen::generate!({
    inline: "
        package test:other;

        world guest {
            export greet: func(name: string) -> string;
        }
    ",
});

struct Component;

impl Guest for Component {
    fn greet(name: String) -> String {
        format!("hello {name}")
    }
}

export!(Component);
