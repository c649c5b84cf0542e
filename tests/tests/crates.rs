//! E7, E13, E14: crates as users have them, outside the workspace, linted with all that is known to fire on generated code.
#![allow(missing_docs, reason = "a test")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// One target directory for all fixtures, so that the dependencies are built once.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("INBOX_FIXTURE_TARGET").map_or_else(|| root.join("target/fixtures"), PathBuf::from)
}

fn fixtures() -> (PathBuf, PathBuf) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = tests.parent().expect("the workspace");
    let crates = tests.join("fixtures/crates");
    // The same versions as the workspace's.
    std::fs::copy(root.join("Cargo.lock"), crates.join("Cargo.lock")).expect("the lock file");
    (crates, target(root))
}

fn clippy(arguments: &[&str]) -> (bool, String) {
    cargo("clippy", arguments)
}

fn cargo(command: &str, arguments: &[&str]) -> (bool, String) {
    let (crates, target) = fixtures();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.arg(command).args(arguments).current_dir(crates).env("CARGO_TARGET_DIR", target).env("RUSTDOCFLAGS", "-D warnings");
    // The outer cargo's settings are not a user's.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CLIPPY_ARGS");
    let output = cargo.output().expect("cargo runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn e7_e13_e14_renamed_facade_editions_and_every_lint() {
    let (clean, text) = clippy(&["--workspace", "--quiet"]);
    assert!(clean, "the generated code is not clean:\n{text}");
}

/// The lints are really on: a handler whose own code breaks one is reported.
#[test]
fn e13_the_lints_are_on() {
    let (clean, text) = clippy(&["--package", "strict-2021", "--features", "off", "--quiet"]);
    assert!(!clean && text.contains("DoesNotExist"), "the feature `off` should not compile:\n{text}");
    let (clean, text) = clippy(&[
        "--package",
        "renamed",
        "--quiet",
        "--",
        "-D",
        "clippy::missing_const_for_thread_local",
        "-D",
        "clippy::unseparated_literal_suffix",
        "-D",
        "clippy::question_mark_used",
        "-D",
        "clippy::missing_trait_methods",
    ]);
    assert!(clean, "restriction lints fire on generated code:\n{text}");
}

/// The function has the user's docs with their sections; of what the attribute adds, only the handle of the same name is shown.
#[test]
fn e18_docs_stand_on_the_public_item_and_helpers_are_hidden() {
    let (clean, text) = cargo("doc", &["--package", "strict-2024", "--no-deps", "--quiet"]);
    assert!(clean, "the docs do not build:\n{text}");
    let docs = fixtures().1.join("doc/strict_2024");
    let page = std::fs::read_to_string(docs.join("fn.plain.html")).expect("a page of the safe entry");
    assert!(page.contains("A plain one") && page.contains("id=\"errors\""), "the user's docs are not on the safe entry");
    let pages = std::fs::read_dir(&docs).expect("the docs").map(|page| page.expect("a page").file_name().into_string().expect("a name"));
    let items: Vec<String> = pages.filter(|page| page.starts_with("fn.") || page.starts_with("struct.")).collect();
    assert!(items.contains(&"struct.plain.html".to_owned()), "{items:?}");
    assert!(!items.iter().any(|page| page.contains("__")), "helpers are shown: {items:?}");
}
