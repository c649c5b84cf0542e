use std::fmt;

use bytes::Bytes;

/// The headers of a message, in the order in which they came, repeats and nulls included.
///
/// Names are compared byte for byte, as Kafka does: `Id` and `id` are two headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Option<Bytes>)>);

impl Headers {
    /// No headers.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds one header at the end; the same name may be there already.
    pub fn push(&mut self, name: impl Into<String>, value: Option<impl Into<Bytes>>) {
        self.0.push((name.into(), value.map(Into::into)));
    }

    /// The headers as they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&Bytes>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    /// How many there are, repeats counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of the one header of that name; `None` when it is absent.
    ///
    /// The rule for repeats: equal values count as one, different values are an error, never "the first wins".
    ///
    /// # Errors
    ///
    /// [`HeaderError`] when the value is null, is not UTF-8, or when the name stands there twice with different values.
    pub fn text(&self, name: &str) -> Result<Option<&str>, HeaderError> {
        let mut values = self.0.iter().filter(|(n, _)| n == name).map(|(_, value)| value);
        let Some(first) = values.next() else { return Ok(None) };
        if values.any(|other| other != first) {
            return Err(HeaderError::new(name, HeaderProblem::Repeated));
        }
        let bytes = first.as_ref().ok_or_else(|| HeaderError::new(name, HeaderProblem::Null))?;
        let text = std::str::from_utf8(bytes);
        text.map(Some).map_err(|_| HeaderError::new(name, HeaderProblem::NotUtf8))
    }
}

impl<N: Into<String>, V: Into<Bytes>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(iter: I) -> Self {
        Self(iter.into_iter().map(|(name, value)| (name.into(), Some(value.into()))).collect())
    }
}

/// A header that is there and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderError {
    /// The header's name.
    pub name: String,
    /// What is wrong with it.
    pub problem: HeaderProblem,
}

impl HeaderError {
    fn new(name: &str, problem: HeaderProblem) -> Self {
        Self { name: name.to_owned(), problem }
    }
}

/// Why a header cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderProblem {
    /// The name is there, with a null value.
    Null,
    /// The value is not UTF-8.
    NotUtf8,
    /// The name is there more than once, with different values.
    Repeated,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.problem {
            HeaderProblem::Null => write!(f, "header `{name}` is null"),
            HeaderProblem::NotUtf8 => write!(f, "header `{name}` is not UTF-8"),
            HeaderProblem::Repeated => write!(f, "header `{name}` is given more than once, with different values"),
        }
    }
}

impl std::error::Error for HeaderError {}
