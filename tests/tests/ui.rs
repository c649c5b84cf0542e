//! What the attribute says to a user who made a mistake, and what it accepts without a word.
//!
//! The texts are rustc's in part, so they are compared on the pinned toolchain only. `TRYBUILD=overwrite` writes them anew.

use std::process::Command;

const PINNED: &str = "rustc 1.95.";

#[test]
fn e9_e10_e12_e14_e16_what_the_attribute_accepts_and_refuses() {
    let version = Command::new("rustc").arg("--version").output().expect("rustc runs").stdout;
    let version = String::from_utf8_lossy(&version);
    let cases = trybuild::TestCases::new();
    cases.pass("ui/*/pass/*.rs");
    if version.starts_with(PINNED) {
        cases.compile_fail("ui/*/fail/*.rs");
    } else {
        println!("the texts are not compared on {version}");
    }
}
