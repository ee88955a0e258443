//! Two lists that the threads of one proxy share: the VMs that are told of news, and the services
//! that any thread has seen. Each thread adds to them; nobody's entry is lost to another one's.

use crate::shared::Shared;
use std::collections::BTreeSet;

const SEEN_KEY: &str = "bloc/seen";
const VMS_KEY: &str = "bloc/vms";
/// VMs that are told of news at most; more than that were made anew after crashes, and most of them
/// are gone.
const MAX_VMS: usize = 256;
/// How often a step is tried when other threads come in between.
const TRIES: usize = 1000;
/// Services that are asked for at most.
const MAX_SEEN: usize = 10_000;

/// The services that any thread has seen.
pub fn seen(shared: &impl Shared) -> BTreeSet<String> {
    names(&shared.get(SEEN_KEY).0.unwrap_or_default())
}

/// Adds services to those that were seen; false if another thread was faster, then again.
pub fn announce(shared: &impl Shared, new: &BTreeSet<String>) -> bool {
    let (value, cas) = shared.get(SEEN_KEY);
    let mut all = names(&value.unwrap_or_default());
    let before = all.len();
    all.extend(new.iter().cloned());
    if all.len() == before || all.len() > MAX_SEEN {
        return true;
    }
    shared.set(SEEN_KEY, Vec::from_iter(all).join("\n").as_bytes(), cas)
}

/// The VMs that are told of news.
pub fn vms(shared: &impl Shared) -> Vec<u64> {
    let value = shared.get(VMS_KEY).0.unwrap_or_default();
    value.chunks_exact(8).filter_map(|id| id.try_into().ok().map(u64::from_le_bytes)).collect()
}

/// Adds this VM to those that are told of news; false if another thread was faster, then again.
pub fn list(shared: &impl Shared, vm: u64) -> bool {
    let (value, cas) = shared.get(VMS_KEY);
    let mut value = value.unwrap_or_default();
    let surplus = (value.len() / 8 + 1).saturating_sub(MAX_VMS);
    value.drain(..surplus * 8);
    value.extend(vm.to_le_bytes());
    shared.set(VMS_KEY, &value, cas)
}

/// Takes this VM out of those that are told of news: nobody would read what is sent to it.
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
    String::from_utf8_lossy(value).lines().map(str::to_owned).collect()
}
