use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Path;

/// The private module of the runtime that generated code names, always by an absolute path.
pub(crate) fn private(given: Option<&Path>) -> TokenStream {
    let krate = given.map_or_else(|| quote!(::inbox_runtime), ToTokens::to_token_stream);
    quote!(#krate::__private)
}

/// A relative path would mean something else in every module that uses the attribute.
pub(crate) fn is_absolute(path: &Path) -> bool {
    path.leading_colon.is_some() || path.segments.first().is_some_and(|first| first.ident == "crate" || first.ident == "$crate")
}
