//! Which consumers there are, and everything about them that can only be checked at the start.

use std::{collections::BTreeMap, fmt};

use sqlx::Database;

use super::{
    consumer::{Consumer, Registration},
    context::{Requirements, States},
};
use crate::vocabulary::config::{MAX_NAME, is_consumer_name};

/// What a dispatcher is built from.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) by_hand: Vec<Registration>,
    pub(crate) without_linked: bool,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) expected: Vec<String>,
}

impl Selection {
    fn registrations(&self) -> Vec<Registration> {
        let linked = inventory::iter::<Registration>().copied().filter(|_| !self.without_linked);
        let mut all: Vec<Registration> = Vec::new();
        for registration in linked.chain(self.by_hand.iter().copied()) {
            // The same consumer, linked and registered by hand as well, is one consumer.
            if !all.iter().any(|known| std::ptr::eq(known.facts(), registration.facts())) {
                all.push(registration);
            }
        }
        all.sort_by_key(|registration| (registration.name(), registration.location().file, registration.location().line));
        all
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|wanted| wanted == name))
    }

    /// The consumers of this database, sorted by name, or everything that is wrong.
    pub(crate) fn collect<'b, DB: Database>(
        &self,
        states: &States,
        bound: impl Iterator<Item = &'b str>,
    ) -> Result<Vec<&'static Consumer<DB>>, Vec<StartProblem>> {
        let mut all = self.registrations();
        let linked: Vec<&'static str> = all.iter().map(Registration::name).collect();
        all.retain(|registration| self.wants(registration.name()));
        let mut problems = same_names(&all);
        problems.extend(all.iter().filter_map(bad_name));
        let mut consumers = Vec::with_capacity(all.len());
        for registration in &all {
            match registration.consumer::<DB>() {
                Some(consumer) => {
                    problems.extend(missing_states(consumer, states));
                    consumers.push(consumer);
                }
                None => problems.push(StartProblem::WrongDatabase { registration: *registration, database: DB::NAME }),
            }
        }
        let there: Vec<&'static str> = all.iter().map(Registration::name).collect();
        let wanted = self.expected.iter().chain(self.only.iter().flatten()).filter(|name| !there.contains(&name.as_str()));
        problems.extend(wanted.map(|name| StartProblem::NotLinked { name: name.clone(), linked: linked.clone() }));
        let nobody = bound.filter(|name| !there.contains(name));
        problems.extend(nobody.map(|name| StartProblem::BoundToNobody { name: name.to_owned(), linked: linked.clone() }));
        if problems.is_empty() { Ok(consumers) } else { Err(said_once(problems)) }
    }
}

fn said_once(problems: Vec<StartProblem>) -> Vec<StartProblem> {
    let mut once = Vec::with_capacity(problems.len());
    for problem in problems {
        if !once.contains(&problem) {
            once.push(problem);
        }
    }
    once
}

/// Names and aliases share the key of the inbox, so none may belong to two consumers, not even in another spelling.
fn same_names(all: &[Registration]) -> Vec<StartProblem> {
    let mut owners: BTreeMap<String, Registration> = BTreeMap::new();
    let mut problems = Vec::new();
    for registration in all {
        let facts = registration.facts();
        for name in std::iter::once(&facts.name).chain(facts.aliases) {
            let spelling = name.trim().to_lowercase();
            if let Some(first) = owners.get(&spelling) {
                if !std::ptr::eq(first.facts(), facts) {
                    problems.push(StartProblem::SameName { name: (*name).to_owned(), first: *first, second: *registration });
                }
            } else {
                owners.insert(spelling, *registration);
            }
        }
    }
    problems
}

fn bad_name(registration: &Registration) -> Option<StartProblem> {
    let facts = registration.facts();
    let bad = std::iter::once(&facts.name).chain(facts.aliases).find(|name| !is_consumer_name(name))?;
    Some(StartProblem::BadName { name: bad, registration: *registration })
}

fn missing_states<DB: Database>(consumer: &'static Consumer<DB>, states: &States) -> Vec<StartProblem> {
    let mut requirements = Requirements::default();
    (consumer.requires)(&mut requirements);
    let missing = requirements.states.into_iter().filter(|(id, _)| !states.has(*id));
    missing.map(|(_, state)| StartProblem::MissingState { registration: Registration::new(consumer), state }).collect()
}

/// One thing that keeps a dispatcher or a runner from starting.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StartProblem {
    /// Two consumers share a name (or an alias), so each would take the other's messages for its own duplicates.
    SameName {
        /// The name.
        name: String,
        /// One of them.
        first: Registration,
        /// The other.
        second: Registration,
    },
    /// A name that the inbox does not take.
    BadName {
        /// The name.
        name: &'static str,
        /// Whose it is.
        registration: Registration,
    },
    /// A consumer of another database is linked.
    WrongDatabase {
        /// The consumer.
        registration: Registration,
        /// The dispatcher's database.
        database: &'static str,
    },
    /// A consumer takes `State<T>`, and the dispatcher has none of that type.
    MissingState {
        /// The consumer.
        registration: Registration,
        /// The type.
        state: &'static str,
    },
    /// A consumer that was expected is not there.
    NotLinked {
        /// Its name.
        name: String,
        /// Those that are there.
        linked: Vec<&'static str>,
    },
    /// A consumer wants one event type, and the subscription does not say where a message carries its type.
    NoEventType {
        /// The consumer.
        registration: Registration,
        /// The subscription.
        subscription: String,
    },
    /// A subscription reads its id or its event type at a JSON pointer that can match nothing.
    BadPointer {
        /// The subscription.
        subscription: String,
        /// What was given.
        pointer: String,
    },
    /// No consumer wants anything from this topic.
    TopicWithoutConsumer {
        /// The topic.
        topic: String,
        /// The topics that are wanted.
        wanted: Vec<String>,
    },
    /// A topic was bound to a consumer that is not there.
    BoundToNobody {
        /// The name given.
        name: String,
        /// Those that are there.
        linked: Vec<&'static str>,
    },
}

impl PartialEq for StartProblem {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for StartProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameName { name, first, second } => write!(
                f,
                "two consumers share the name `{name}`, so each would skip what the other applied; rename one: {} and {}",
                first.location(),
                second.location()
            ),
            Self::BadName { name, registration } => write!(
                f,
                "`{name}` cannot be a consumer name: use `a-z`, `0-9`, `.`, `_` and `-`, at most {MAX_NAME} bytes: {}",
                registration.location()
            ),
            Self::WrongDatabase { registration, database } => write!(
                f,
                "consumer `{}` works on {}, this dispatcher on {database}; give each database a dispatcher and restrict both with \
                 `.only([..])`: {}",
                registration.name(),
                registration.database(),
                registration.location()
            ),
            Self::MissingState { registration, state } => write!(
                f,
                "consumer `{}` takes `State<{state}>`, and the dispatcher has none; add `.state(..)`: {}",
                registration.name(),
                registration.location()
            ),
            Self::NotLinked { name, linked } => write!(
                f,
                "consumer `{name}` is expected and not linked; a crate that nobody names is left out by the linker: add `use \
                 the_crate as _;` to the binary, or mend the name (linked: {})",
                list(linked)
            ),
            Self::NoEventType { registration, subscription } => write!(
                f,
                "consumer `{}` wants the event type `{}`, and subscription `{subscription}` does not say where a message carries its \
                 type; add `.event_type(..)`: {}",
                registration.name(),
                registration.facts().event.unwrap_or_default(),
                registration.location()
            ),
            Self::BadPointer { subscription, pointer } => {
                write!(f, "subscription `{subscription}` reads a JSON pointer that matches nothing, `{pointer}`; write `/{pointer}`")
            }
            Self::TopicWithoutConsumer { topic, wanted } => {
                write!(f, "no consumer wants topic `{topic}` (wanted: {}); is its crate linked?", list(wanted))
            }
            Self::BoundToNobody { name, linked } => {
                write!(f, "topics are bound to consumer `{name}`, which is not there (linked: {})", list(linked))
            }
        }
    }
}

fn list<T: AsRef<str>>(names: &[T]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Everything that keeps a dispatcher or a runner from starting, each with the places in the source.
#[derive(Debug)]
pub struct StartError {
    /// The problems; never empty.
    pub problems: Vec<StartProblem>,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the consumers cannot start:")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
    }
}

impl std::error::Error for StartError {}
