use proc_macro2::{Group, TokenStream};
use quote::{ToTokens, quote};
use syn::{FnArg, GenericParam, LitStr, ReturnType, ext::IdentExt};

use crate::{
    consumer::{expand, item::Function, model::Handle, signature},
    support::tokens,
};

/// The user's function and whatever else uses may name, so that the mistake stays the only error.
pub(crate) fn recover(handle: &Handle, mut function: Function) -> TokenStream {
    function.attrs.retain(|attr| !attr.is_consumer());
    if function.sig.receiver().is_some() {
        // It stands in an `impl`, where no type may be declared.
        return as_written(&function);
    }
    let fallback = LitStr::new(&function.sig.ident.unraw().to_string(), function.sig.ident.span());
    let name = handle.name.as_ref().unwrap_or(&fallback);
    let body = body(&mut function);
    let registration = handle.private.as_ref().map(|private| {
        let vis = &function.vis;
        quote! {
            #[allow(dead_code)]
            #vis fn registration() -> #private::Registration {
                ::core::unimplemented!()
            }
        }
    });
    let type_of_same_name = expand::handle(&function, name, &quote!(#body #registration));
    let entry = entry(handle, &function);
    quote!(#type_of_same_name #entry)
}

/// The function with what was already reported mended, so that rustc does not report it again.
fn body(function: &mut Function) -> TokenStream {
    let sig = &mut function.sig;
    sig.constness = None;
    sig.abi = None;
    sig.asyncness.get_or_insert_with(Default::default);
    for input in &mut sig.inputs {
        if let FnArg::Typed(typed) = input {
            typed.attrs.clear();
            signature::mend_transaction(&mut typed.ty);
        }
    }
    if matches!(sig.output, ReturnType::Default) {
        // Its `Ok(())` would be a second error.
        function.body = Group::new(function.body.delimiter(), quote!(::core::unimplemented!()));
    }
    let body = expand::body(function, &function.sig);
    quote!(#[allow(dead_code, unused_variables)] #body)
}

fn entry(handle: &Handle, function: &Function) -> Option<TokenStream> {
    let (shape, private) = (handle.shape.as_ref()?, handle.private.as_ref()?);
    let plain = function.sig.generics.params.iter().all(|param| matches!(param, GenericParam::Lifetime(_)));
    let owned = shape.extractors.iter().all(|extractor| {
        let ty = extractor.ty.to_token_stream();
        tokens::find_word(ty.clone(), &["impl"]).is_none() && tokens::lifetimes(ty).iter().all(|(name, _)| name == "static")
    });
    if !plain || !owned {
        return None;
    }
    let signature = expand::entry_signature(function, shape, private);
    Some(quote!(#[allow(unused_variables)] #signature { ::core::unimplemented!() }))
}

fn as_written(function: &Function) -> TokenStream {
    let Function { attrs, vis, sig, body } = function;
    quote!(#(#attrs)* #vis #sig #body)
}
