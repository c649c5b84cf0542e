use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// Collects every mistake of one item, so that all are reported at once.
///
/// A list that nobody reads would hide mistakes, so dropping an unread one panics.
#[derive(Debug)]
pub(crate) struct Errors {
    found: Option<Vec<syn::Error>>,
}

impl Errors {
    pub(crate) fn new() -> Self {
        Self { found: Some(Vec::new()) }
    }

    /// Reports `message` at the whole of `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        self.found.get_or_insert_default().push(error);
    }

    /// Keeps the error of a parser and goes on without its value.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn count(&self) -> usize {
        self.found.as_ref().map_or(0, Vec::len)
    }

    /// The errors as `compile_error!` calls; nothing when there are none.
    pub(crate) fn finish(mut self) -> Option<TokenStream> {
        let found = self.found.take().unwrap_or_default();
        (!found.is_empty()).then(|| found.iter().map(syn::Error::to_compile_error).collect())
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        assert!(self.found.is_none() || std::thread::panicking(), "a list of errors was dropped unread");
    }
}
