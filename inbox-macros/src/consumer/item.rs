use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::{
    Signature, Visibility,
    parse::{ParseStream, Parser},
};

use crate::consumer::attrs::Attribute;

/// A function whose body nobody looked into: what stands there is between the user and rustc.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Group,
}

pub(crate) enum Parsed {
    Function(Box<Function>),
    /// Another item, with the keyword that says so.
    Other(TokenTree),
    /// Half-typed.
    Broken(syn::Error),
}

pub(crate) fn parse(item: TokenStream) -> Parsed {
    let parser = |input: ParseStream<'_>| {
        let attrs = Attribute::parse_all(input)?;
        let vis = input.parse()?;
        if let Some(keyword) = other_item(input) {
            input.parse::<TokenStream>()?;
            return Ok(Parsed::Other(keyword));
        }
        let sig = input.parse()?;
        let body: TokenTree = input.parse()?;
        match body {
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
                Ok(Parsed::Function(Box::new(Function { attrs, vis, sig, body })))
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                let body = syn::parse2(group.stream())?;
                Ok(Parsed::Function(Box::new(Function { attrs, vis, sig, body })))
            }
            other => Err(syn::Error::new_spanned(other, "an idempotent consumer needs a body")),
        }
    };
    parser.parse2(item).unwrap_or_else(Parsed::Broken)
}

/// The first token of an item that is not a function.
fn other_item(input: ParseStream<'_>) -> Option<TokenTree> {
    let ahead = input.fork();
    let mut first = None;
    while let Ok(token) = ahead.parse::<TokenTree>() {
        let qualifier = match &token {
            TokenTree::Ident(ident) if ident == "fn" => return None,
            TokenTree::Ident(ident) => ["const", "async", "gen", "unsafe", "safe", "extern", "default"].iter().any(|word| ident == word),
            TokenTree::Literal(_) => true,
            _ => false,
        };
        let first = first.get_or_insert(token);
        if !qualifier {
            return Some(first.clone());
        }
    }
    first
}
