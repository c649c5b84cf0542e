use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{LitStr, Signature, Visibility, ext::IdentExt, parse_quote};

use crate::{
    consumer::{
        attrs::Kind,
        docs,
        item::Function,
        model::{Extractor, Facts, Model, Shape},
    },
    support::tokens::{self, generated_at, replace_lifetimes},
};

/// The least that the compiler cannot infer: the entry, a shim that boxes the body's future, and one static.
pub(crate) fn expand(model: &Model, function: &Function) -> TokenStream {
    let Model { facts, shape, private } = model;
    let name = &function.sig.ident;
    let fixed = generated_vis(&function.vis);
    let consumer = format_ident!("__consumer_{}", name.unraw(), span = generated_at(name.span()));
    let body = body(function, &function.sig);
    let run = run(function, shape, private);
    let registration = quote! {
        /// The registration, for a registry that is filled by hand.
        #fixed const fn registration() -> #private::Registration {
            #private::Registration::new(&#consumer)
        }
    };
    let handle = handle(function, &facts.name, &quote!(#body #registration #run));
    let entry = entry(function, shape, private, &consumer);
    let register = register(function, model, &consumer);
    quote!(#handle #entry #register)
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
    let (names, types) = (names(extractors), types(extractors));
    let name = &function.sig.ident;
    let at_name = generated_at(name.span());
    let tx = Ident::new("__tx", at_name);
    let boxed = quote_spanned!(at_name=> #private::Box::pin(Self::body(#tx, #(#names),*)));
    quote! {
        #quiet
        fn __run<'__tx>(
            #tx: &'__tx mut #transaction, #(#names: #types),*
        ) -> #private::BoxFuture<'__tx, #result> {
            #boxed
        }
    }
}

/// The function that everybody may call.
fn entry(function: &Function, shape: &Shape, private: &TokenStream, consumer: &Ident) -> TokenStream {
    let result = &shape.result;
    let names = names(&shape.extractors);
    let name = &function.sig.ident;
    let signature = entry_signature(function, shape, private);
    quote! {
        #signature {
            #private::direct::<_, #result, _>(inbox, &#consumer, id, move |__tx| #name::__run(__tx, #(#names),*)).await
        }
    }
}

pub(crate) fn entry_signature(function: &Function, shape: &Shape, private: &TokenStream) -> TokenStream {
    let database = ask_transaction(shape, private, quote!(Database));
    let (value, error) = (ask_result(shape, private, quote!(Value)), ask_result(shape, private, quote!(Error)));
    let outcome = tokens::between(
        tokens::ends(&shape.result),
        quote! {
            #private::Result<#private::Outcome<#value>, #private::ProcessError<#error>>
        },
    );
    let (names, types) = (names(&shape.extractors), types(&shape.extractors));
    let name = &function.sig.ident;
    let vis = generated_vis(&function.vis);
    let cfg = repeated(function, &[Kind::Cfg]);
    let docs = repeated(function, &[Kind::Doc, Kind::DocHidden]);
    let more_docs = docs::of_entry(function);
    let callers = repeated(function, &[Kind::Callers]);
    let quiet = quiet(function);
    // Generics of its own keep rustc from suggesting one for a misspelt type, which would make two errors of one.
    quote! {
        #cfg
        #docs
        #more_docs
        #callers
        #quiet
        #[allow(dead_code, clippy::missing_errors_doc)]
        #vis async fn #name<__Inbox>(inbox: &__Inbox, id: #private::MessageId, #(#names: #types),*) -> #outcome
        where
            __Inbox: #private::AsInbox<#database>,
    }
}

/// One static for the consumer, and its submission at link time.
fn register(function: &Function, model: &Model, consumer: &Ident) -> TokenStream {
    let Model { facts, shape, private } = model;
    let name = &function.sig.ident;
    let cfg = repeated(function, &[Kind::Cfg]);
    let quiet = quiet(function);
    let database = ask_transaction(shape, private, quote!(Database));
    let (types, result) = (types(&shape.extractors), &shape.result);
    let facts = write_facts(facts, private, name);
    quote! {
        #cfg
        #quiet
        #[allow(non_upper_case_globals)]
        static #consumer: #private::Consumer<#database> = #private::Consumer::new(
            #facts,
            |__tx, __cx| #private::Box::pin(async move {
                #private::conclude::<#result>(#name::__run(__tx, #(#private::extract::<#types>(__cx)?),*).await)
            }),
            |__requirements| {
                #(#private::require::<#types>(__requirements);)*
            },
        );

        #cfg
        #private::inventory::submit! { #name::registration() }
    }
}

fn write_facts(facts: &Facts, private: &TokenStream, at: &Ident) -> TokenStream {
    let Facts { aliases, topics, event, isolation, timeout, .. } = facts;
    let option = |value: Option<TokenStream>| match value {
        Some(value) => quote!(#private::Some(#value)),
        None => quote!(#private::None),
    };
    let event = option(event.as_ref().map(ToTokens::to_token_stream));
    let isolation = option(isolation.as_ref().map(|level| quote!(#private::Isolation::#level)));
    let timeout = option(timeout.map(|timeout| match u64::try_from(timeout.as_millis()) {
        Ok(millis) if millis % 1000 != 0 => quote!(#private::Duration::from_millis(#millis)),
        _ => {
            let seconds = timeout.as_secs();
            quote!(#private::Duration::from_secs(#seconds))
        }
    }));
    let location = quote_spanned! {generated_at(at.span())=>
        file: ::core::file!(),
        line: ::core::line!(),
        module: ::core::module_path!(),
    };
    quote! {
        #private::Facts {
            name: #at::NAME,
            aliases: &[#(#aliases),*],
            topics: &[#(#topics),*],
            event: #event,
            isolation: #isolation,
            timeout: #timeout,
            location: #private::Location { #location },
        }
    }
}

/// Asks the runtime about the type of the transaction. Whatever is asked of a wrong type, rustc's error is the same text at the same
/// place, and so is printed once; a call of a generic function would add a note of its own each time.
fn ask_transaction(shape: &Shape, private: &TokenStream, question: TokenStream) -> TokenStream {
    let (start, end) = tokens::ends(&shape.transaction);
    let transaction = replace_lifetimes(shape.transaction.to_token_stream(), "static");
    let question = tokens::between((end, end), quote!(as #private::TransactionParameter>::#question));
    quote_spanned!(start=> <#transaction #question)
}

/// Asks the runtime about the type of the result, likewise.
fn ask_result(shape: &Shape, private: &TokenStream, question: TokenStream) -> TokenStream {
    let (start, end) = tokens::ends(&shape.result);
    let result = &shape.result;
    let question = tokens::between((end, end), quote!(as #private::HandlerResult>::#question));
    quote_spanned!(start=> <#result #question)
}

fn names(extractors: &[Extractor]) -> Vec<&Ident> {
    extractors.iter().map(|extractor| &extractor.name).collect()
}

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
