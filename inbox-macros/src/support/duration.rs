use std::time::Duration;

/// Reads a whole number and one unit, as in `30s`.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let seconds = match unit {
        "ms" => return Some(Duration::from_millis(number)),
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::{Duration, parse};

    #[test]
    fn reads_a_number_and_a_unit() {
        assert_eq!(parse("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse("30s"), Some(Duration::from_secs(30)));
        assert_eq!(parse("15m"), Some(Duration::from_secs(900)));
        assert_eq!(parse("12h"), Some(Duration::from_secs(43_200)));
        assert_eq!(parse("7d"), Some(Duration::from_secs(604_800)));
        assert_eq!(parse("0s"), Some(Duration::ZERO));
    }

    #[test]
    fn refuses_what_is_not_exactly_that() {
        for text in
            ["", "30", "s", "30 s", "30 sec", "-1s", "1.5h", "1h30m", "30S", " 30s", "99999999999999999999s", "9999999999999999999d"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
