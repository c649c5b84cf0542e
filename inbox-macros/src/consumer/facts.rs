//! What the attribute says, as a constant of the runtime.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};

use crate::{consumer::model::Facts, support::tokens::generated_at};

pub(crate) fn write(facts: &Facts, private: &TokenStream, consumer: &Ident) -> TokenStream {
    let Facts { name: _, aliases, topics, event, isolation, timeout, group, linger } = facts;
    let mut given = Vec::new();
    if !aliases.is_empty() {
        given.push(quote!(aliases: &[#(#aliases),*]));
    }
    if !topics.is_empty() {
        given.push(quote!(topics: &[#(#topics),*]));
    }
    if let Some(event) = event {
        given.push(quote!(event: #private::Some(#event)));
    }
    if let Some(level) = isolation {
        given.push(quote!(isolation: #private::Some(#private::Isolation::#level)));
    }
    let duration = |duration: &Duration| {
        let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
        quote!(#private::Duration::new(#seconds, #nanos))
    };
    if let Some(timeout) = timeout.as_ref().map(duration) {
        given.push(quote!(timeout: #private::Some(#timeout)));
    }
    if let Some(group) = group {
        given.push(quote!(group: #group));
    }
    if let Some(linger) = linger.as_ref().map(duration) {
        given.push(quote!(linger: #linger));
    }
    let location = quote_spanned!(generated_at(consumer.span())=> ::core::file!(), ::core::line!(), ::core::module_path!());
    let new = quote!(#private::Facts::new(#consumer::NAME, #private::Location::new(#location)));
    match given.is_empty() {
        true => new,
        false => quote!(#private::Facts { #(#given,)* ..#new }),
    }
}
