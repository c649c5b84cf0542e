use crate::support::{errors::Errors, key::Key};

/// The value of an argument that may be given once.
pub(crate) struct Slot<T> {
    given: bool,
    value: Option<(Key, T)>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { given: false, value: None }
    }
}

impl<T> Slot<T> {
    /// Takes note that `key` was written. A value may follow, unless it was wrong.
    pub(crate) fn claim(&mut self, key: &Key, errors: &mut Errors) -> bool {
        if self.given {
            errors.at(key, format_args!("`{key}` is specified more than once"));
            return false;
        }
        self.given = true;
        true
    }

    pub(crate) fn fill(&mut self, key: Key, value: Option<T>) {
        self.value = value.map(|value| (key, value));
    }

    /// Whether the argument was written, with a good value or a bad one.
    pub(crate) fn is_given(&self) -> bool {
        self.given
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().map(|(_, value)| value)
    }

    pub(crate) fn into_value(self) -> Option<T> {
        self.value.map(|(_, value)| value)
    }
}
