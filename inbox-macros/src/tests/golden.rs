//! What reviewers read. `UPDATE_GOLDEN=1 cargo test -p inbox-macros` writes the files anew.

use std::{
    env, fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use super::{ITEM, expand};

#[test]
fn plain() {
    let written = check("plain", r#"name = "billing", topic = "orders""#, &format!("/// Charges an account.\npub {ITEM}"));
    assert!(written.lines().count() <= 60, "a plain consumer takes {} lines", written.lines().count());
}

#[test]
fn everything() {
    check(
        "everything",
        r#"name = "ledger", aliases = ["books", "journal"], topics = ["orders", "refunds"], event = "OrderPlaced",
           isolation = "serializable", timeout = "1500ms", group = 50, crate = crate::facade"#,
        r#"
        /// Writes the ledger.
        ///
        /// # Errors
        ///
        /// When the database fails.
        #[cfg(feature = "ledger")]
        #[tracing::instrument(skip_all)]
        #[expect(clippy::too_many_lines, reason = "it is a ledger")]
        #[deprecated = "use the other one"]
        #[must_use]
        #[cfg_attr(docsrs, doc(hidden), inline)]
        pub(crate) async fn r#type<'c>(
            tx: &mut Transaction<'c, Sqlite>,
            Json(OrderPlaced { id, .. }): Json<OrderPlaced>,
            mut key: Option<Key>,
            _: MessageId,
            State((clock, zone)): State<(Clock, Zone)>,
            id2: Header<Tenant>,
        ) -> Result<Reply<u64>, LedgerError> {
            let total = add(tx, id, &mut key, clock, zone, id2).await?;
            Ok(Reply(total))
        }
        "#,
    );
}

#[test]
fn batch() {
    check(
        "batch",
        r#"name = "ledger", batch = 500, linger = "20ms""#,
        "async fn ledger(tx: &mut Transaction<'_, Postgres>, ids: Vec<MessageId>, State(rates): State<Rates>) -> Result<Vec<Reply<u64>>, Error> { Ok(vec![]) }",
    );
}

#[test]
fn recovered() {
    check("recovered", r#"nmae = "billing""#, ITEM);
}

fn check(name: &str, args: &str, item: &str) -> String {
    let written = format(&expand(args, item).to_string());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name).with_extension("rs");
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &written).expect("the golden file is writable");
    }
    let golden = fs::read_to_string(&path).expect("the golden file is there");
    assert_eq!(written, golden, "the expansion changed; if it should, run again with UPDATE_GOLDEN=1");
    written
}

fn format(source: &str) -> String {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config", "max_width=140,use_small_heuristics=Max"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt is a component of the pinned toolchain");
    rustfmt.stdin.take().expect("piped").write_all(source.as_bytes()).expect("rustfmt reads");
    let output = rustfmt.wait_with_output().expect("rustfmt ends");
    assert!(output.status.success(), "rustfmt cannot read {source}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
