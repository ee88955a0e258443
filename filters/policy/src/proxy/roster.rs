//! Three lists that the threads of one proxy share: the VMs that are notified of new parameters,
//! the services that any thread has seen, and the services that any thread serves.
//!
//! A sidecar learns services from requests, and a quiet one may still exist. So services stay
//! listed as long as the proxy has a VM. A pod that changes its Service while running serves both.

use crate::proxy::shared::Shared;
use crate::units::inserted::inserted;
use std::collections::BTreeSet;

const SEEN_KEY: &str = "bloc/seen";
const SERVED_KEY: &str = "bloc/served";
const VMS_KEY: &str = "bloc/vms";
/// Most VMs that are notified. If there are more, crashes have replaced most of them.
const MAX_VMS: usize = 256;
/// Attempts at a step when other threads write in between.
const TRIES: usize = 1000;
/// Most seen services, and most bytes of their names. The control plane accepts 1,000 services in a
/// body of 96 KiB, 32 of which are for latencies.
const SEEN: Room = Room { services: 1_000, bytes: 44 << 10 };
/// The same for served services, which take some 400 bytes each with their load, from the rest of
/// that body. A sidecar has one or a few.
const SERVED: Room = Room { services: 20, bytes: 2 << 10 };

struct Room {
    services: usize,
    bytes: usize,
}

/// The services that any thread has seen.
pub fn seen(shared: &impl Shared) -> BTreeSet<String> {
    names(&shared.get(SEEN_KEY).0.unwrap_or_default())
}

/// The services that any thread serves.
pub fn served(shared: &impl Shared) -> BTreeSet<String> {
    names(&shared.get(SERVED_KEY).0.unwrap_or_default())
}

/// The result of adding services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// New ones were added, and all fit.
    Some,
    /// All were listed already.
    Nothing,
    /// There was no room for all; as many as fit were added.
    NoRoom,
    /// Another thread wrote in between: try again.
    NotYet,
}

/// Adds as many seen services as there is room for.
pub fn announce(shared: &impl Shared, new: &BTreeSet<String>) -> Added {
    add(shared, SEEN_KEY, new, &SEEN)
}

/// Adds as many served services as there is room for.
pub fn serve(shared: &impl Shared, new: &BTreeSet<String>) -> Added {
    add(shared, SERVED_KEY, new, &SERVED)
}

fn add(shared: &impl Shared, key: &str, new: &BTreeSet<String>, room: &Room) -> Added {
    let (value, cas) = shared.get(key);
    let mut all = names(&value.unwrap_or_default());
    let new: Vec<String> = new.difference(&all).cloned().collect();
    if new.is_empty() {
        return Added::Nothing;
    }
    let (wanted, mut bytes) = (all.len() + new.len(), all.iter().map(String::len).sum::<usize>());
    for name in new {
        bytes += name.len();
        if all.len() >= room.services || bytes > room.bytes {
            break;
        }
        all.insert(name);
    }
    let added = if all.len() < wanted { Added::NoRoom } else { Added::Some };
    if shared.set(key, Vec::from_iter(all).join("\n").as_bytes(), cas) { added } else { Added::NotYet }
}

/// The VMs to notify.
pub fn vms(shared: &impl Shared) -> Vec<u64> {
    let value = shared.get(VMS_KEY).0.unwrap_or_default();
    value.chunks_exact(8).filter_map(|id| id.try_into().ok().map(u64::from_le_bytes)).collect()
}

/// Adds this VM to those to notify; false if another thread wrote in between: try again.
pub fn list(shared: &impl Shared, vm: u64) -> bool {
    let (value, cas) = shared.get(VMS_KEY);
    let mut value = value.unwrap_or_default();
    let surplus = (value.len() / 8 + 1).saturating_sub(MAX_VMS);
    value.drain(..surplus * 8);
    value.extend(vm.to_le_bytes());
    shared.set(VMS_KEY, &value, cas)
}

/// Removes this VM from those to notify.
pub fn unlist(shared: &impl Shared, vm: u64) {
    for _ in 0..TRIES {
        let (Some(value), cas) = shared.get(VMS_KEY) else { return };
        let rest: Vec<u8> = value.chunks_exact(8).filter(|id| **id != vm.to_le_bytes()).flatten().copied().collect();
        if shared.set(VMS_KEY, &rest, cas) {
            return;
        }
    }
}

fn names(value: &[u8]) -> BTreeSet<String> {
    inserted(String::from_utf8_lossy(value).lines().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::shared::Cas;
    use std::cell::RefCell;

    /// One value, written by one thread.
    #[derive(Default)]
    struct Alone(RefCell<Vec<u8>>);

    impl Shared for Alone {
        fn get(&self, _: &str) -> (Option<Vec<u8>>, Cas) {
            (Some(self.0.borrow().clone()), Cas::new(1))
        }

        fn set(&self, _: &str, value: &[u8], _: Cas) -> bool {
            *self.0.borrow_mut() = value.to_vec();
            true
        }

        fn overwrite(&self, key: &str, value: &[u8]) {
            self.set(key, value, Cas::new(1));
        }
    }

    fn services(range: std::ops::Range<usize>) -> BTreeSet<String> {
        range.map(|i| format!("{i:03}")).collect()
    }

    #[test]
    fn announces_services_up_to_the_maximum() {
        let data = Alone::default();
        assert_eq!(serve(&data, &services(0..15)), Added::Some);
        assert_eq!(serve(&data, &services(10..15)), Added::Nothing);
        assert_eq!(serve(&data, &services(10..120)), Added::NoRoom);
        assert_eq!(served(&data), services(0..SERVED.services));
        assert_eq!(serve(&data, &services(0..120)), Added::NoRoom);
        assert_eq!(serve(&data, &services(0..20)), Added::Nothing);
    }

    #[test]
    fn announces_no_more_than_a_poll_can_carry() {
        let data = Alone::default();
        let long = |range: std::ops::Range<usize>| range.map(|i| format!("{i:0220}")).collect();
        assert_eq!(announce(&data, &long(0..1_000)), Added::NoRoom);
        assert_eq!(seen(&data).iter().map(String::len).sum::<usize>(), SEEN.bytes / 220 * 220);
        assert_eq!(announce(&data, &long(1_000..1_001)), Added::NoRoom);
        assert_eq!(announce(&data, &services(0..2)), Added::Some, "the rest of the room");
        let rest = SEEN.bytes % 220 - 6;
        assert_eq!(announce(&data, &BTreeSet::from(["r".repeat(rest)])), Added::Some);
        assert_eq!(announce(&data, &BTreeSet::from(["x".to_owned()])), Added::NoRoom);
    }

    #[test]
    fn lists_the_newest_256_workers() {
        let data = Alone::default();
        assert!((1..=300).all(|vm| list(&data, vm)));
        assert_eq!(vms(&data), Vec::from_iter(45..=300));
        unlist(&data, 46);
        assert_eq!(vms(&data)[..2], [45, 47]);
    }
}
