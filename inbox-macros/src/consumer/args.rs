use proc_macro2::{Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Lit, LitInt, LitStr, Path, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    token::Bracket,
};

use crate::support::{errors::Errors, key::Key, slot::Slot, tokens};

/// In the order in which a message lists them.
const KEYS: &[&str] = &["name", "topic", "topics", "event", "aliases", "isolation", "timeout", "group", "batch", "linger", "crate"];

/// The arguments as written: each given at most once and of the right kind, their values not yet judged.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) name: Slot<LitStr>,
    pub(crate) topic: Slot<LitStr>,
    pub(crate) topics: Slot<List>,
    pub(crate) event: Slot<LitStr>,
    pub(crate) aliases: Slot<List>,
    pub(crate) isolation: Slot<LitStr>,
    pub(crate) timeout: Slot<LitStr>,
    pub(crate) group: Slot<LitInt>,
    pub(crate) batch: Slot<LitInt>,
    pub(crate) linger: Slot<LitStr>,
    pub(crate) krate: Slot<Path>,
    /// A misspelt or positional argument was probably the name: do not ask for it again.
    pub(crate) name_attempted: bool,
}

/// `["a", "b"]`, with its brackets for messages about the whole.
pub(crate) struct List {
    pub(crate) brackets: Group,
    pub(crate) items: Vec<LitStr>,
}

/// One value, whatever it is. Whether it fits its key is asked later, so that a wrong one costs one error.
enum Value {
    Text(LitStr),
    List(Group),
    Other(TokenStream),
}

impl Args {
    pub(crate) fn parse(args: TokenStream, errors: &mut Errors) -> Self {
        let mut parsed = Self::default();
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                parsed.argument(input, errors);
                if input.parse::<Option<Token![,]>>()?.is_none() && !input.is_empty() {
                    errors.at(next_token(input), "expected `,`");
                    if !(input.peek(Ident::peek_any) && input.peek2(Token![=])) {
                        skip_argument(input);
                        input.parse::<Option<Token![,]>>()?;
                    }
                }
            }
            Ok(())
        };
        let result = parser.parse2(tokens::flatten(args));
        errors.keep(result);
        parsed
    }

    fn argument(&mut self, input: ParseStream<'_>, errors: &mut Errors) {
        if input.peek(Lit) {
            let literal = next_token(input);
            let shown = if input.peek(LitStr) { literal.to_string() } else { r#""billing""#.to_owned() };
            errors.at(literal, format_args!("arguments are named: write `name = {shown}`"));
            self.name_attempted = true;
            return skip_argument(input);
        }
        let Ok(key) = input.call(Ident::parse_any).map(Key::new) else {
            errors.at(next_token(input), "expected an argument, as in `name = \"billing\"`");
            self.name_attempted = true;
            return skip_argument(input);
        };
        if !KEYS.contains(&key.text().as_str()) {
            let (message, nearest) = key.unknown(KEYS);
            errors.at(&key, message);
            self.name_attempted |= nearest == Some("name");
            return skip_argument(input);
        }
        if !self.claim(&key, errors) {
            return skip_argument(input);
        }
        if input.parse::<Token![=]>().is_err() {
            errors.at(&key, format_args!("`{key}` needs a value: write `{key} = {}`", example(&key.text())));
            return skip_argument(input);
        }
        self.fill(key, value(input), errors);
    }

    fn claim(&mut self, key: &Key, errors: &mut Errors) -> bool {
        let (slot, other, both) = match key.text().as_str() {
            "name" => return self.name.claim(key, errors),
            "event" => return self.event.claim(key, errors),
            "aliases" => return self.aliases.claim(key, errors),
            "isolation" => return self.isolation.claim(key, errors),
            "timeout" => return self.timeout.claim(key, errors),
            "linger" => return self.linger.claim(key, errors),
            "crate" => return self.krate.claim(key, errors),
            "group" => (self.group.claim(key, errors), self.batch.is_given(), "`group` and `batch`"),
            "batch" => (self.batch.claim(key, errors), self.group.is_given(), "`group` and `batch`"),
            "topic" => (self.topic.claim(key, errors), self.topics.is_given(), "`topic` and `topics`"),
            _ => (self.topics.claim(key, errors), self.topic.is_given(), "`topic` and `topics`"),
        };
        if slot && other {
            errors.at(key, format_args!("{both} cannot both be given"));
        }
        slot && !other
    }

    fn fill(&mut self, key: Key, value: Value, errors: &mut Errors) {
        let slot = match key.text().as_str() {
            "topics" => return self.topics.fill(key.clone(), value.list(&key, errors)),
            "aliases" => return self.aliases.fill(key.clone(), value.list(&key, errors)),
            "group" => return self.group.fill(key.clone(), value.number(&key, errors)),
            "batch" => return self.batch.fill(key.clone(), value.number(&key, errors)),
            "crate" => return self.krate.fill(key, value.path(errors)),
            "name" => &mut self.name,
            "topic" => &mut self.topic,
            "event" => &mut self.event,
            "linger" => &mut self.linger,
            "isolation" => &mut self.isolation,
            _ => &mut self.timeout,
        };
        slot.fill(key.clone(), value.text(&key, errors));
    }
}

impl Value {
    fn text(self, key: &Key, errors: &mut Errors) -> Option<LitStr> {
        match self {
            Self::Text(text) if text.suffix().is_empty() => return Some(text),
            other => {
                let message = match key.text().as_str() {
                    "name" => "`name` must be a string literal: it is stored in every inbox row".to_owned(),
                    text => format!("`{text}` must be a string literal, as in `{text} = {}`", example(text)),
                };
                errors.at(other, message);
            }
        }
        None
    }

    fn list(self, key: &Key, errors: &mut Errors) -> Option<List> {
        let Self::List(brackets) = self else {
            errors.at(self, format_args!("`{key}` takes a list: write `{key} = {}`", example(&key.text())));
            return None;
        };
        let before = errors.count();
        let items = |input: ParseStream<'_>| {
            let mut items = Vec::new();
            while !input.is_empty() {
                items.extend(value(input).text(key, errors));
                if input.parse::<Option<Token![,]>>()?.is_none() && !input.is_empty() {
                    errors.at(next_token(input), "expected `,`");
                    skip_argument(input);
                    input.parse::<Option<Token![,]>>()?;
                }
            }
            Ok(items)
        };
        let items = items.parse2(brackets.stream()).unwrap_or_default();
        (errors.count() == before).then_some(List { brackets, items })
    }

    fn number(self, key: &Key, errors: &mut Errors) -> Option<LitInt> {
        let number = match &self {
            Self::Other(tokens) => syn::parse2::<LitInt>(tokens.clone()).ok().filter(|number| number.suffix().is_empty()),
            Self::Text(_) | Self::List(_) => None,
        };
        if number.is_none() {
            errors.at(self, format_args!("`{key}` must be a number, as in `{key} = {}`", example(&key.text())));
        }
        number
    }

    fn path(self, errors: &mut Errors) -> Option<Path> {
        if let Self::Other(tokens) = &self
            && let Ok(path) = Path::parse_mod_style.parse2(tokens.clone())
        {
            return Some(path);
        }
        let message = match self {
            Self::Text(_) => "`crate` takes a path, not a string: write `crate = ::my_crate::inbox`",
            _ => "`crate` takes a path: write `crate = ::my_crate::inbox`",
        };
        errors.at(self, message);
        None
    }
}

impl ToTokens for Value {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Text(text) => text.to_tokens(tokens),
            Self::List(group) => group.to_tokens(tokens),
            Self::Other(other) => other.to_tokens(tokens),
        }
    }
}

fn example(key: &str) -> &'static str {
    match key {
        "name" => r#""billing""#,
        "topic" => r#""orders""#,
        "topics" => r#"["orders"]"#,
        "event" => r#""OrderPlaced""#,
        "aliases" => r#"["old-name"]"#,
        "isolation" => r#""serializable""#,
        "timeout" => r#""30s""#,
        "group" => "100",
        "batch" => "500",
        "linger" => r#""20ms""#,
        _ => "::my_crate::inbox",
    }
}

fn value(input: ParseStream<'_>) -> Value {
    if input.peek(LitStr)
        && let Ok(text) = input.parse()
    {
        return Value::Text(text);
    }
    if input.peek(Bracket)
        && let Ok(TokenTree::Group(group)) = input.parse()
    {
        return Value::List(group);
    }
    if input.peek(Lit)
        && let Ok(literal) = input.parse::<Lit>()
    {
        return Value::Other(literal.into_token_stream());
    }
    let mut other = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        other.extend(input.parse::<TokenTree>());
    }
    if other.is_empty() {
        // Nothing to point at but the comma, or the attribute itself.
        other = next_token(input).into();
    }
    Value::Other(other)
}

fn next_token(input: ParseStream<'_>) -> TokenTree {
    input.fork().parse().unwrap_or_else(|_| {
        let mut end = Literal::string("");
        end.set_span(Span::call_site());
        end.into()
    })
}

fn skip_argument(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) && input.parse::<TokenTree>().is_ok() {}
}
