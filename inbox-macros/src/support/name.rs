/// What the inbox stores in `consumer_name`.
const MAX_BYTES: usize = 128;

/// Why `value` cannot be stored as a consumer name, in words for the argument `key`.
pub(crate) fn refuse(key: &str, value: &str) -> Option<String> {
    if value.is_empty() {
        return Some(format!("`{key}` cannot be empty"));
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    if let Some(found) = value.chars().find(|c| !allowed(*c)) {
        let found = found.escape_debug();
        return Some(format!("`{key}` may hold only `a-z`, `0-9`, `.`, `_` and `-`; found `{found}`"));
    }
    let bytes = value.len();
    (bytes > MAX_BYTES).then(|| format!("`{key}` is {bytes} bytes long; the inbox stores at most {MAX_BYTES}"))
}
