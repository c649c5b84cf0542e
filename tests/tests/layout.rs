//! The house: imports run one way, rooms stay small, and only the engine makes receipts.
#![allow(missing_docs, reason = "a test")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Files below `.0` must not name `.1`.
const RULES: [(&str, &[&str]); 8] = [
    ("vocabulary", &["crate::engine", "crate::database", "crate::broker", "crate::__private"]),
    ("engine/contract", &["engine::heart", "engine::services", "heart::", "services::", "crate::database", "crate::broker"]),
    ("engine/heart", &["engine::services", "services::", "crate::database", "crate::broker"]),
    ("engine/services", &["crate::database", "crate::broker"]),
    ("database", &["heart::", "services::", "crate::broker", "Receipt"]),
    ("database/postgres", &["database::sqlite"]),
    ("database/sqlite", &["database::postgres"]),
    ("broker/memory", &["heart::", "services::", "crate::database", "Receipt::new"]),
];

const LONGEST: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn sources(below: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(below).unwrap_or_else(|e| panic!("{}: {e}", below.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            found.push((path, text));
        }
    }
    found
}

/// What a file says that a rule forbids; comments do not count.
fn broken<'r>(text: &str, forbidden: &'r [&'r str]) -> Vec<(usize, &'r str)> {
    let code = text.lines().enumerate().map(|(i, line)| (i + 1, line.split("//").next().unwrap_or_default()));
    // A group of imports names its root once: flatten `use crate::{ engine::.. }` by looking at each line for the part below it.
    let names = |line: &str, word: &str| {
        line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
    };
    code.flat_map(|(number, line)| forbidden.iter().filter(move |word| names(line, word)).map(move |word| (number, *word))).collect()
}

#[test]
fn imports_run_one_way() {
    let source = root().join("inbox-runtime/src");
    let mut found = Vec::new();
    for (below, forbidden) in RULES {
        let files = sources(&source.join(below));
        assert!(!files.is_empty(), "{below} is gone; mend the rules of this test");
        for (path, text) in files {
            found.extend(broken(&text, forbidden).into_iter().map(|(line, word)| format!("{}:{line} names `{word}`", path.display())));
        }
    }
    assert!(found.is_empty(), "imports run the wrong way:\n{}", found.join("\n"));
}

/// What a file names at the crate's root that is none of the rings: a re-export, through which any rule could be passed by.
fn past_the_rings(text: &str) -> Vec<&str> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let named = code.flat_map(|line| line.match_indices("crate::").map(move |(at, root)| &line[at + root.len()..]));
    let names = named.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
    names.filter(|name| !["vocabulary", "engine", "database", "broker", ""].contains(name)).collect()
}

#[test]
fn everything_is_named_by_its_ring() {
    let source = root().join("inbox-runtime/src");
    for ring in ["vocabulary", "engine", "database", "broker"] {
        for (path, text) in sources(&source.join(ring)) {
            assert_eq!(past_the_rings(&text), [""; 0], "{}", path.display());
        }
    }
    assert_eq!(past_the_rings("use crate::Inbox; // crate::Reply\nuse crate::{engine::x, vocabulary::y};"), ["Inbox"]);
    assert_eq!(past_the_rings("pub(crate) fn a() -> crate::broker::Receipt"), [""; 0]);
}

#[test]
fn the_check_of_imports_can_fail() {
    let (_, forbidden) = RULES[0];
    assert_eq!(broken("use crate::engine::heart::inbox::Inbox;", forbidden), [(1, "crate::engine")]);
    assert_eq!(broken("// crate::engine is elsewhere", forbidden), []);
    assert_eq!(broken("\n    services::runner::Runner,", RULES[1].1), [(2, "services::")]);
}

/// Receipts are made in one module of the crate; `pub(in crate::engine)` closes it to adapters.
#[test]
fn only_the_engine_makes_receipts() {
    let source = root().join("inbox-runtime/src");
    let makers: BTreeSet<String> = sources(&source)
        .into_iter()
        .filter(|(_, text)| text.contains("Receipt::new("))
        .map(|(path, _)| path.strip_prefix(&source).expect("below").display().to_string())
        .collect();
    let known = ["engine/services/dead_letters.rs", "engine/services/dispatch/mod.rs"].map(str::to_owned);
    assert_eq!(makers, BTreeSet::from(known), "a new maker of receipts: is it after a commit?");
}

#[test]
fn no_file_grows_past_a_sitting() {
    let long: Vec<String> = ["inbox-runtime/src", "inbox-macros/src", "tests/src", "tests/tests", "examples"]
        .iter()
        .flat_map(|below| sources(&root().join(below)))
        .filter(|(_, text)| text.lines().count() > LONGEST)
        .map(|(path, text)| format!("{}: {} lines", path.display(), text.lines().count()))
        .collect();
    assert!(long.is_empty(), "split these by purpose:\n{}", long.join("\n"));
}

/// Who knows one adapter knows all, and every database has every migration.
#[test]
fn adapters_have_the_same_rooms() {
    let names = |below: &str, extension: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(root().join(below)).unwrap_or_else(|e| panic!("{below}: {e}"));
        let files = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
        files.filter(|name| name.ends_with(extension)).collect()
    };
    let (postgres, sqlite) = (names("inbox-runtime/src/database/postgres", ".rs"), names("inbox-runtime/src/database/sqlite", ".rs"));
    assert!(sqlite.is_subset(&postgres), "sqlite has rooms that postgres has not: {sqlite:?}");
    let only: Vec<&String> = postgres.difference(&sqlite).collect();
    assert_eq!(
        only,
        ["answers.rs", "commit_guard.rs"],
        "what only PostgreSQL can do: many statements in one string, and a guard of its own"
    );
    assert_eq!(names("migrations/postgres", ".sql"), names("migrations/sqlite", ".sql"));
}
