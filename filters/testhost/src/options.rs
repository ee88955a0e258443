//! How a VM starts, and what happens to requests after a trap.

/// What Envoy does with requests after a trap (`failure_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// They pass unchanged.
    #[default]
    Open,
    /// They get a 503.
    Closed,
    /// The next one gets a new VM if the old one lived for a second; otherwise a 503.
    Reload,
}

/// How a VM starts.
#[derive(Clone, Debug)]
pub struct VmOptions {
    /// The VM id; VMs with the same id share data and queues.
    pub vm_id: String,
    /// The VM configuration.
    pub configuration: Vec<u8>,
    /// What happens after a trap.
    pub failure_policy: FailurePolicy,
}

impl Default for VmOptions {
    fn default() -> Self {
        Self { vm_id: "bloc".to_owned(), configuration: Vec::new(), failure_policy: FailurePolicy::Open }
    }
}
