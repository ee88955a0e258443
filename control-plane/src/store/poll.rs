//! A poll, checked: who asks, what it has, what it wants to hear of and how long it waits.

use bloc_policy::config::ConfigError;
use bloc_policy::sync::{ServiceLoad, SyncRequest};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::versions::MAX_PRESENTED;

/// How long a poll is held unless it says otherwise: well below the idle timeouts of proxies in between.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// Waits outside this range are moved to its nearer end.
pub const WAIT_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Services and loads that one proxy may name.
const MAX_NAMES: usize = 1_000;
/// The longest name of a proxy or service, in bytes: a DNS name's length.
const MAX_NAME_LENGTH: usize = 253;

/// A checked poll.
#[derive(Clone, Debug)]
pub struct Poll {
    pub(super) proxy: String,
    pub(super) version: u64,
    pub(super) services: Vec<String>,
    pub(super) serves: Vec<String>,
    pub(super) load: Vec<ServiceLoad>,
    pub(super) wait: Duration,
    /// What it calls and what it stands in front of, together.
    pub(super) subscription: Arc<BTreeSet<String>>,
}

impl TryFrom<SyncRequest> for Poll {
    type Error = ConfigError;

    fn try_from(request: SyncRequest) -> Result<Self, ConfigError> {
        let SyncRequest { proxy, version, services, serves, wait, load } = request;
        check_name("proxy", &proxy)?;
        check_names("services", services.iter())?;
        check_names("serves", serves.iter())?;
        check_names("load", load.iter().map(|load| &load.service))?;
        if version > MAX_PRESENTED {
            return Err(refusal("version", version, "0 to 9007199254740992".into()));
        }
        let subscription = Arc::new(services.iter().chain(&serves).cloned().collect());
        Ok(Self { proxy, version, services, serves, load, wait: parse_wait(wait.as_deref())?, subscription })
    }
}

fn parse_wait(text: Option<&str>) -> Result<Duration, ConfigError> {
    let Some(text) = text else { return Ok(DEFAULT_WAIT) };
    let wait = humantime::parse_duration(text)
        .map_err(|_| refusal("wait", format!("{text:?}"), "a duration with its unit, such as 30s".into()))?;
    let (least, most) = WAIT_RANGE;
    Ok(wait.clamp(least, most))
}

fn check_names<'a>(path: &str, names: impl ExactSizeIterator<Item = &'a String>) -> Result<(), ConfigError> {
    if names.len() > MAX_NAMES {
        return Err(refusal(path, format!("{} entries", names.len()), format!("{MAX_NAMES} at most")));
    }
    names.enumerate().try_for_each(|(i, name)| check_name(&format!("{path}[{i}]"), name))
}

fn check_name(path: &str, name: &str) -> Result<(), ConfigError> {
    if (1..=MAX_NAME_LENGTH).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    Err(refusal(path, format!("{name:?}"), format!("1 to {MAX_NAME_LENGTH} printable ASCII characters")))
}

fn refusal(path: &str, value: impl ToString, allowed: String) -> ConfigError {
    ConfigError::OutOfRange { path: path.to_owned(), value: value.to_string(), allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> SyncRequest {
        SyncRequest { proxy: "p".into(), services: vec!["b".into(), "a".into()], ..SyncRequest::default() }
    }

    #[test]
    fn subscribes_to_what_it_calls_and_serves() {
        let poll = Poll::try_from(SyncRequest { serves: vec!["c".into(), "a".into()], ..request() }).unwrap();
        assert_eq!(poll.subscription.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn the_wait_is_capped() {
        let wait = |text: &str| Poll::try_from(SyncRequest { wait: Some(text.into()), ..request() }).map(|p| p.wait);
        assert_eq!(wait("10ms"), Ok(Duration::from_secs(1)));
        assert_eq!(wait("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(wait("1h"), Ok(Duration::from_secs(60)));
        assert_eq!(Poll::try_from(request()).unwrap().wait, DEFAULT_WAIT);
        let error = wait("soon").unwrap_err().to_string();
        assert!(error.starts_with("wait: \"soon\" is not allowed"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = |request: SyncRequest| Poll::try_from(request).unwrap_err().to_string();
        assert!(error(SyncRequest::default()).starts_with("proxy: \"\" is not allowed"));
        assert!(error(SyncRequest { proxy: "a b".into(), ..request() }).starts_with("proxy: "));
        assert!(
            error(SyncRequest { services: vec!["a".into(), "é".into()], ..request() }).starts_with("services[1]: ")
        );
        assert!(error(SyncRequest { serves: vec!["a".repeat(254)], ..request() }).starts_with("serves[0]: "));
        assert!(
            error(SyncRequest { services: vec!["a".into(); 1_001], ..request() }).starts_with("services: 1001 entries")
        );
        let load = vec![ServiceLoad::default()];
        assert!(error(SyncRequest { load, ..request() }).starts_with("load[0]: "));
        assert!(error(SyncRequest { version: MAX_PRESENTED + 1, ..request() }).starts_with("version: "));
        assert!(Poll::try_from(SyncRequest { version: MAX_PRESENTED, ..request() }).is_ok());
    }
}
