//! E1: a crate that nobody names is left out by the linker, and its consumers with it. Two crates of their own, built as a user builds them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

fn fixture() -> &'static Path {
    static READY: OnceLock<PathBuf> = OnceLock::new();
    READY.get_or_init(|| {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let linked = tests.join("fixtures/linked");
        // The same versions as the workspace's.
        std::fs::copy(tests.join("../Cargo.lock"), linked.join("Cargo.lock")).expect("the lock file");
        linked
    })
}

/// Kept between runs: the dependencies are built once for each profile.
fn target() -> PathBuf {
    let given = std::env::var_os("INBOX_FIXTURE_TARGET").map(PathBuf::from);
    given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fixtures"))
}

/// Runs a binary of the fixture in a profile.
fn run(profile: &str, binary: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO"));
    // The outer cargo's settings are not a user's.
    command.current_dir(fixture()).env("CARGO_TARGET_DIR", target()).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.args(["run", "--quiet", "--profile", profile, "--package", "app", "--bin", binary, "--"]).args(arguments);
    command.output().expect("cargo runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The hint where the crate is not named; both of its consumers, one of them in a module that nobody uses, where it is.
fn is_found_only_when_named(profile: &str) {
    let forgotten = run(profile, "forgotten", &["fixture.billing", "fixture.nested"]);
    let said = text(&forgotten.stderr);
    assert_eq!(forgotten.status.code(), Some(1), "{profile}: {said}");
    for name in ["fixture.billing", "fixture.nested"] {
        let hint = format!("consumer `{name}` is expected and not linked; a crate that nobody names is left out by the linker");
        assert!(said.contains(&hint), "{profile}: {said}");
    }
    assert!(said.contains("`use the_crate as _;`"), "{profile}: {said}");

    let named = run(profile, "named", &["fixture.billing", "fixture.nested"]);
    assert!(named.status.success(), "{profile}: {}", text(&named.stderr));
    assert_eq!(text(&named.stdout), "fixture.billing applied\nfixture.nested applied\n", "{profile}");
}

/// Many codegen units.
#[test]
fn e1_e3_a_handler_crate_that_is_not_named_is_reported_in_debug() {
    is_found_only_when_named("dev");
}

/// One codegen unit.
#[test]
fn e1_e3_a_handler_crate_that_is_not_named_is_reported_with_fat_lto_and_strip() {
    is_found_only_when_named("release");
}
