use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use syn::{LitInt, LitStr, Path};

use crate::{
    consumer::{
        args::{Args, List},
        item::Function,
        model::{Facts, Handle, Model},
        signature,
    },
    support::{duration, errors::Errors, krate, name, slot::Slot},
};

/// Judges arguments and signature. With any mistake in either, what is left is a handle.
pub(crate) fn check(args: Args, function: &Function, errors: &mut Errors) -> Result<Model, Box<Handle>> {
    let name = args.name.get().cloned();
    let batch = args.batch.is_given();
    let (facts, private) = facts(args, errors);
    for attr in function.attrs.iter().filter(|attr| attr.is_consumer()) {
        errors.at(attr, "`#[idempotent_consumer]` is applied twice; one function is one consumer");
    }
    let shape = signature::check(&function.sig, batch, errors);
    match (facts, shape, private) {
        (Some(facts), Some(shape), Some(private)) if errors.count() == 0 => Ok(Model { facts, shape, private }),
        (_, shape, private) => Err(Box::new(Handle { name, shape, private })),
    }
}

/// The arguments, and the runtime's private module: the default one, a given one, or none when its path is wrong.
fn facts(args: Args, errors: &mut Errors) -> (Option<Facts>, Option<TokenStream>) {
    if !args.name.is_given() && !args.name_attempted {
        errors.push(syn::Error::new(
            Span::call_site(),
            "missing `name`: every idempotent consumer needs a stable name, as in `#[idempotent_consumer(name = \"billing\")]`",
        ));
    }
    let krate_is_given = args.krate.is_given();
    let name = args.name.into_value().and_then(|name| check_name("name", name, errors));
    let topic = text("topic", args.topic, errors);
    let topics = args.topics.into_value().map(|list| topics(list, errors)).unwrap_or_default();
    let event = text("event", args.event, errors);
    let aliases = args.aliases.into_value().map(|list| aliases(list, name.as_ref(), errors)).unwrap_or_default();
    let isolation = args.isolation.into_value().and_then(|level| isolation(&level, errors));
    let timeout = args.timeout.into_value().and_then(|text| duration("timeout", &text, errors));
    if let Some(linger) = args.linger.get().filter(|_| !args.batch.is_given()) {
        errors.at(linger, "`linger` is how long a message waits for its batch to fill: it needs `batch`");
    }
    let linger = args.linger.into_value().and_then(|text| linger(&text, errors));
    let group = args.group.into_value().and_then(|number| many("group", 1_000, &number, errors));
    let batch = args.batch.into_value().and_then(|number| many("batch", 5_000, &number, errors));
    let krate = args.krate.into_value().and_then(|path| check_crate(path, errors));

    let private = (krate.is_some() || !krate_is_given).then(|| krate::private(krate.as_ref()));
    let (topics, group) = (topic.into_iter().chain(topics).collect(), group.or(batch));
    let facts = name.map(|name| Facts { name, aliases, topics, event, isolation, timeout, group, linger });
    (facts, private)
}

fn check_name(key: &str, name: LitStr, errors: &mut Errors) -> Option<LitStr> {
    match name::refuse(key, &name.value()) {
        Some(message) => {
            errors.at(name, message);
            None
        }
        None => Some(name),
    }
}

fn text(key: &str, slot: Slot<LitStr>, errors: &mut Errors) -> Option<LitStr> {
    let text = slot.into_value()?;
    if text.value().trim().is_empty() {
        errors.at(&text, format_args!("`{key}` cannot be empty"));
    }
    Some(text)
}

fn topics(list: List, errors: &mut Errors) -> Vec<LitStr> {
    if list.items.is_empty() {
        errors.at(list.brackets, "`topics` is empty; leave it out to bind topics in the runner");
    }
    for (position, topic) in list.items.iter().enumerate() {
        let text = topic.value();
        if text.trim().is_empty() {
            errors.at(topic, "a topic cannot be empty");
        } else if list.items[..position].iter().any(|earlier| earlier.value() == text) {
            errors.at(topic, format_args!("topic `{text}` is listed twice"));
        }
    }
    list.items
}

fn aliases(list: List, name: Option<&LitStr>, errors: &mut Errors) -> Vec<LitStr> {
    if list.items.is_empty() {
        errors.at(list.brackets, "`aliases` is empty; leave it out");
    }
    for (position, alias) in list.items.iter().enumerate() {
        let text = alias.value();
        if let Some(message) = name::refuse("aliases", &text) {
            errors.at(alias, message);
        } else if name.is_some_and(|name| name.value() == text) {
            errors.at(alias, format_args!("alias `{text}` is the name itself; list only former names"));
        } else if list.items[..position].iter().any(|earlier| earlier.value() == text) {
            errors.at(alias, format_args!("alias `{text}` is listed twice"));
        }
    }
    list.items
}

fn isolation(level: &LitStr, errors: &mut Errors) -> Option<Ident> {
    let text = level.value();
    let variant = match text.as_str() {
        "read committed" => "ReadCommitted",
        "repeatable read" => "RepeatableRead",
        "serializable" => "Serializable",
        _ => {
            errors
                .at(level, format_args!("`{text}` is not an isolation level; write `read committed`, `repeatable read` or `serializable`"));
            return None;
        }
    };
    Some(Ident::new(variant, Span::call_site()))
}

fn duration(key: &str, literal: &LitStr, errors: &mut Errors) -> Option<Duration> {
    let text = literal.value();
    let duration = duration::parse(&text);
    match duration {
        None => {
            errors.at(literal, format_args!("`{text}` is not a duration; write a number and a unit, as in `30s`, `15m`, `12h` or `7d`"))
        }
        Some(Duration::ZERO) => errors.at(literal, format_args!("`{key}` cannot be zero")),
        Some(_) => {}
    }
    duration
}

fn linger(literal: &LitStr, errors: &mut Errors) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(60);
    let linger = duration("linger", literal, errors)?;
    if linger > LONGEST {
        errors.at(literal, "`linger` can be at most `1m`: a worker does nothing else meanwhile");
    }
    Some(linger)
}

fn many(key: &str, most: u16, literal: &LitInt, errors: &mut Errors) -> Option<u16> {
    let number = literal.base10_parse::<u16>().ok().filter(|number| (2..=most).contains(number));
    if number.is_none() {
        errors.at(literal, format_args!("`{key}` must be between 2 and {most}: so many messages share a transaction at most"));
    }
    number
}

fn check_crate(path: Path, errors: &mut Errors) -> Option<Path> {
    if krate::is_absolute(&path) {
        return Some(path);
    }
    let text = path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>().join("::");
    errors.at(&path, format_args!("`crate` must be absolute: write `::{text}`, or `crate::{text}` for a module of this crate"));
    None
}
