use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Token, parse::ParseStream};

use crate::support::tokens;

/// One attribute of the user's function. Which generated items it belongs on depends on what it says.
#[derive(Clone)]
pub(crate) struct Attribute {
    pub(crate) kind: Kind,
    /// `deprecated`, `tracing::instrument`, ..
    pub(crate) path: String,
    tokens: TokenStream,
    /// The same attribute, made harmless where it is repeated.
    repeated: TokenStream,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Text, links, aliases.
    Doc,
    /// `#[doc(hidden)]`: on the type as well.
    DocHidden,
    /// On every item, or something of the consumer would remain.
    Cfg,
    /// `deprecated`, `must_use`: for who calls the function, by either name.
    Callers,
    /// `allow`, `expect`: the generated items repeat the user's types, and so what is wrong with them.
    Quiet,
    /// Everything else is the function's own.
    Body,
}

impl Attribute {
    /// Reads the attributes at the start of an item. `cfg_attr` counts as what it would become, one by one.
    pub(crate) fn parse_all(input: ParseStream<'_>) -> syn::Result<Vec<Self>> {
        let mut attributes = Vec::new();
        while input.peek(Token![#]) {
            let pound: Token![#] = input.parse()?;
            let group: Group = input.parse()?;
            let content = tokens::flatten(group.stream());
            for (condition, content) in conditional(content) {
                attributes.push(Self::new(pound, &group, condition.as_ref(), content));
            }
        }
        Ok(attributes)
    }

    fn new(pound: Token![#], group: &Group, condition: Option<&TokenStream>, content: TokenStream) -> Self {
        let path = path(&content);
        let kind = match path.as_str() {
            "doc" if tokens::find_word(content.clone(), &["hidden"]).is_some() => Kind::DocHidden,
            "doc" => Kind::Doc,
            "cfg" => Kind::Cfg,
            "deprecated" | "must_use" => Kind::Callers,
            "allow" | "expect" => Kind::Quiet,
            _ => Kind::Body,
        };
        let write = |content: TokenStream| {
            let content = match condition {
                Some(condition) => quote!(cfg_attr(#condition, #content)),
                None => content,
            };
            let mut brackets = Group::new(Delimiter::Bracket, content);
            brackets.set_span(group.span());
            quote!(#pound #brackets)
        };
        // An `expect` that stands twice is unfulfilled once.
        let repeated = match path.as_str() {
            "expect" => rename_first(content.clone(), "allow"),
            _ => content.clone(),
        };
        Self { kind, path, tokens: write(content), repeated: write(repeated) }
    }

    /// Whether this is the attribute that is being expanded, a second time.
    pub(crate) fn is_consumer(&self) -> bool {
        self.path.rsplit("::").next() == Some("idempotent_consumer")
    }

    /// The text of a doc comment.
    pub(crate) fn doc_text(&self) -> Option<String> {
        (self.kind == Kind::Doc).then(|| self.tokens.to_string())
    }

    pub(crate) fn repeated(&self) -> &TokenStream {
        &self.repeated
    }
}

impl ToTokens for Attribute {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.tokens.to_tokens(tokens);
    }
}

/// Takes `cfg_attr(condition, a, b)` apart into `a` and `b`, each under its condition.
fn conditional(content: TokenStream) -> Vec<(Option<TokenStream>, TokenStream)> {
    if path(&content) != "cfg_attr" {
        return vec![(None, content)];
    }
    let Some(TokenTree::Group(arguments)) = content.clone().into_iter().nth(1) else {
        return vec![(None, content)];
    };
    let mut parts = vec![TokenStream::new()];
    for token in arguments.stream() {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => parts.push(TokenStream::new()),
            _ => parts.last_mut().into_iter().for_each(|part| part.extend([token.clone()])),
        }
    }
    let condition = parts.remove(0);
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts
        .flat_map(conditional)
        .map(|(inner, content)| match inner {
            Some(inner) => (Some(quote!(all(#condition, #inner))), content),
            None => (Some(condition.clone()), content),
        })
        .collect()
}

fn path(content: &TokenStream) -> String {
    let part = |token: &TokenTree| match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        TokenTree::Punct(punct) if punct.as_char() == ':' => Some(":".to_owned()),
        _ => None,
    };
    let path: String = content.clone().into_iter().map_while(|token| part(&token)).collect();
    path.trim_start_matches("::").to_owned()
}

fn rename_first(content: TokenStream, name: &str) -> TokenStream {
    let mut content = content.into_iter();
    let first = content.next().map(|first| TokenTree::Ident(Ident::new(name, first.span())));
    first.into_iter().chain(content).collect()
}
