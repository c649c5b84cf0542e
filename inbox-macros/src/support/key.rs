use std::fmt;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;

/// An argument's name at its place in the source.
#[derive(Clone, Debug)]
pub(crate) struct Key(Ident);

impl Key {
    pub(crate) fn new(ident: Ident) -> Self {
        Self(ident)
    }

    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// What to say about a key that is none of `known`, and the known key that was probably meant.
    pub(crate) fn unknown(&self, known: &[&'static str]) -> (String, Option<&'static str>) {
        let text = self.text();
        let nearest = known
            .iter()
            .map(|candidate| (distance(&text, candidate), *candidate))
            .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, candidate)| candidate);
        let message = match nearest {
            Some(nearest) => format!("unknown argument `{text}`; did you mean `{nearest}`?"),
            None => {
                let list = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
                format!("unknown argument `{text}`; expected one of: {list}")
            }
        };
        (message, nearest)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ToTokens for Key {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

/// Edits between two words; two neighbours that changed places are one edit.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![(0..=right.len()).collect::<Vec<_>>()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let substituted = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut best = substituted.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn neighbours_that_changed_places_are_one_edit() {
        assert_eq!(distance("nmae", "name"), 1);
        assert_eq!(distance("topci", "topic"), 1);
        assert_eq!(distance("retires", "timeout"), 6);
        assert_eq!(distance("", "name"), 4);
    }
}
