//! `#[idempotent_consumer(..)]`: arguments and signature, then the model, then tokens.

mod args;
mod ask;
mod attrs;
mod check;
mod docs;
mod expand;
mod facts;
mod item;
mod model;
mod recover;
mod signature;

use proc_macro2::TokenStream;
use quote::quote;

use crate::{
    consumer::{args::Args, item::Parsed},
    support::errors::Errors,
};

/// What the attribute replaces the user's item with.
pub(crate) fn transform(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let args = Args::parse(args, &mut errors);
    let rest = match item::parse(item.clone()) {
        Parsed::Function(function) => {
            let checked = check::check(args, &function, &mut errors);
            match checked {
                Ok(model) => expand::expand(&model, &function),
                Err(handle) => recover::recover(&handle, *function),
            }
        }
        Parsed::Other(keyword) => {
            errors.at(keyword, "`#[idempotent_consumer]` can only be applied to an `async fn`");
            item
        }
        Parsed::Broken(error) => {
            errors.push(error);
            item
        }
    };
    let errors = errors.finish();
    quote!(#errors #rest)
}
