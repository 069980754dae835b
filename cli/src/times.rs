//! Times on the command line and in the output.

use std::time::Duration;

/// Parses a time: seconds, as `flock -w` has them, or a number with a unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let rule = "a time is a number of seconds, or has a unit: 30, 0.5, 500ms, 30s, 5m, 1h30m";
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| rule.to_owned());
    }
    humantime::parse_duration(text).map_err(|_| rule.to_owned())
}

/// Formats a time for people, such as `8.2 s`.
pub(crate) fn shown(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        let millis = |text| parse(text).map(|time| time.as_millis());
        for (text, expected) in [
            ("30", 30_000),
            ("0.5", 500),
            ("0", 0),
            ("30s", 30_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
        ] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        for text in ["", "-1", "soon", "5 apples", "1e30", "nan", "inf"] {
            assert!(parse(text).unwrap_err().contains("30s"), "{text}");
        }
    }
}
