//! The CPU shares of containers and their pods: who runs when there is less CPU than wanted.

use super::containers::{understood, write};
use super::{Container, Containers, GroupError, Version};
use std::path::{Path, PathBuf};

impl Containers {
    /// Gives all of them together the most shares that the kernel takes, so that whatever else runs
    /// on this machine takes next to nothing of their CPU.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn prefer(&self) -> Result<(), GroupError> {
        let most = match self.kind() {
            Version::One => "262144",
            Version::Two => "10000",
        };
        write(&file(self.kind(), self.cpu()), most)
    }
}

impl Container {
    /// Gives it and its pod, in which it is alone, the shares of its `requests`, as the kubelet
    /// does; 1,024 for a core.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn set_shares(&self, shares: u64) -> Result<(), GroupError> {
        let value = match self.version {
            Version::One => shares,
            Version::Two => weight(shares),
        };
        [self.pod(), &self.cpu]
            .into_iter()
            .try_for_each(|folder| write(&file(self.version, folder), &value.to_string()))
    }

    /// Its weight and that of its pod, as the files say: `cpu.shares` in v1, `cpu.weight` in v2.
    ///
    /// # Errors
    /// A file cannot be read, or is not understood.
    pub fn weights(&self) -> Result<[f64; 2], GroupError> {
        let read = |folder| understood(&file(self.version, folder), |text| text.trim().parse().ok());
        Ok([read(&self.cpu)?, read(self.pod())?])
    }
}

fn file(version: Version, folder: &Path) -> PathBuf {
    folder.join(match version {
        Version::One => "cpu.shares",
        Version::Two => "cpu.weight",
    })
}

/// The weight that the kubelet gives for shares: 2 to 262,144 become 1 to 10,000.
fn weight(shares: u64) -> u64 {
    1 + shares.saturating_sub(2) * 9_999 / 262_142
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups::Containers;

    #[test]
    fn a_weight_is_what_the_kubelet_gives() {
        assert_eq!([0, 2, 102, 1_024, 262_144].map(weight), [1, 1, 4, 39, 10_000]);
    }

    #[test]
    fn container_and_pod_get_the_same_shares() {
        let containers = Containers::new().unwrap();
        let [one, other] = ["a", "b"].map(|pod| containers.container(pod, "c").unwrap());
        let before = other.weights().unwrap();
        one.set_shares(2_048).unwrap();
        let expected = if containers.version() == "v1" { 2_048.0 } else { 79.0 };
        assert_eq!(one.weights().unwrap(), [expected; 2]);
        assert_eq!(other.weights().unwrap(), before);
        containers.prefer().unwrap();
        let all = std::fs::read_to_string(file(containers.kind(), containers.cpu())).unwrap();
        assert_eq!(all.trim(), if containers.version() == "v1" { "262144" } else { "10000" });
    }
}
