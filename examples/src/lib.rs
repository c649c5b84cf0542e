//! Examples of `inbox-runtime`, each a program of its own: `cargo run --example billing -- --help`.
