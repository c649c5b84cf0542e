use super::{ITEM, errors, expand};

fn expanded(args: &str, item: &str) -> String {
    expand(args, item).to_string()
}

#[test]
fn after_a_wrong_argument_every_name_is_still_there() {
    let tokens = expanded(r#"nmae = "billing""#, ITEM);
    for part in ["struct charge { }", "const NAME", "async fn body", "fn registration", "fn charge < __DB", "Ok (())"] {
        assert!(tokens.contains(part), "{part} in {tokens}");
    }
    assert!(!tokens.contains("submit"), "a consumer with mistakes is not registered");
}

#[test]
fn after_a_wrong_signature_the_body_is_still_there() {
    let tokens = expanded(r#"name = "billing""#, "fn charge(tx: PgTransaction<'_>) -> Result<(), Error> { thing(tx).await }");
    // Without `async` its `.await` would be a second error.
    assert!(tokens.contains("async fn body (tx : PgTransaction < '_ >)"), "{tokens}");
    assert!(tokens.contains("thing (tx) . await"), "{tokens}");
}

#[test]
fn a_missing_lifetime_is_mended() {
    let tokens = expanded(r#"name = "billing""#, "async fn charge(tx: &mut sqlx::Transaction<Postgres>) -> Result<(), E> {}");
    assert!(tokens.contains("async fn body (tx : & mut sqlx :: Transaction < '_ , Postgres >)"), "{tokens}");
    let tokens = expanded(r#"name = "billing""#, "async fn charge(tx: &mut PgTransaction) -> Result<(), E> {}");
    assert!(tokens.contains("async fn body (tx : & mut PgTransaction < '_ >)"), "{tokens}");
}

#[test]
fn a_method_stays_where_it_is() {
    let tokens = expanded(r#"name = "billing""#, "async fn charge(&self) -> Result<(), Error> { Ok(()) }");
    assert!(tokens.ends_with("async fn charge (& self) -> Result < () , Error > { Ok (()) }"), "{tokens}");
    assert!(!tokens.contains("struct"), "{tokens}");
}

#[test]
fn a_second_attribute_is_not_expanded_again() {
    let item = format!("#[idempotent_consumer(name = \"b\")] {ITEM}");
    assert_eq!(expanded(r#"name = "a""#, &item).matches("idempotent_consumer").count(), 1, "only in the message");
}

#[test]
fn half_typed_items_come_back_as_they_are() {
    for item in ["async fn charge(tx: ", "async fn", "pub async fn charge(tx: &mut) {}", "#[doc = \"x\"] pub"] {
        let Ok(tokens) = item.parse::<proc_macro2::TokenStream>() else { continue };
        assert!(expanded(r#"name = "a""#, item).ends_with(&tokens.to_string()), "{item}");
        assert_eq!(errors(r#"name = "a""#, item).len(), 1, "{item}");
    }
}

#[test]
fn half_typed_bodies_are_not_looked_into() {
    for body in ["order. ;", "let x = ", "if { else", "match x { A =>", "foo(, ,)", "#[", "'"] {
        let item = format!("async fn charge(tx: &mut PgTransaction<'_>) -> Result<(), E> {{ {body} }}");
        if item.parse::<proc_macro2::TokenStream>().is_err() {
            continue;
        }
        assert_eq!(errors(r#"name = "a""#, &item), Vec::<String>::new(), "{body}");
        let tokens = body.parse::<proc_macro2::TokenStream>().expect("it lexed inside the item").to_string();
        assert!(expanded(r#"name = "a""#, &item).contains(&tokens), "{body}");
    }
}

#[test]
fn a_switched_off_consumer_leaves_nothing() {
    let item = format!("#[cfg(feature = \"x\")] #[cfg_attr(unix, cfg(feature = \"y\"))] {ITEM}");
    let tokens = expanded(r#"name = "a""#, &item);
    // The type, its impl, the entry, the submission.
    assert_eq!(tokens.matches("# [cfg (feature = \"x\")]").count(), 4, "{tokens}");
    assert_eq!(tokens.matches("# [cfg_attr (unix , cfg (feature = \"y\"))]").count(), 4, "{tokens}");
}

#[test]
fn an_expectation_stands_once() {
    let item = format!("#[expect(clippy::too_many_arguments)] {ITEM}");
    let tokens = expanded(r#"name = "a""#, &item);
    assert_eq!(tokens.matches("expect (clippy :: too_many_arguments)").count(), 1, "{tokens}");
    assert!(tokens.contains("allow (clippy :: too_many_arguments)"), "{tokens}");
}
