use super::{ITEM, errors};

const BATCH: &str = "async fn charge(tx: &mut Transaction<'_, Postgres>, orders: Vec<Json<O>>) -> Result<(), E> {}";

const TX: &str = "tx: &mut Transaction<'_, Postgres>";

fn arguments(args: &str) -> Vec<String> {
    errors(args, ITEM)
}

fn item(item: &str) -> Vec<String> {
    errors(r#"name = "billing""#, item)
}

#[test]
fn a_plain_consumer_has_no_errors() {
    assert_eq!(arguments(r#"name = "billing""#), Vec::<String>::new());
    let all = r#"name = "billing", topics = ["a", "b"], event = "E", aliases = ["old",], isolation = "repeatable read", timeout = "30s", group = 100, crate = crate::inbox,"#;
    assert_eq!(arguments(all), Vec::<String>::new());
}

#[test]
fn the_name_is_required_and_durable() {
    let missing = "missing `name`: every idempotent consumer needs a stable name, as in `#[idempotent_consumer(name = \"billing\")]`";
    assert_eq!(arguments(""), [missing]);
    assert_eq!(arguments(r#"topic = "orders""#), [missing]);
    assert_eq!(arguments(r#"name = """#), ["`name` cannot be empty"]);
    assert_eq!(arguments(r#"name = "Billing v2""#), ["`name` may hold only `a-z`, `0-9`, `.`, `_` and `-`; found `B`"]);
    assert_eq!(arguments(r#"name = "bill ing""#), ["`name` may hold only `a-z`, `0-9`, `.`, `_` and `-`; found ` `"]);
    let long = format!("name = \"{}\"", "a".repeat(200));
    assert_eq!(arguments(&long), ["`name` is 200 bytes long; the inbox stores at most 128"]);
    assert_eq!(arguments(&format!("name = \"{}\"", "a".repeat(128))), Vec::<String>::new());
    let literal = "`name` must be a string literal: it is stored in every inbox row";
    for value in ["billing", "3", "b\"billing\"", "\"a\"suffix", "[\"a\"]", "concat!(\"a\")", ""] {
        assert_eq!(arguments(&format!("name = {value}")), [literal], "{value}");
    }
}

#[test]
fn keys_are_known_and_given_once() {
    assert_eq!(arguments(r#"nmae = "billing""#), ["unknown argument `nmae`; did you mean `name`?"]);
    assert_eq!(arguments(r#"name = "a", topci = "b""#), ["unknown argument `topci`; did you mean `topic`?"]);
    assert_eq!(arguments(r#"name = "a", alias = ["b"]"#), ["unknown argument `alias`; did you mean `aliases`?"]);
    assert_eq!(
        arguments(r#"name = "a", retires = 3"#),
        [
            "unknown argument `retires`; expected one of: `name`, `topic`, `topics`, `event`, `aliases`, `isolation`, `timeout`, `group`, `batch`, `linger`, `crate`"
        ]
    );
    assert_eq!(arguments(r#"name = "a", name = "b""#), ["`name` is specified more than once"]);
    assert_eq!(arguments(r#"name = "a", timeout = "1s", timeout = "x""#), ["`timeout` is specified more than once"]);
    assert_eq!(arguments(r#""billing""#), ["arguments are named: write `name = \"billing\"`"]);
    assert_eq!(arguments(r#"name = "a" topic = "b""#), ["expected `,`"]);
    assert_eq!(arguments(r#"name = "a" "b", topic = "c""#), ["expected `,`"]);
    assert_eq!(arguments("name"), ["`name` needs a value: write `name = \"billing\"`"]);
    assert_eq!(arguments(r#"name("billing")"#), ["`name` needs a value: write `name = \"billing\"`"]);
    assert_eq!(arguments("= 3"), ["expected an argument, as in `name = \"billing\"`"]);
}

#[test]
fn topics_are_one_or_a_list() {
    assert_eq!(arguments(r#"name = "a", topic = "b", topics = ["c"]"#), ["`topic` and `topics` cannot both be given"]);
    assert_eq!(arguments(r#"name = "a", topics = ["c"], topic = "b""#), ["`topic` and `topics` cannot both be given"]);
    assert_eq!(arguments(r#"name = "a", topics = []"#), ["`topics` is empty; leave it out to bind topics in the runner"]);
    assert_eq!(arguments(r#"name = "a", topics = ["a", "a"]"#), ["topic `a` is listed twice"]);
    assert_eq!(arguments(r#"name = "a", topics = ["a" "b"]"#), ["expected `,`"]);
    assert_eq!(arguments(r#"name = "a", topics = [a]"#), ["`topics` must be a string literal, as in `topics = [\"orders\"]`"]);
    assert_eq!(arguments(r#"name = "a", topics = "a""#), ["`topics` takes a list: write `topics = [\"orders\"]`"]);
    assert_eq!(arguments(r#"name = "a", topic = "", event = """#), ["`topic` cannot be empty", "`event` cannot be empty"]);
}

#[test]
fn aliases_are_former_names() {
    assert_eq!(arguments(r#"name = "a", aliases = []"#), ["`aliases` is empty; leave it out"]);
    assert_eq!(arguments(r#"name = "a", aliases = ["a"]"#), ["alias `a` is the name itself; list only former names"]);
    assert_eq!(arguments(r#"name = "a", aliases = ["b", "b"]"#), ["alias `b` is listed twice"]);
    assert_eq!(arguments(r#"name = "a", aliases = ["B"]"#), ["`aliases` may hold only `a-z`, `0-9`, `.`, `_` and `-`; found `B`"]);
}

#[test]
fn other_values_say_what_to_write() {
    assert_eq!(
        arguments(r#"name = "a", timeout = "30 sec""#),
        ["`30 sec` is not a duration; write a number and a unit, as in `30s`, `15m`, `12h` or `7d`"]
    );
    assert_eq!(arguments(r#"name = "a", timeout = "0s""#), ["`timeout` cannot be zero"]);
    assert_eq!(arguments(r#"name = "a", group = 100"#), [""; 0]);
    for wrong in ["\"100\"", "100u16", "many", "[1]"] {
        assert_eq!(arguments(&format!("name = \"a\", group = {wrong}")), ["`group` must be a number, as in `group = 100`"], "{wrong}");
    }
    for wrong in ["0", "1", "1001", "70000"] {
        let range = "`group` must be between 2 and 1000: so many messages share a transaction at most";
        assert_eq!(arguments(&format!("name = \"a\", group = {wrong}")), [range], "{wrong}");
    }
    for wrong in ["0", "1", "5001", "70000"] {
        let range = "`batch` must be between 2 and 5000: so many messages share a transaction at most";
        assert_eq!(errors(&format!("name = \"a\", batch = {wrong}"), BATCH), [range], "{wrong}");
    }
    let linger = "`linger` is how long a message waits for its batch to fill: it needs `batch`";
    assert_eq!(arguments(r#"name = "a", linger = "20ms""#), [linger]);
    assert_eq!(errors(r#"name = "a", batch = 5, linger = "0ms""#, BATCH), ["`linger` cannot be zero"]);
    let longest = "`linger` can be at most `1m`: a worker does nothing else meanwhile";
    assert_eq!(errors(r#"name = "a", batch = 5, linger = "2m""#, BATCH), [longest]);
    for both in ["group = 5, batch = 5", "batch = 5, group = 5"] {
        assert_eq!(errors(&format!("name = \"a\", {both}"), BATCH), ["`group` and `batch` cannot both be given"], "{both}");
    }
    assert_eq!(arguments(r#"name = "a", timeout = 30"#), ["`timeout` must be a string literal, as in `timeout = \"30s\"`"]);
    assert_eq!(
        arguments(r#"name = "a", isolation = "Serializable""#),
        ["`Serializable` is not an isolation level; write `read committed`, `repeatable read` or `serializable`"]
    );
    assert_eq!(arguments(r#"name = "a", crate = "my""#), ["`crate` takes a path, not a string: write `crate = ::my_crate::inbox`"]);
    assert_eq!(
        arguments(r#"name = "a", crate = my::inbox"#),
        ["`crate` must be absolute: write `::my::inbox`, or `crate::my::inbox` for a module of this crate"]
    );
}

#[test]
fn only_async_functions_are_consumers() {
    let only = "`#[idempotent_consumer]` can only be applied to an `async fn`";
    for other in ["struct S;", "pub enum E {}", "const X: u8 = 1;", "unsafe impl Send for S {}", "mod m {}", "extern \"C\" {}"] {
        assert_eq!(item(other), [only], "{other}");
    }
    assert_eq!(item(&format!("fn charge({TX}) -> Result<(), E> {{}}")), ["consumer `charge` must be an `async fn`"]);
    assert_eq!(
        item(&format!("async fn charge<T>({TX}) -> Result<(), E> {{}}")),
        ["consumer `charge` cannot be generic: it is registered once, under one name"]
    );
    for (written, word) in [("const async", "const"), ("async unsafe", "unsafe"), ("async extern \"C\"", "extern")] {
        assert_eq!(item(&format!("{written} fn charge({TX}) -> Result<(), E> {{}}")), [format!("consumer `charge` cannot be `{word}`")]);
    }
    assert_eq!(
        item(&format!("async fn charge(&self, {TX}) -> Result<(), E> {{}}")),
        ["consumer `charge` must be a free function, without `self`; take shared state with `State<_>`"]
    );
    assert_eq!(item(&format!("fn r#type({TX}) -> Result<(), E> {{}}")), ["consumer `type` must be an `async fn`"]);
}

#[test]
fn the_transaction_comes_first() {
    assert_eq!(
        item("async fn charge() -> Result<(), E> {}"),
        ["consumer `charge` must take the transaction first: `tx: &mut Transaction<'_, DB>`"]
    );
    let first = "the first parameter of consumer `charge` must be the transaction, `&mut Transaction<'_, DB>`";
    assert_eq!(item("async fn charge(tx: PgTransaction<'_>) -> Result<(), E> {}"), [first]);
    assert_eq!(item("async fn charge(tx: &PgTransaction<'_>) -> Result<(), E> {}"), [first]);
    assert_eq!(item(&format!("async fn charge(order: Json<O>, {TX}) -> Result<(), E> {{}}")), [first]);
    assert_eq!(
        item("async fn charge(tx: &mut Transaction<'static, Postgres>) -> Result<(), E> {}"),
        ["the transaction of consumer `charge` is only borrowed: write `'_` instead of `'static`"]
    );
    assert_eq!(
        item("async fn charge<'c>(tx: &'c mut Transaction<'c, Postgres>) -> Result<(), E> {}"),
        ["`'c` cannot be the borrow and the transaction's own lifetime: write `'_` here"]
    );
    assert_eq!(
        item("async fn charge(tx: &mut Transaction<Postgres>) -> Result<(), E> {}"),
        ["the transaction's lifetime is missing: write `Transaction<'_, Postgres>`"]
    );
    assert_eq!(
        item("async fn charge(tx: &mut sqlx::PgTransaction) -> Result<(), E> {}"),
        ["the transaction's lifetime is missing: write `PgTransaction<'_>`"]
    );
    for fine in ["<'c>(tx: &mut PgTransaction<'c>)", "<'a, 'c: 'a>(tx: &'a mut PgTransaction<'c>)", "(_: &mut (crate::Tx))"] {
        assert_eq!(item(&format!("async fn charge{fine} -> Result<(), E> {{}}")), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn extractors_are_owned_values() {
    let parameter = |written: &str| item(&format!("async fn charge<'c>({TX}, {written}) -> Result<(), E> {{}}"));
    let reference = "extractors are owned values: remove the `&`";
    assert_eq!(parameter("order: &Json<O>"), [reference]);
    assert_eq!(parameter("order: Json<&str>"), [reference]);
    assert_eq!(parameter("order: Json<Cow<'c, str>>"), ["extractors are owned values: `'c` can only be `'static` here"]);
    assert_eq!(parameter("order: impl FromMessage"), ["`impl Trait` is not allowed in a consumer's parameters"]);
    assert_eq!(
        parameter("#[cfg(x)] order: Json<O>"),
        ["attributes on a consumer's parameters are not supported; put `#[cfg]` on the function"]
    );
    for fine in [
        "order: Json<Cow<'static, str>>",
        "f: State<fn(&str) -> bool>",
        "(a, b): (A, B)",
        "mut a: A",
        "_: A",
        "ref a: A",
        "Json(O { id, .. }): Json<O>",
    ] {
        assert_eq!(parameter(fine), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn a_batch_takes_many() {
    let batch =
        |parameters: &str| errors(r#"name = "a", batch = 500"#, &format!("async fn charge({TX}{parameters}) -> Result<(), E> {{}}"));
    for fine in [", orders: Vec<Json<O>>", ", a: std::vec::Vec<A>, b: Vec<B>", ", State(s): State<S>, a: Vec<A>"] {
        assert_eq!(batch(fine), Vec::<String>::new(), "{fine}");
    }
    let write = "with `batch` the body takes many messages: write `Vec<Json<O>>`, which has one for each";
    assert_eq!(batch(", order: Json<O>"), [write]);
    let nothing = "consumer `charge` takes no messages: with `batch` add a parameter like `orders: Vec<Json<Order>>`";
    assert_eq!(batch(""), [nothing]);
    assert_eq!(batch(", state: State<S>"), [nothing]);
    assert_eq!(
        item(&format!("async fn charge({TX}, orders: Vec<Json<O>>) -> Result<(), E> {{}}")),
        ["a `Vec` of extractors is for many messages: add `batch = 500`, or take one, as in `Json<O>`"]
    );
}

#[test]
fn the_result_is_named_and_owned() {
    assert_eq!(
        item(&format!("async fn charge({TX}) {{}}")),
        ["consumer `charge` must return `Result<T, E>`: an `Err` rolls the transaction back"]
    );
    assert_eq!(
        item(&format!("async fn charge({TX}) -> Result<(), impl Error> {{}}")),
        ["`impl Trait` is not allowed in what a consumer returns"]
    );
    assert_eq!(
        item(&format!("async fn charge<'c>({TX}) -> Result<(), E<'c>> {{}}")),
        ["what a consumer returns is owned: `'c` can only be `'static` here"]
    );
}

#[test]
fn one_function_is_one_consumer() {
    let twice = "`#[idempotent_consumer]` is applied twice; one function is one consumer";
    assert_eq!(item(&format!("#[idempotent_consumer(name = \"b\")] {ITEM}")), [twice]);
    assert_eq!(item(&format!("#[inbox_runtime::idempotent_consumer(name = \"b\")] {ITEM}")), [twice]);
}

#[test]
fn everything_is_reported_at_once_in_source_order() {
    let found = errors(r#"nmae = "billing", topics = [], timeout = "soon""#, "fn charge<T>(tx: PgTransaction<'_>, order: &Json<O>) {}");
    assert_eq!(
        found,
        [
            "unknown argument `nmae`; did you mean `name`?",
            "`topics` is empty; leave it out to bind topics in the runner",
            "`soon` is not a duration; write a number and a unit, as in `30s`, `15m`, `12h` or `7d`",
            "consumer `charge` must be an `async fn`",
            "consumer `charge` cannot be generic: it is registered once, under one name",
            "the first parameter of consumer `charge` must be the transaction, `&mut Transaction<'_, DB>`",
            "extractors are owned values: remove the `&`",
            "consumer `charge` must return `Result<T, E>`: an `Err` rolls the transaction back",
        ]
    );
}
