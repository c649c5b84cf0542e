//! What a macro of any kind needs: a list of errors, keys, literals, tokens.

pub(crate) mod duration;
pub(crate) mod errors;
pub(crate) mod key;
pub(crate) mod krate;
pub(crate) mod name;
pub(crate) mod slot;
pub(crate) mod tokens;
