use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens;

/// Removes the invisible groups that `macro_rules!` puts around its fragments.
pub(crate) fn flatten(tokens: TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => flatten(group.stream()),
            TokenTree::Group(group) => TokenTree::Group(regroup(&group, flatten(group.stream()))).into(),
            token => token.into(),
        })
        .collect()
}

/// Writes `lifetime` for every lifetime that a function's signature could have named.
pub(crate) fn replace_lifetimes(tokens: TokenStream, lifetime: &str) -> TokenStream {
    let mut quoted = false;
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if quoted => {
                quoted = false;
                TokenTree::Ident(Ident::new(lifetime, ident.span()))
            }
            TokenTree::Group(group) => TokenTree::Group(regroup(&group, replace_lifetimes(group.stream(), lifetime))),
            token => {
                quoted = is_quote(&token);
                token
            }
        })
        .collect()
}

/// Every lifetime in `tokens`, as the two tokens that it consists of.
pub(crate) fn lifetimes(tokens: TokenStream) -> Vec<(String, TokenStream)> {
    let mut found = Vec::new();
    let mut quote = None;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if let Some(quote) = quote.take() {
                    found.push((ident.to_string(), [quote, TokenTree::Ident(ident)].into_iter().collect()));
                }
            }
            TokenTree::Group(group) => found.extend(lifetimes(group.stream())),
            token => quote = is_quote(&token).then_some(token),
        }
    }
    found
}

/// Whether the keyword or name `word` stands anywhere in `tokens`.
pub(crate) fn find_word(tokens: TokenStream, words: &[&str]) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) => words.iter().any(|word| ident == word).then_some(ident),
        TokenTree::Group(group) => find_word(group.stream(), words),
        _ => None,
    })
}

/// Whether a reference stands in `tokens` without a lifetime of its own.
pub(crate) fn has_elided_reference(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Punct(punct) if punct.as_char() == '&' => !tokens.peek().is_some_and(is_quote),
            TokenTree::Group(group) => has_elided_reference(group.stream()),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

/// Points at `span`, but stays generated code for the lints of the user's crate.
pub(crate) fn generated_at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// The places where `tokens` begin and end.
pub(crate) fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let tokens: Vec<TokenTree> = tokens.to_token_stream().into_iter().collect();
    let start = tokens.first().map_or_else(Span::call_site, first_span);
    (start, tokens.last().map_or(start, last_span))
}

/// Moves `tokens` to `start` and `end`, so that rustc reports what it says of all of them there.
pub(crate) fn between((start, end): (Span, Span), tokens: TokenStream) -> TokenStream {
    let moved = |(position, mut token): (usize, TokenTree)| {
        token.set_span(if position == 0 { start } else { end });
        token
    };
    tokens.into_iter().enumerate().map(moved).collect()
}

fn first_span(token: &TokenTree) -> Span {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            group.stream().into_iter().next().map_or_else(|| group.span(), |first| first_span(&first))
        }
        TokenTree::Group(group) => group.span_open(),
        token => token.span(),
    }
}

fn last_span(token: &TokenTree) -> Span {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            group.stream().into_iter().last().map_or_else(|| group.span(), |last| last_span(&last))
        }
        TokenTree::Group(group) => group.span_close(),
        token => token.span(),
    }
}

fn is_quote(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '\'' && punct.spacing() == Spacing::Joint)
}

fn regroup(group: &Group, stream: TokenStream) -> Group {
    let mut regrouped = Group::new(group.delimiter(), stream);
    regrouped.set_span(group.span());
    regrouped
}
