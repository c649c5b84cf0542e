//! What the generated items say of themselves.

use proc_macro2::TokenStream;
use quote::quote;

use crate::consumer::{attrs::Attribute, item::Function};

pub(crate) fn of_type(name: &str) -> TokenStream {
    let text = format!("The consumer `{name}`: its durable name, its body without the inbox, its registration.");
    quote!(#[doc = #text])
}

/// Stands after the user's own text. A section of theirs about errors is the last word.
pub(crate) fn of_entry(function: &Function) -> TokenStream {
    let text = "\n\nApplies its effect once for the message `id`: the effect and the row in the inbox are one commit, and a \
        message that was applied before is answered without running the body.";
    let errors = "\n\n# Errors\n\nWhat the body returned, or what kept it from running or committing. Nothing is applied then, \
        unless the error says that the outcome is unknown.";
    match has_errors_section(&function.attrs) {
        true => TokenStream::new(),
        false => {
            let text = format!("{text}{errors}");
            quote!(#[doc = #text])
        }
    }
}

/// Stands before the user's own text.
pub(crate) fn of_body() -> TokenStream {
    let text = "The function as written, **without the inbox**: nothing is claimed, nothing is committed, and a second call \
        applies a second effect. For unit tests.\n\n";
    quote!(#[doc = #text])
}

fn has_errors_section(attrs: &[Attribute]) -> bool {
    attrs.iter().filter_map(Attribute::doc_text).any(|text| text.contains("# Errors"))
}
