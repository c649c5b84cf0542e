use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::Path;

use crate::support::tokens;

/// The private module of the runtime that generated code names, always by an absolute path.
pub(crate) fn private(given: Option<&Path>) -> TokenStream {
    let krate = given.map_or_else(|| quote!(::inbox_runtime), |path| path.to_token_stream().into_iter().map(generated).collect());
    quote!(#krate::__private)
}

/// The user wrote the path once and is not to be told of lints in its repetitions. `$crate` keeps what it stands for.
fn generated(mut token: TokenTree) -> TokenTree {
    if !matches!(&token, TokenTree::Ident(ident) if ident == "$crate") {
        token.set_span(tokens::generated_at(token.span()));
    }
    token
}

/// A relative path would mean something else in every module that uses the attribute.
pub(crate) fn is_absolute(path: &Path) -> bool {
    path.leading_colon.is_some() || path.segments.first().is_some_and(|first| first.ident == "crate" || first.ident == "$crate")
}
