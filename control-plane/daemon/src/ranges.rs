//! Which names and numbers operators may write and programs may send.

use bloc_policy::config::ConfigError;
use std::fmt::Display;

// The longest texts, in bytes. An application's name with a suffix becomes an object's name.
const MOST_LABEL: usize = 63;
const MOST_NAME: usize = 253;
const MOST_APP: usize = 240;
const NAME: &str = "a to z, 0 to 9, '-' and '.', with a letter or digit at each end and beside each dot";

/// The error for a refused value at `path`. A path from `format_args!` is formatted only if it is
/// needed.
pub fn refused(path: impl Display, value: impl ToString, allowed: impl Into<String>) -> ConfigError {
    ConfigError::out_of_range(path.to_string(), value.to_string(), allowed)
}

/// Checks that a value is from `least` to `most`.
pub fn within<T: PartialOrd + Display>(path: impl Display, value: T, least: T, most: T) -> Result<T, ConfigError> {
    if (&least..=&most).contains(&&value) { Ok(value) } else { Err(refused(path, value, format!("{least} to {most}"))) }
}

/// Checks that a list has at most `most` entries.
pub fn count(path: impl Display, count: usize, most: usize) -> Result<(), ConfigError> {
    let refused = || refused(path, format!("a list of {count} entries"), format!("at most {most}"));
    if count <= most { Ok(()) } else { Err(refused()) }
}

/// Whether this is an RFC 1123 label, which Kubernetes requires of namespaces, containers and
/// Services.
pub fn is_label(text: &str) -> bool {
    text.len() <= MOST_LABEL && is_part(text)
}

/// Whether this may name most Kubernetes objects: parts like labels, possibly longer, separated by
/// dots.
pub fn is_name(text: &str) -> bool {
    text.len() <= MOST_NAME && text.split('.').all(is_part)
}

/// Whether this is `namespace/name` of an application.
pub fn is_app(text: &str) -> bool {
    let good = |(namespace, name): (&str, &str)| is_label(namespace) && is_name(name);
    text.len() <= MOST_APP && text.split_once('/').is_some_and(good)
}

fn is_part(text: &str) -> bool {
    let within = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(within) && !text.starts_with('-') && !text.ends_with('-')
}

/// Checks a [label](is_label).
pub fn label(path: impl Display, text: &str) -> Result<(), ConfigError> {
    let allowed = "1 to 63 of a to z, 0 to 9 and '-', with a letter or digit at each end; no dots";
    if is_label(text) { Ok(()) } else { Err(refused(path, format!("{text:?}"), allowed)) }
}

/// Checks a [name](is_name).
pub fn name(path: impl Display, text: &str) -> Result<(), ConfigError> {
    let allowed = || format!("1 to {MOST_NAME} of {NAME}");
    if is_name(text) { Ok(()) } else { Err(refused(path, format!("{text:?}"), allowed())) }
}

/// Checks the [name of an application](is_app).
pub fn app(path: impl Display, text: &str) -> Result<(), ConfigError> {
    let allowed =
        || format!("namespace/name, {MOST_APP} bytes at most: {NAME}; no dots and 63 bytes at most in the namespace");
    if is_app(text) { Ok(()) } else { Err(refused(path, format!("{text:?}"), allowed())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_names_are_those_of_kubernetes() {
        let (label, name) = ("a-9".repeat(21), "a".repeat(253));
        for good in ["a", "0", "a-b", &label] {
            assert!(is_label(good) && is_name(good), "{good}");
        }
        for good in ["a.b-9.c", &name] {
            assert!(!is_label(good) && is_name(good), "{good}");
        }
        for bad in
            ["", "-", "-a", "a-", "A", "a_b", "a b", "a/b", "ä", ".", "a.", ".a", "a..b", "a.-b", &"a".repeat(254)]
        {
            assert!(!is_label(bad) && !is_name(bad), "{bad}");
        }
        let app = format!("{label}/{}", "a".repeat(176));
        for good in ["a/b", "a/a.b-9.c", &app] {
            assert!(is_app(good), "{good}");
        }
        let (label, name) = (format!("{}/a", "a".repeat(64)), format!("a/{}", "a".repeat(239)));
        for bad in ["a", "/", "a/", "/a", "a.b/c", "a/b/c", "a/B", "a/b-", &label, &name] {
            assert!(!is_app(bad), "{bad}");
        }
    }

    #[test]
    fn a_refusal_names_path_value_and_what_is_allowed() {
        let allowed = "1 to 63 of a to z, 0 to 9 and '-', with a letter or digit at each end; no dots";
        let text = |checked: Result<(), ConfigError>| checked.unwrap_err().to_string();
        assert_eq!(text(label("pod", "a.b")), format!("pod: \"a.b\" is not allowed; allowed: {allowed}"));
        let allowed = "a to z, 0 to 9, '-' and '.', with a letter or digit at each end and beside each dot";
        assert_eq!(text(name("pod", "")), format!("pod: \"\" is not allowed; allowed: 1 to 253 of {allowed}"));
        let error = text(app("app", "checkout"));
        assert!(error.starts_with("app: \"checkout\" is not allowed; allowed: namespace/name, 240 bytes"), "{error}");
        assert_eq!(text(count("apps", 3, 2)), "apps: a list of 3 entries is not allowed; allowed: at most 2");
        assert_eq!((count("apps", 2, 2), within("n", 0.5, 0.5, 1.0), within("n", 1, 0, 1)), (Ok(()), Ok(0.5), Ok(1)));
        assert_eq!(text(within("n", 1.5, 0.0, 1.0).map(drop)), "n: 1.5 is not allowed; allowed: 0 to 1");
        assert_eq!(text(within("n", f64::NAN, 0.0, 1.0).map(drop)), "n: NaN is not allowed; allowed: 0 to 1");
    }
}
