//! Which consumers a dispatcher has.

use inbox_runtime::{Dispatcher, StartProblem, idempotent_consumer};
use sqlx::{Sqlite, Transaction};

use super::support::*;

#[idempotent_consumer(name = "selection.one", topic = "orders")]
async fn one(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "selection.two", topic = "orders")]
async fn two(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

/// E3: nothing names these modules.
mod nobody {
    mod names {
        mod this {
            use inbox_runtime::idempotent_consumer;
            use sqlx::{Sqlite, Transaction};

            #[idempotent_consumer(name = "selection.nested", topic = "orders")]
            async fn nested(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
                Ok(())
            }
        }
    }
}

fn names(dispatcher: &Dispatcher<Sqlite>) -> Vec<&'static str> {
    dispatcher.consumers().collect()
}

#[tokio::test]
async fn only_restricts_to_what_it_names() {
    let dispatcher = Dispatcher::builder(&inbox().await).only(["selection.two", "selection.one"]).build().await.unwrap();
    assert_eq!(names(&dispatcher), ["selection.one", "selection.two"], "sorted");
    let dispatcher = Dispatcher::builder(&inbox().await).only(["selection.two"]).only(["selection.one"]).build().await.unwrap();
    assert_eq!(names(&dispatcher), ["selection.one", "selection.two"], "added up");
    let none: [&str; 0] = [];
    assert_eq!(names(&Dispatcher::builder(&inbox().await).only(none).build().await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn e3_a_consumer_in_a_nested_module_that_nobody_uses_is_found() {
    let dispatcher = Dispatcher::builder(&inbox().await).only(["selection.nested"]).build().await.unwrap();
    assert_eq!(names(&dispatcher), ["selection.nested"]);
}

#[tokio::test]
async fn a_consumer_that_is_linked_and_registered_by_hand_counts_once() {
    let builder = Dispatcher::builder(&inbox().await).only(["selection.one", "selection.two"]);
    let dispatcher = builder.register(one::registration()).register(one::registration()).build().await.unwrap();
    assert_eq!(names(&dispatcher), ["selection.one", "selection.two"]);
    let twice = of(&[two::registration(), two::registration()]).await.build().await.unwrap();
    assert_eq!(names(&twice), ["selection.two"]);
}

#[tokio::test]
async fn without_linked_there_is_only_what_is_registered_by_hand() {
    assert_eq!(names(&of(&[]).await.build().await.unwrap()), [""; 0]);
    assert_eq!(names(&of(&[one::registration()]).await.build().await.unwrap()), ["selection.one"]);
    // `only` restricts these too, and asks for what it names.
    let restricted = of(&[one::registration(), two::registration()]).await.only(["selection.two"]).build().await.unwrap();
    assert_eq!(names(&restricted), ["selection.two"]);
    let found = problems(of(&[one::registration()]).await.only(["selection.two"])).await;
    assert!(matches!(&found[..], [StartProblem::NotLinked { name, .. }] if name == "selection.two"), "{found:?}");
}

#[tokio::test]
async fn a_consumer_that_is_expected_and_not_linked_is_named_with_a_way_out() {
    let builder = Dispatcher::builder(&inbox().await).only(["selection.one"]).expect(["selection.one", "selection.three"]);
    let found = texts(builder).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("consumer `selection.three` is expected and not linked"), "{}", found[0]);
    // All that are linked, not only those that it is restricted to: a name that is spelled wrong is found next to the right one.
    let linked = found[0].split_once("to the binary, or mend the name (linked: ").expect("what to do").1;
    assert!(linked.contains("`selection.one`") && linked.contains("`selection.two`"), "{}", found[0]);
    let twice = of(&[]).await.expect(["gone"]).expect(["gone"]).only(["gone"]);
    assert_eq!(texts(twice).await.len(), 1, "said once");
    // Without any, that is what it says.
    assert!(texts(of(&[]).await.expect(["gone"])).await[0].contains("(linked: none)"));
}
