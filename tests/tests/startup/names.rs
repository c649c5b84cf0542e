//! E2: two consumers with one name would take each other's messages for their own duplicates.

use inbox_runtime::{__private::Consumer, Registration, StartProblem, idempotent_consumer};
use sqlx::{Sqlite, Transaction};

use super::support::*;

mod first {
    use super::*;

    #[idempotent_consumer(name = "names.same", topic = "orders")]
    pub(super) async fn book(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
        Ok(())
    }
}

mod second {
    use super::*;

    #[idempotent_consumer(name = "names.same", topic = "payments")]
    pub(super) async fn book(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
        Ok(())
    }
}

#[idempotent_consumer(name = "names.renamed", aliases = ["names.old", "names.older"])]
async fn renamed(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "names.older")]
async fn takes_an_alias(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "names.third", aliases = ["names.old"])]
async fn shares_an_alias(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn same_name(problem: &StartProblem) -> (&str, [String; 2]) {
    let StartProblem::SameName { name, first, second } = problem else { panic!("{problem}") };
    let text = problem.to_string();
    let places = [place(*first), place(*second)];
    assert!(places.iter().all(|place| text.contains(place.as_str())), "{places:?}: {text}");
    assert!(text.contains(&format!("two consumers share the name `{name}`")), "{text}");
    (name, places)
}

#[tokio::test]
async fn e2_two_consumers_with_one_name_are_refused_with_both_places() {
    let (a, b) = (first::book::registration(), second::book::registration());
    for order in [[a, b], [b, a]] {
        let found = problems(of(&order).await).await;
        assert_eq!(found.len(), 1, "{found:?}");
        let (name, places) = same_name(&found[0]);
        assert_eq!((name, places), ("names.same", [place(a), place(b)]), "sorted by place, whichever came first");
        let here = file!();
        assert!(place(a).starts_with(here) && place(b).starts_with(here) && place(a) != place(b), "{}", place(a));
    }
}

/// Found by the linker, not by hand: the registry knows both.
#[tokio::test]
async fn e2_linked_consumers_with_one_name_are_refused() {
    let linked = inbox_runtime::Dispatcher::builder(&inbox().await).only(["names.same"]);
    let found = problems(linked).await;
    assert_eq!(found.len(), 1, "{found:?}");
    same_name(&found[0]);
}

#[tokio::test]
async fn e2_an_alias_is_a_name() {
    let found = problems(of(&[renamed::registration(), takes_an_alias::registration()]).await).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(same_name(&found[0]).0, "names.older");
    let found = problems(of(&[renamed::registration(), shares_an_alias::registration()]).await).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(same_name(&found[0]).0, "names.old");
    of(&[takes_an_alias::registration(), shares_an_alias::registration()]).await.build().await.expect("no name in common");
}

static LOWER: Consumer<Sqlite> = by_hand("names.case", &[], 1);
static UPPER: Consumer<Sqlite> = by_hand("Names.Case", &[], 2);
static SPACED: Consumer<Sqlite> = by_hand(" names.case ", &[], 3);
static OWN_ALIAS: Consumer<Sqlite> = by_hand("names.own", &["names.own"], 4);

/// The attribute refuses such names when it is compiled; a registration that somebody makes by hand is checked at the start.
#[tokio::test]
async fn e2_names_that_differ_in_case_or_spaces_are_one_name() {
    for other in [&UPPER, &SPACED] {
        let found = problems(of(&[Registration::new(&LOWER), Registration::new(other)]).await).await;
        let same: Vec<_> = found.iter().filter(|problem| matches!(problem, StartProblem::SameName { .. })).collect();
        assert_eq!(same.len(), 1, "{found:?}");
        same_name(same[0]);
        let text = same[0].to_string();
        assert!(text.contains("src/by_hand.rs:1 (by_hand)") && !text.contains("src/by_hand.rs:4"), "{text}");
        // And neither spelling is a consumer name in the first place.
        let bad = found.iter().filter(|problem| matches!(problem, StartProblem::BadName { .. })).count();
        assert_eq!(bad, 1, "{found:?}");
    }
}

#[tokio::test]
async fn a_name_that_the_inbox_does_not_take_is_refused_with_its_place() {
    static LONG: [u8; 129] = [b'x'; 129];
    let long: &'static str = std::str::from_utf8(&LONG).unwrap();
    for bad in ["", " ", "Billing", "bil ling", "billing/2", "rechnungslegung-ä", "a\0b", long] {
        for (name, aliases) in [(bad, Vec::new()), ("names.good", vec![bad])] {
            let consumer: &'static Consumer<Sqlite> = Box::leak(Box::new(by_hand(name, Box::leak(aliases.into_boxed_slice()), 7)));
            let found = texts(of(&[Registration::new(consumer)]).await).await;
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(&format!("`{bad}` cannot be a consumer name")), "{}", found[0]);
            assert!(found[0].contains("src/by_hand.rs:7"), "{}", found[0]);
        }
    }
    let longest: &'static str = std::str::from_utf8(&LONG[..128]).unwrap();
    let consumer: &'static Consumer<Sqlite> = Box::leak(Box::new(by_hand(longest, &[], 8)));
    of(&[Registration::new(consumer)]).await.build().await.expect("128 bytes are taken");
}

/// A consumer that names itself as its own alias has one row, not two.
#[tokio::test]
async fn an_alias_that_is_the_name_itself_is_harmless() {
    let dispatcher = of(&[Registration::new(&OWN_ALIAS)]).await.build().await.unwrap();
    assert_eq!(dispatcher.consumers().collect::<Vec<_>>(), ["names.own"]);
}
