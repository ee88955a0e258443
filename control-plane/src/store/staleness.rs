//! Which proxies stay behind: connected, but without the newest state of what they subscribed to.
//!
//! To be behind for a moment is normal, it is the time between a change and the next poll. A proxy is stale if two looks in a row, [`LOOK_EVERY`]
//! apart, found it behind and with the same version: it was answered in between, and did not take the answer. A proxy that is not connected is not
//! stale but silent; from here, one that is cut off looks the same as one that was switched off.

use super::proxies::{Proxies, Record};
use super::version::Version;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How often somebody looks; the waits of proxies that do not take an answer are 5 s at most.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The proxies that the last look found behind.
#[derive(Debug, Default)]
pub struct Staleness {
    behind: BTreeMap<String, Behind>,
}

#[derive(Debug)]
struct Behind {
    version: Option<Version>,
    since: Instant,
}

impl Staleness {
    /// Looks at all proxies; `is_behind` tells of a record whether there is a newer state for it.
    pub fn look(&mut self, proxies: &Proxies, is_behind: impl Fn(&Record) -> bool, now: Instant) {
        let before = std::mem::take(&mut self.behind);
        for (proxy, record) in proxies.iter().filter(|(_, r)| r.is_connected(now) && is_behind(r)) {
            let known = before.get(proxy).filter(|behind| behind.version == record.version);
            let since = known.map_or(now, |behind| behind.since);
            self.behind.insert(proxy.clone(), Behind { version: record.version.clone(), since });
        }
    }

    /// Since when a proxy has been found behind, if it is stale.
    pub fn since(&self, proxy: &str, record: &Record, now: Instant) -> Option<Instant> {
        let behind = self.behind.get(proxy)?;
        let stale = behind.version == record.version && now.saturating_duration_since(behind.since) >= LOOK_EVERY;
        stale.then_some(behind.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Poll;
    use bloc_policy::sync::SyncRequest;

    #[test]
    fn stale_is_who_stays_behind_with_the_same_version() {
        let (mut proxies, mut staleness, start) = (Proxies::default(), Staleness::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut look = |proxies: &mut Proxies, seconds, digest: u64| {
            let version = format!("{digest:016x}");
            let request = SyncRequest { proxy: "p".into(), version, ..SyncRequest::default() };
            proxies.note(&Poll::try_from(request).unwrap(), at(seconds)).unwrap();
            let is_behind = |record: &Record| record.version.as_ref().is_none_or(|version| version.digest < 9);
            staleness.look(proxies, is_behind, at(seconds));
            staleness.since("p", proxies.get_mut("p").unwrap(), at(seconds)).is_some()
        };
        assert!(!look(&mut proxies, 0, 1), "for a moment");
        assert!(look(&mut proxies, 10, 1));
        assert!(!look(&mut proxies, 20, 2), "it has taken a newer one, if not the newest");
        assert!(look(&mut proxies, 30, 2));
        assert!(!look(&mut proxies, 40, 9));
        let record = proxies.get_mut("p").unwrap();
        record.version = None;
        assert_eq!(staleness.since("p", record, at(60)), None);
        staleness.look(&proxies, |_| true, at(500));
        assert!(staleness.behind.is_empty(), "silent");
    }
}
