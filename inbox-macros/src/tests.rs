//! The attribute without a compiler: its messages, what is left after a mistake, and whole expansions.

mod golden;
mod messages;
mod recovery;

use proc_macro2::{TokenStream, TokenTree};

use crate::consumer::transform;

const ITEM: &str = "async fn charge(tx: &mut Transaction<'_, Postgres>, Json(order): Json<Order>) -> Result<(), Error> { Ok(()) }";

fn expand(args: &str, item: &str) -> TokenStream {
    transform(args.parse().expect("arguments lex"), item.parse().expect("the item lexes"))
}

/// The texts of all `compile_error!` calls, in order.
fn errors(args: &str, item: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut tokens = expand(args, item).into_iter();
    while let Some(token) = tokens.next() {
        if matches!(&token, TokenTree::Ident(ident) if ident == "compile_error")
            && let Some(TokenTree::Group(arguments)) = tokens.nth(1)
        {
            let text: syn::LitStr = syn::parse2(arguments.stream()).expect("one literal");
            found.push(text.value());
        }
    }
    found
}
