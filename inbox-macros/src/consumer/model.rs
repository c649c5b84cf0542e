use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use syn::{LitStr, Type};

/// A consumer about which nothing is wrong. Writing it out cannot fail.
pub(crate) struct Model {
    pub(crate) facts: Facts,
    pub(crate) shape: Shape,
    /// `::inbox_runtime::__private`
    pub(crate) private: TokenStream,
}

/// What the attribute says.
pub(crate) struct Facts {
    pub(crate) name: LitStr,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) topics: Vec<LitStr>,
    pub(crate) event: Option<LitStr>,
    /// A variant of the runtime's `Isolation`.
    pub(crate) isolation: Option<Ident>,
    pub(crate) timeout: Option<Duration>,
    /// How many messages may share a transaction, with `group` or `batch`.
    pub(crate) group: Option<u16>,
    pub(crate) linger: Option<Duration>,
}

/// What the signature says.
pub(crate) struct Shape {
    /// What stands behind the `&mut` of the first parameter.
    pub(crate) transaction: Type,
    pub(crate) extractors: Vec<Extractor>,
    pub(crate) result: Type,
    /// Whether the body takes many messages at once.
    pub(crate) batch: bool,
}

/// A parameter after the transaction, under the name that it has in the safe entry.
pub(crate) struct Extractor {
    pub(crate) name: Ident,
    /// What is taken from one message.
    pub(crate) ty: Type,
    /// As written, where the body takes one for each message.
    pub(crate) many: Option<Type>,
}

/// What is known of a consumer with mistakes, to keep the rest of the crate compiling.
pub(crate) struct Handle {
    pub(crate) name: Option<LitStr>,
    pub(crate) shape: Option<Shape>,
    /// Nothing when the mistake is in the path itself.
    pub(crate) private: Option<TokenStream>,
}
