use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{LitStr, Signature, Visibility, parse_quote};

use crate::{
    consumer::{
        ask::{ask_one, ask_result, ask_transaction},
        attrs::Kind,
        docs, facts,
        item::Function,
        model::{Extractor, Model, Shape},
    },
    support::tokens::{self, generated_at, replace_lifetimes},
};

/// The least that the compiler cannot infer: the entry, a shim that boxes the body's future, and one static.
pub(crate) fn expand(model: &Model, function: &Function) -> TokenStream {
    let Model { facts, shape, private } = model;
    let name = &function.sig.ident;
    let body = body(function, &function.sig);
    let run = run(function, shape, private);
    let registration = registration(function, model);
    let handle = handle(function, &facts.name, &quote!(#body #registration #run));
    let entry = entry(function, shape, private);
    let cfg = repeated(function, &[Kind::Cfg]);
    quote! {
        #handle
        #entry
        #cfg
        #private::inventory::submit! { #name::registration() }
    }
}

/// The type of the same name. Its braces keep it out of the namespace of the function.
pub(crate) fn handle(function: &Function, consumer: &LitStr, items: &TokenStream) -> TokenStream {
    let name = &function.sig.ident;
    let cfg = repeated(function, &[Kind::Cfg]);
    let hidden = repeated(function, &[Kind::DocHidden]);
    let vis = generated_vis(&function.vis);
    let docs = docs::of_type(&consumer.value());
    quote! {
        #docs
        #cfg
        #hidden
        #[allow(missing_debug_implementations, non_camel_case_types)]
        #vis struct #name {}

        #cfg
        impl #name {
            /// The durable name, as it is stored in the inbox.
            #vis const NAME: &'static ::core::primitive::str = #consumer;
            #items
        }
    }
}

/// The user's function, under the name that says what it skips.
pub(crate) fn body(function: &Function, sig: &Signature) -> TokenStream {
    let attrs = function.attrs.iter().filter(|attr| attr.kind != Kind::Cfg && !attr.is_consumer());
    let mut sig = sig.clone();
    sig.ident = Ident::new("body", sig.ident.span());
    let (vis, block) = (&function.vis, &function.body);
    let docs = docs::of_body();
    quote! {
        #docs
        #(#attrs)*
        #[allow(clippy::missing_errors_doc, clippy::unused_async)]
        #vis #sig #block
    }
}

/// The one place where the future of the body is boxed, so that one that is not `Send` is reported once.
fn run(function: &Function, shape: &Shape, private: &TokenStream) -> TokenStream {
    let quiet = quiet(function);
    let transaction = replace_lifetimes(shape.transaction.to_token_stream(), "_");
    let Shape { extractors, result, .. } = shape;
    let (names, types) = (names(extractors), as_written(extractors));
    let at_name = generated_at(function.sig.ident.span());
    let tx = Ident::new("__tx", at_name);
    let boxed = tokens::between((at_name, at_name), quote!(#private::Box::pin(Self::body(#tx, #(#names),*))));
    quote! {
        #quiet
        fn __run<'__tx>(#tx: &'__tx mut #transaction, #(#names: #types),*) -> #private::BoxFuture<'__tx, #result> {
            #boxed
        }
    }
}

/// The consumer itself, as a static that no other item can name.
fn registration(function: &Function, model: &Model) -> TokenStream {
    let Model { facts, shape, private } = model;
    let name = &function.sig.ident;
    let vis = generated_vis(&function.vis);
    let quiet = quiet(function);
    let p = quote!(__p);
    let facts = facts::write(facts, &p, name);
    let proof = ask_result(shape, &p, &quote!(proof()));
    let at = ask_transaction(shape, &p, &quote!(_), &quote!(at(__tx)));
    let types = types(&shape.extractors);
    let requires = match types.as_slice() {
        [ty] => quote!(__p::require::<#ty>(__requirements)),
        types => quote!({ #(__p::require::<#types>(__requirements);)* }),
    };
    let take = shape.extractors.iter().map(|Extractor { ty, many, .. }| match (shape.batch, many) {
        (false, _) => quote!(__p::extract::<#ty>(__cx)),
        (true, Some(_)) => quote!(__p::extract_each::<#ty>(__cx)),
        (true, None) => quote!(__p::extract_shared::<#ty>(__cx)),
    });
    let (new, end) = match shape.batch {
        false => (quote!(new), quote!(__p::conclude(#proof, __result))),
        true => (quote!(batch), quote!(__p::conclude_each(#proof, __result, __cx))),
    };
    let requirements = if types.is_empty() { quote!(_) } else { quote!(__requirements) };
    let context = if types.is_empty() { quote!(_) } else { quote!(__cx) };
    quote! {
        /// The registration, for a registry that is filled by hand.
        #quiet
        #[allow(unused_qualifications)]
        #vis const fn registration() -> #private::Registration {
            use #private as __p;
            static CONSUMER: __p::Registration = __p::Registration(&__p::Consumer::#new(
                #facts,
                |__tx, #context| __p::Box::pin(async move {
                    let __tx = #at;
                    let __result = #name::__run(__tx, #(#take?),*).await;
                    #end
                }),
                |#requirements| #requires,
            ));
            CONSUMER
        }
    }
}

/// The function that everybody may call.
fn entry(function: &Function, shape: &Shape, private: &TokenStream) -> TokenStream {
    let p = quote!(__p);
    let proof = ask_result(shape, &p, &quote!(proof()));
    let at = ask_transaction(shape, &p, &quote!(__DB), &quote!(at(__tx)));
    let values = shape.extractors.iter().map(|Extractor { name, many, .. }| match many {
        Some(_) => quote!(__p::Vec::from([#name])),
        None => quote!(#name),
    });
    let name = &function.sig.ident;
    let signature = entry_signature(function, shape, private);
    let direct = if shape.batch { quote!(direct_of_batch) } else { quote!(direct) };
    let call = quote!(__p::#direct(#proof, inbox, #name::registration(), id, move |__tx| #name::__run(#at, #(#values),*)));
    let call = tokens::between(tokens::ends(&shape.result), call);
    quote!(#signature { use #private as __p; #call })
}

/// The database is a parameter, with a bound that one database meets: a transaction of a wrong type is no error here.
pub(crate) fn entry_signature(function: &Function, shape: &Shape, private: &TokenStream) -> TokenStream {
    // For rustc this type stands where the user's result stands.
    let (start, end) = tokens::ends(&shape.result);
    let called = tokens::between((start, start), quote!(#private::Called<));
    let result = match shape.batch {
        true => ask_one(shape, private),
        false => shape.result.to_token_stream(),
    };
    let called = quote_spanned!(end=> #called #result >);
    let (names, types) = (names(&shape.extractors), types(&shape.extractors));
    let transaction = replace_lifetimes(shape.transaction.to_token_stream(), "__c");
    let name = &function.sig.ident;
    let vis = generated_vis(&function.vis);
    let cfg = repeated(function, &[Kind::Cfg]);
    let docs = repeated(function, &[Kind::Doc, Kind::DocHidden]);
    let more_docs = docs::of_entry(function);
    let callers = repeated(function, &[Kind::Callers]);
    let quiet = quiet(function);
    quote! {
        #cfg
        #docs
        #more_docs
        #callers
        #quiet
        #[allow(dead_code, unused_qualifications, clippy::missing_errors_doc)]
        #vis fn #name<__DB: #private::InboxDatabase, __Inbox: #private::AsInbox<__DB>>(
            inbox: &__Inbox, id: #private::MessageId, #(#names: #types),*
        ) -> #called
        where
            for<'__c> #transaction: #private::TransactionParameter<'__c, __DB>,
    }
}

fn names(extractors: &[Extractor]) -> Vec<&Ident> {
    extractors.iter().map(|extractor| &extractor.name).collect()
}

fn as_written(extractors: &[Extractor]) -> Vec<&syn::Type> {
    extractors.iter().map(|extractor| extractor.many.as_ref().unwrap_or(&extractor.ty)).collect()
}

/// What is taken from one message.
fn types(extractors: &[Extractor]) -> Vec<&syn::Type> {
    extractors.iter().map(|extractor| &extractor.ty).collect()
}

fn repeated(function: &Function, kinds: &[Kind]) -> TokenStream {
    function.attrs.iter().filter(|attr| kinds.contains(&attr.kind)).map(|attr| attr.repeated().clone()).collect()
}

/// What the user silenced, for an item that repeats the user's types or calls the user's function.
fn quiet(function: &Function) -> TokenStream {
    let mut quiet = repeated(function, &[Kind::Quiet]);
    if function.attrs.iter().any(|attr| attr.kind == Kind::Callers && attr.path == "deprecated") {
        quiet.extend(quote!(#[allow(deprecated)]));
    }
    quiet
}

/// The user's visibility. A lint about a `pub` that nobody can reach is said once, where the user wrote it.
fn generated_vis(vis: &Visibility) -> Visibility {
    match vis {
        Visibility::Public(_) => parse_quote!(pub),
        other => other.clone(),
    }
}
