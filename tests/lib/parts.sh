# shellcheck shell=bash
# The parts of tests/run, in the order in which they run. Sourced, never run.
#
# A part is a function part_NAME, run from the top of the repository under `set -euo pipefail`, with its output in
# target/run/NAME.log. It fails by failing, and is skipped by `skip REASON`. Its entry in `needs` names services
# (tests/services) that are running, with their variables set, when it starts.
#
# Cargo builds a dependency once for each set of features, and sqlx is large. So the parts that compile much select
# packages and features alike, `--workspace --all-features`, and differ in the targets only; `features` is the exception.

# shellcheck disable=SC2034 # used by tests/run
parts=(lock fmt clippy docs unit tests kept pg13 pg18 billing features package deny)
# shellcheck disable=SC2034
declare -A needs=([tests]="postgres pgbouncer" [kept]=postgres [pg13]=postgres=13 [pg18]=postgres=18 [billing]=postgres) about=(
    [lock]='Cargo.lock fits the manifests'
    [fmt]='rustfmt'
    [clippy]='clippy on every target, warnings denied'
    [docs]='rustdoc, warnings denied'
    [unit]='unit tests and doctests'
    [tests]='all integration tests, on SQLite and PostgreSQL 15'
    [kept]='the tests of the heart again, with direct calls on sessions as workers keep them'
    [pg13]='the PostgreSQL integration tests on PostgreSQL 13'
    [pg18]='the PostgreSQL integration tests on PostgreSQL 18'
    [billing]='the billing example on both databases, and its counter-examples'
    [features]='each feature of inbox-runtime alone, and none'
    [package]='what would be published holds the schema and the README, and builds'
    [deny]='licences and duplicates, where cargo-deny is installed'
)

skip() { echo "skipped: $*" && exit 77; }
fail() { echo "failed: $*" >&2 && exit 1; }
cargo_test() { cargo test --workspace --all-features --no-fail-fast "$@"; }

part_lock() { cargo metadata --locked --format-version 1 >/dev/null; }

part_fmt() { cargo fmt --all --check -- --color=never; }

part_clippy() { cargo clippy --workspace --all-targets --all-features -- -D warnings; }

part_docs() { RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --all-features; }

part_unit() {
    cargo_test --lib
    cargo_test --doc
}

part_tests() { cargo_test --test '*'; }

part_kept() { INBOX_TEST_PATH=kept cargo_test --test postgres --test sqlite; }

part_pg13() { cargo_test --test postgres; }

part_pg18() { cargo_test --test postgres; }

part_billing() {
    billing
    right
    billing --database-url "$DATABASE_URL"
    right
    # What the shortcuts cost must show.
    billing --without-inbox
    expect 'lost=0 doubled=[1-9]'
    billing --skip-elsewhere
    expect 'lost=[1-9][0-9]* doubled=[1-9]'
    billing --ack-first
    expect 'lost=[1-9]'
}

# Runs the example and sets closing to its last line.
billing() {
    echo "--- billing $*"
    cargo run --example billing -- "$@" | tee target/run/billing.out
    closing=$(tail -n 1 target/run/billing.out)
}

expect() { [[ $closing =~ ^$1 ]] || fail "the last line is not \`$1\`: $closing"; }

right() {
    expect 'lost=0 doubled=0 kills=([0-9]+) deliveries=[0-9]+ applied=[0-9]+ duplicates=[0-9]+$'
    ((BASH_REMATCH[1] >= 20)) || fail "only ${BASH_REMATCH[1]} kills, which proves little"
}

part_features() {
    local feature features
    # `"features":{` occurs once in the manifest as JSON; those of dependencies are lists. A leading `_` marks what is not for users.
    features=$(cargo read-manifest --manifest-path inbox-runtime/Cargo.toml \
        | grep -o '"features":{[^}]*}' | grep -o '"[^"]*":\[' | tr -d '":[' | grep -v -e '^_' -e '^default$')
    [[ -n $features ]] || fail 'found no features'
    echo '--- no feature'
    cargo clippy -p inbox-runtime --no-deps --no-default-features -- -D warnings
    for feature in $features; do
        echo "--- feature $feature"
        cargo clippy -p inbox-runtime --no-deps --no-default-features --features "$feature" -- -D warnings
    done
}

part_package() {
    local list pattern
    cargo package --list --allow-dirty -p inbox-macros
    list=$(cargo package --list --allow-dirty -p inbox-runtime)
    echo "$list"
    for pattern in 'README\.md' 'migrations/postgres/.*\.sql' 'migrations/sqlite/.*\.sql'; do
        grep -qx "$pattern" <<<"$list" || fail "inbox-runtime packs no $pattern"
    done
    cargo package --allow-dirty -p inbox-macros -p inbox-runtime --features inbox-runtime/_unstable-docs
}

part_deny() {
    command -v cargo-deny >/dev/null || skip 'cargo-deny is not installed'
    cargo deny check bans licenses sources
}
