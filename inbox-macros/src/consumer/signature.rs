use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident};
use syn::{
    AngleBracketedGenericArguments, FnArg, GenericArgument, GenericParam, Pat, PatType, PathArguments, PathSegment, ReturnType, Safety,
    Signature, Type, TypeReference, ext::IdentExt, parse_quote,
};

use crate::{
    consumer::model::{Extractor, Shape},
    support::{errors::Errors, tokens},
};

/// The rules of a signature, in the order in which it is written.
pub(crate) fn check(sig: &Signature, batch: bool, errors: &mut Errors) -> Option<Shape> {
    let rules = Rules { consumer: sig.ident.unraw().to_string(), batch };
    rules.qualifiers(sig, errors);
    rules.generics(sig, errors);
    let (transaction, extractors) = rules.parameters(sig, errors);
    let result = rules.result(sig, errors);
    Some(Shape { transaction: transaction?, extractors, result: result?, batch })
}

struct Rules {
    consumer: String,
    batch: bool,
}

impl Rules {
    fn qualifiers(&self, sig: &Signature, errors: &mut Errors) {
        let consumer = &self.consumer;
        let mut refuse = |keyword: &dyn ToTokens, word| {
            errors.at(keyword, format_args!("consumer `{consumer}` cannot be `{word}`"));
        };
        if let Some(keyword) = &sig.constness {
            refuse(keyword, "const");
        }
        if let Safety::Unsafe(keyword) = &sig.safety {
            refuse(keyword, "unsafe");
        }
        if let Some(abi) = &sig.abi {
            refuse(&abi.extern_token, "extern");
        }
        if sig.asyncness.is_none() {
            errors.at(sig.fn_token, format_args!("consumer `{consumer}` must be an `async fn`"));
        }
    }

    fn generics(&self, sig: &Signature, errors: &mut Errors) {
        // A lifetime is no obstacle: nothing is instantiated for it.
        if sig.generics.params.iter().all(|param| matches!(param, GenericParam::Lifetime(_))) {
            return;
        }
        let consumer = &self.consumer;
        errors.at(&sig.generics, format_args!("consumer `{consumer}` cannot be generic: it is registered once, under one name"));
    }

    fn parameters(&self, sig: &Signature, errors: &mut Errors) -> (Option<Type>, Vec<Extractor>) {
        let consumer = &self.consumer;
        let before = errors.count();
        let mut transaction = None;
        let mut transaction_is_missing = false;
        let mut extractors = Vec::new();
        for (position, input) in sig.inputs.iter().enumerate() {
            let attrs = match input {
                FnArg::Receiver(receiver) => &receiver.attrs,
                FnArg::Typed(typed) => &typed.attrs,
            };
            for attr in attrs {
                errors.at(attr, "attributes on a consumer's parameters are not supported; put `#[cfg]` on the function");
            }
            match input {
                FnArg::Receiver(receiver) => errors.at(
                    receiver,
                    format_args!("consumer `{consumer}` must be a free function, without `self`; take shared state with `State<_>`"),
                ),
                FnArg::Typed(typed) if transaction.is_none() && !transaction_is_missing => {
                    transaction = self.transaction(typed, errors);
                    transaction_is_missing = transaction.is_none();
                }
                // The transaction in a wrong place was reported as missing in the first.
                FnArg::Typed(typed) if transaction_is_missing && mutable_reference(&typed.ty).is_some() => {}
                FnArg::Typed(typed) => {
                    Self::extractor(typed, errors);
                    let name = entry_name(&typed.pat, position, &extractors);
                    extractors.push(self.one_or_many(name, &typed.ty, errors));
                }
            }
        }
        let plain = extractors.iter().all(|extractor| extractor.many.is_none());
        if self.batch && plain && errors.count() == before {
            errors.at(
                &sig.inputs,
                format_args!("consumer `{consumer}` takes no messages: with `batch` add a parameter like `orders: Vec<Json<Order>>`"),
            );
        }
        if sig.inputs.is_empty() {
            let mut parentheses = proc_macro2::Group::new(proc_macro2::Delimiter::Parenthesis, TokenStream::new());
            parentheses.set_span(sig.paren_token.span.join());
            errors.at(parentheses, format_args!("consumer `{consumer}` must take the transaction first: `tx: &mut Transaction<'_, DB>`"));
        }
        (transaction, extractors)
    }

    fn transaction(&self, typed: &PatType, errors: &mut Errors) -> Option<Type> {
        let consumer = &self.consumer;
        if has_impl_trait(&typed.ty, errors) {
            return None;
        }
        let Some(reference) = mutable_reference(&typed.ty) else {
            errors.at(
                &typed.ty,
                format_args!("the first parameter of consumer `{consumer}` must be the transaction, `&mut Transaction<'_, DB>`"),
            );
            return None;
        };
        let borrow = reference.lifetime.as_ref().map(|lifetime| lifetime.ident.to_string());
        for (name, lifetime) in tokens::lifetimes(reference.to_token_stream()) {
            if name == "static" {
                errors.at(
                    lifetime,
                    format_args!("the transaction of consumer `{consumer}` is only borrowed: write `'_` instead of `'static`"),
                );
            }
        }
        for (name, lifetime) in tokens::lifetimes(reference.elem.to_token_stream()) {
            if borrow.as_ref() == Some(&name) && name != "static" && name != "_" {
                errors.at(lifetime, format_args!("`'{name}` cannot be the borrow and the transaction's own lifetime: write `'_` here"));
            }
        }
        if let Some(path) = without_lifetime(&reference.elem) {
            errors.at(path, format_args!("the transaction's lifetime is missing: write `{}`", mended_lifetime(path)));
        }
        let mut transaction = typed.ty.clone();
        mend_transaction(&mut transaction);
        mutable_reference(&transaction).map(|reference| (*reference.elem).clone())
    }

    fn extractor(typed: &PatType, errors: &mut Errors) {
        if has_impl_trait(&typed.ty, errors) {
            return;
        }
        let tokens = typed.ty.to_token_stream();
        // The lifetimes of `fn(&T)` and `dyn for<'a> Fn(&'a T)` borrow nothing.
        if tokens::find_word(tokens.clone(), &["for", "fn", "Fn", "FnMut", "FnOnce"]).is_some() {
            return;
        }
        if tokens::has_elided_reference(tokens.clone()) {
            return errors.at(&typed.ty, "extractors are owned values: remove the `&`");
        }
        for (name, lifetime) in tokens::lifetimes(tokens) {
            if name != "static" {
                errors.at(lifetime, format_args!("extractors are owned values: `'{name}` can only be `'static` here"));
            }
        }
    }

    /// With `batch`, one for each message, or what all of them share.
    fn one_or_many(&self, name: Ident, ty: &Type, errors: &mut Errors) -> Extractor {
        let element = element(ty);
        match (&element, self.batch) {
            (Some(one), false) => {
                let one = shown(one);
                errors.at(ty, format_args!("a `Vec` of extractors is for many messages: add `batch = 500`, or take one, as in `{one}`"));
            }
            (None, true) if !is_named(ty, "State") => {
                let one = shown(ty);
                errors.at(ty, format_args!("with `batch` the body takes many messages: write `Vec<{one}>`, which has one for each"));
            }
            _ => {}
        }
        match element.filter(|_| self.batch) {
            Some(one) => Extractor { name, ty: one, many: Some(ty.clone()) },
            None => Extractor { name, ty: ty.clone(), many: None },
        }
    }

    fn result(&self, sig: &Signature, errors: &mut Errors) -> Option<Type> {
        let consumer = &self.consumer;
        let ReturnType::Type(_, ty) = &sig.output else {
            errors.at(sig, format_args!("consumer `{consumer}` must return `Result<T, E>`: an `Err` rolls the transaction back"));
            return None;
        };
        if tokens::find_word(ty.to_token_stream(), &["impl"]).is_some() {
            errors.at(ty, "`impl Trait` is not allowed in what a consumer returns");
            return None;
        }
        for (name, lifetime) in tokens::lifetimes(ty.to_token_stream()) {
            if name != "static" {
                errors.at(lifetime, format_args!("what a consumer returns is owned: `'{name}` can only be `'static` here"));
            }
        }
        Some((**ty).clone())
    }
}

fn has_impl_trait(ty: &Type, errors: &mut Errors) -> bool {
    let found = tokens::find_word(ty.to_token_stream(), &["impl"]).is_some();
    if found {
        errors.at(ty, "`impl Trait` is not allowed in a consumer's parameters");
    }
    found
}

/// The `T` of `Vec<T>`.
fn element(ty: &Type) -> Option<Type> {
    if !is_named(ty, "Vec") {
        return None;
    }
    let PathArguments::AngleBracketed(arguments) = &last_segment(ty)?.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(element)) => Some(element.clone()),
        _ => None,
    }
}

fn is_named(ty: &Type, name: &str) -> bool {
    last_segment(ty).is_some_and(|segment| segment.ident == name)
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// As one writes it.
fn shown(tokens: &impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    text.replace(" < ", "<").replace(" >", ">").replace(" ,", ",").replace(" :: ", "::")
}

/// The last segment of what is called a transaction and names no lifetime. An `async fn` may not leave it out.
fn without_lifetime(ty: &Type) -> Option<&PathSegment> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let missing = last.ident.to_string().ends_with("Transaction") && tokens::lifetimes(ty.to_token_stream()).is_empty();
    missing.then_some(last)
}

fn mended_lifetime(segment: &PathSegment) -> String {
    shown(&add_lifetime(segment))
}

fn add_lifetime(segment: &PathSegment) -> PathSegment {
    let mut segment = segment.clone();
    let mut arguments: AngleBracketedGenericArguments = parse_quote!(<'_>);
    if let PathArguments::AngleBracketed(given) = &segment.arguments {
        arguments.args.extend(given.args.clone());
    }
    segment.arguments = PathArguments::AngleBracketed(arguments);
    segment
}

/// Writes the lifetime that was found missing, so that rustc does not miss it again.
pub(crate) fn mend_transaction(ty: &mut Type) {
    if let Type::Reference(reference) = ty
        && let Some(mended) = without_lifetime(&reference.elem).map(add_lifetime)
        && let Type::Path(path) = &mut *reference.elem
        && let Some(last) = path.path.segments.last_mut()
    {
        *last = mended;
    }
}

fn mutable_reference(ty: &Type) -> Option<&TypeReference> {
    match ty {
        Type::Group(group) => mutable_reference(&group.elem),
        Type::Paren(paren) => mutable_reference(&paren.elem),
        Type::Reference(reference) if reference.mutability.is_some() => Some(reference),
        _ => None,
    }
}

/// The name that documentation shows: the one that the user gave, if the pattern has exactly one.
fn entry_name(pat: &Pat, position: usize, taken: &[Extractor]) -> Ident {
    let generated = tokens::generated_at(Span::call_site());
    let given = single_binding(pat).map(|ident| {
        let text = ident.unraw().to_string();
        let raw = ident.to_string().starts_with("r#");
        let text = text.trim_start_matches('_');
        if raw { Ident::new_raw(text, generated) } else { Ident::new(text, generated) }
    });
    given
        .filter(|name| name != "inbox" && name != "id" && taken.iter().all(|other| other.name != *name))
        .unwrap_or_else(|| format_ident!("arg{position}", span = generated))
}

fn single_binding(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(binding) if binding.subpat.is_none() => {
            let text = binding.ident.to_string();
            text.trim_start_matches('_').starts_with(|c: char| !c.is_ascii_digit()).then_some(&binding.ident)
        }
        Pat::TupleStruct(wrapper) if wrapper.elems.len() == 1 => single_binding(wrapper.elems.first()?),
        Pat::Paren(paren) => single_binding(&paren.pat),
        _ => None,
    }
}
