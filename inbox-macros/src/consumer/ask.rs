//! Questions to the compiler about the user's types.
//!
//! Each is asked as `<Type as Trait>::question`, at the place of the type. Whatever is asked of a wrong type, the error is then the same
//! text at the same place, which rustc prints once; the bound of a generic function would add a note of its own each time.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};

use crate::{
    consumer::model::Shape,
    support::tokens::{self, replace_lifetimes},
};

pub(crate) fn ask_transaction(shape: &Shape, private: &TokenStream, database: &TokenStream, question: &TokenStream) -> TokenStream {
    let transaction = replace_lifetimes(shape.transaction.to_token_stream(), "_");
    ask(&transaction, &quote!(#private::TransactionParameter<'_, #database>), question)
}

pub(crate) fn ask_result(shape: &Shape, private: &TokenStream, question: &TokenStream) -> TokenStream {
    let expected = if shape.batch { quote!(#private::BatchResult) } else { quote!(#private::HandlerResult) };
    ask(&shape.result, &expected, question)
}

/// What a consumer of batches returns for one message.
pub(crate) fn ask_one(shape: &Shape, private: &TokenStream) -> TokenStream {
    ask(&shape.result, &quote!(#private::BatchResult), &quote!(One))
}

fn ask(ty: &impl ToTokens, bound: &TokenStream, question: &TokenStream) -> TokenStream {
    let (start, end) = tokens::ends(ty);
    let question = tokens::between((end, end), quote!(as #bound>::#question));
    quote_spanned!(start=> <#ty #question)
}
