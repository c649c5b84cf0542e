//! An RFC 6901 pointer into a JSON payload, followed without building the rest of it.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// What stands at a pointer.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    Nothing,
    One(Value),
    /// A key on the way is there more than once, with different values at its end. JSON says nothing about that, and readers differ: some take the
    /// first, some (`serde_json::Value` too) the last.
    Several,
}

/// # Errors
///
/// When the payload is not JSON.
pub(super) fn find(payload: &[u8], pointer: &str) -> Result<Found, serde_json::Error> {
    let way: Vec<String> = match pointer.strip_prefix('/') {
        Some(rest) => rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect(),
        None if pointer.is_empty() => Vec::new(),
        None => return serde_json::from_slice(payload).map(|IgnoredAny| Found::Nothing),
    };
    let mut json = serde_json::Deserializer::from_slice(payload);
    let found = Way(&way).deserialize(&mut json)?;
    json.end()?;
    Ok(found)
}

/// The steps that are left.
struct Way<'w>(&'w [String]);

impl<'de> DeserializeSeed<'de> for Way<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Found, D::Error> {
        if self.0.is_empty() { Value::deserialize(json).map(Found::One) } else { json.deserialize_any(self) }
    }
}

impl<'de> Visitor<'de> for Way<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let mut found: Option<Found> = None;
        while let Some(key) = map.next_key::<String>()? {
            match self.0.split_first() {
                Some((step, rest)) if *step == key => {
                    let this = map.next_value_seed(Way(rest))?;
                    found = Some(if found.as_ref().is_none_or(|other| *other == this) { this } else { Found::Several });
                }
                _ => map.next_value().map(|IgnoredAny| ())?,
            }
        }
        Ok(found.unwrap_or(Found::Nothing))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Found, A::Error> {
        let Some((step, rest)) = self.0.split_first() else { return Ok(Found::Nothing) };
        // Digits without a leading zero: `00` and `+0` are no indices.
        let wanted: Option<usize> = step.parse().ok().filter(|index: &usize| index.to_string() == *step);
        let mut found = Found::Nothing;
        let mut at = 0;
        loop {
            if wanted == Some(at) {
                let Some(this) = list.next_element_seed(Way(rest))? else { return Ok(found) };
                found = this;
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            at += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_str<E>(self, _: &str) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(Found::Nothing)
    }
}
