//! Alert rules at [`FASTER`] times the speed: an alert that waits for five minutes fires after five
//! seconds.
//!
//! Divided are `for`, `keep_firing_for` and `interval`, and in expressions ranges, resolutions and
//! offsets. Numbers of seconds that an expression compares with are not divided.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Duration;

/// The factor on the speed.
pub const FASTER: u32 = 60;
/// Units of Prometheus' durations, in milliseconds; `ms` before `m`.
const UNITS: [(&str, u64); 7] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
    ("y", 31_536_000_000),
];

/// The rules of a file, with all times divided by [`FASTER`]; as JSON, which is also YAML.
///
/// # Errors
/// It has no rules, or an invalid duration.
pub fn faster(yaml: &str) -> Result<String> {
    let mut file: Value = serde_saphyr::from_str(yaml)?;
    let mut rules = 0;
    for group in file["groups"].as_array_mut().context("no groups")? {
        divide(group, "interval")?;
        for rule in group["rules"].as_array_mut().context("a group without rules")? {
            divide(rule, "for")?;
            divide(rule, "keep_firing_for")?;
            let expr = rule["expr"].as_str().context("a rule without expr")?;
            rule["expr"] = Value::from(in_expression(expr));
            rules += 1;
        }
    }
    ensure!(rules > 0, "no rules");
    Ok(file.to_string())
}

/// Divides the duration in a field, if the field exists.
fn divide(fields: &mut Value, name: &str) -> Result<()> {
    let Some(value) = fields.get_mut(name) else { return Ok(()) };
    let text = value.as_str().with_context(|| format!("{name}: {value} is no duration"))?;
    *value = Value::from(divided(text).with_context(|| format!("{name}: {text} is no duration"))?);
    Ok(())
}

/// Divides the durations of an expression: in brackets, and after `offset`.
fn in_expression(expr: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(expr.len()), expr);
    let (mut brackets, mut after_offset) = (0_usize, false);
    while let Some(first) = rest.chars().next() {
        let end = match first {
            // A string, to its end.
            '"' | '\'' | '`' => string_end(rest, first),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        match first {
            '[' => brackets += 1,
            ']' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        let duration = if brackets > 0 || after_offset { divided(token) } else { None };
        out.push_str(duration.as_deref().unwrap_or(token));
        after_offset = token == "offset" || after_offset && (first.is_whitespace() || first == '-');
        rest = after;
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// The end of a string that begins with this quote; backquotes have no escapes.
fn string_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// A duration in Prometheus' notation.
pub fn duration(text: &str) -> Option<Duration> {
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = rest.split_at(digits);
        let (name, factor) = UNITS.iter().find(|(name, _)| unit.starts_with(name))?;
        sum += number.parse::<u64>().ok()? * factor;
        rest = unit.strip_prefix(name)?;
    }
    (!text.is_empty()).then_some(Duration::from_millis(sum))
}

/// A sixtieth of a duration, as text.
fn divided(text: &str) -> Option<String> {
    duration(text).map(|duration| format!("{}ms", (duration / FASTER).as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn divides_only_durations_in_brackets_and_after_offset() {
        for (expr, expected) in [
            ("rate(a[5m])", "rate(a[5000ms])"),
            ("max_over_time(a_5m{b=\"[5m]\"}[1h30m:1m])", "max_over_time(a_5m{b=\"[5m]\"}[90000ms:1000ms])"),
            ("a offset 1m > 5 and b offset -2m", "a offset 1000ms > 5 and b offset -2000ms"),
            (r#"a{b='\'[1m]', c=`[1m]\`} > 60"#, r#"a{b='\'[1m]', c=`[1m]\`} > 60"#),
            ("sum by (service) (a)\n  / b[1d]", "sum by (service) (a)\n  / b[1440000ms]"),
        ] {
            assert_eq!(in_expression(expr), expected);
        }
    }

    #[test]
    fn reads_durations_and_refuses_invalid_ones() {
        assert_eq!(
            ["5m", "1h30m", "250ms"].map(|text| duration(text).map(|it| it.as_millis())),
            [300_000, 5_400_000, 250].map(Some)
        );
        assert_eq!(["", "5", "m", "5 m", "5x", "m5"].map(duration), [None; 6]);
        let error = faster("groups: [{rules: [{alert: A, expr: a, for: soon}]}]").unwrap_err();
        assert_eq!(error.to_string(), "for: soon is no duration");
    }

    /// promtool is in Debian's package `prometheus`; `make test` leaves this test out without it.
    #[test]
    fn promtool_accepts_the_shipped_rules_with_shortened_times() {
        let rules = faster(&std::fs::read_to_string(shipped()).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.json");
        std::fs::write(&file, &rules).unwrap();
        let output = Command::new("promtool").args(["check", "rules"]).arg(&file).output();
        let output = output.expect("no promtool: sudo apt-get install -y --no-install-recommends prometheus");
        assert!(output.status.success(), "{}: {output:?}", rules);
        let shipped = std::fs::read_to_string(self::shipped()).unwrap();
        let waits = |text: &str| text.matches("for:").count() + text.matches("\"for\":").count();
        assert_eq!(waits(&rules), shipped.lines().filter(|line| line.trim().starts_with("for:")).count());
        assert!(!rules.contains("[5m]") && rules.contains("[5000ms]"), "{}", rules);
    }

    fn shipped() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../control-plane/dashboards/alerts.yaml")
    }
}
