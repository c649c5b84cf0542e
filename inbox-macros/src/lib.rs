//! The attribute of `inbox-runtime`. Depend on that crate, which re-exports it and documents its arguments.

mod consumer;
mod support;

#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Turns an `async fn` into an idempotent consumer. See the re-export in `inbox-runtime`.
#[proc_macro_attribute]
pub fn idempotent_consumer(args: TokenStream, item: TokenStream) -> TokenStream {
    consumer::transform(args.into(), item.into()).into()
}
