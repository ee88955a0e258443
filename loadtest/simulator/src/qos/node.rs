//! The cores of a node, and who runs on them. Times are in seconds.

/// A request has left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct End {
    /// Of which container.
    pub key: usize,
    /// When.
    pub at: f64,
    /// How long it was inside.
    pub took: f64,
    /// Whether it was answered; otherwise its client has left.
    pub answered: bool,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    came: f64,
    /// Ends once its container has given so much CPU time to each request that was there always.
    tag: f64,
    leaves: f64,
}

#[derive(Clone, Debug)]
struct Container {
    threads: f64,
    shares: f64,
    /// In the order in which they came.
    requests: Vec<Request>,
    /// CPU time that a request has got that was there always.
    served: f64,
    /// CPU time of all.
    used: f64,
    /// CPU that each request gets now.
    speed: f64,
    /// The smallest tag.
    first: f64,
}

impl Container {
    fn refresh(&mut self) {
        self.first = self.requests.iter().map(|request| request.tag).fold(f64::INFINITY, f64::min);
    }

    /// How long until one ends, and until a client leaves.
    fn ends(&self) -> f64 {
        if self.requests.is_empty() { f64::INFINITY } else { (self.first - self.served).max(0.0) / self.speed }
    }

    fn leaves(&self) -> f64 {
        self.requests.first().map_or(f64::INFINITY, |request| request.leaves)
    }
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    cores: f64,
    now: f64,
    containers: Vec<Container>,
    changed: bool,
}

impl Node {
    /// With containers that have so many threads and shares.
    pub fn new(cores: f64, containers: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let container = |(threads, shares)| Container {
            threads,
            shares,
            requests: Vec::new(),
            served: 0.0,
            used: 0.0,
            speed: 0.0,
            first: f64::INFINITY,
        };
        Self { cores, now: 0.0, containers: containers.into_iter().map(container).collect(), changed: true }
    }

    /// A container has so many shares from now on.
    pub fn set_shares(&mut self, key: usize, shares: f64) {
        self.containers[key].shares = shares;
        self.changed = true;
    }

    /// A request comes now, with a client that waits for so long.
    pub fn receive(&mut self, key: usize, work: f64, patience: f64) {
        let container = &mut self.containers[key];
        let tag = container.served + work;
        container.requests.push(Request { came: self.now, tag, leaves: self.now + patience });
        container.first = container.first.min(tag);
        self.changed = true;
    }

    /// CPU time that a container has used.
    pub fn used(&self, key: usize) -> f64 {
        self.containers[key].used
    }

    /// CPU time that its requests still need.
    pub fn backlog(&self, key: usize) -> f64 {
        let container = &self.containers[key];
        container.requests.iter().map(|request| (request.tag - container.served).max(0.0)).sum()
    }

    /// Runs until a request leaves, or until then.
    pub fn run(&mut self, until: f64) -> Option<End> {
        if std::mem::take(&mut self.changed) {
            self.distribute();
        }
        let (mut at, mut who) = (until, None);
        for (key, container) in self.containers.iter().enumerate() {
            for (when, answered) in [(self.now + container.ends(), true), (container.leaves(), false)] {
                if when < at {
                    (at, who) = (when, Some((key, answered)));
                }
            }
        }
        let passed = (at - self.now).max(0.0);
        for container in &mut self.containers {
            container.served += container.speed * passed;
            container.used += container.speed * container.requests.len() as f64 * passed;
        }
        self.now = at;
        let (key, answered) = who?;
        self.changed = true;
        let container = &mut self.containers[key];
        let leaves = |request: &Request| !answered || request.tag <= container.first;
        let place = container.requests.iter().position(leaves)?;
        let request = container.requests.remove(place);
        container.refresh();
        Some(End { key, at, took: at - request.came, answered })
    }

    /// Gives each request its speed.
    fn distribute(&mut self) {
        let wants = |container: &Container| (container.requests.len() as f64).min(container.threads);
        let wanted: Vec<(f64, f64)> =
            self.containers.iter().map(|container| (wants(container), container.shares)).collect();
        for (container, cores) in self.containers.iter_mut().zip(parts(self.cores, &wanted)) {
            container.speed = if cores > 0.0 { cores / container.requests.len() as f64 } else { 0.0 };
        }
    }
}

/// What each gets that wants so much and has such shares.
fn parts(cores: f64, wanted: &[(f64, f64)]) -> Vec<f64> {
    let mut parts: Vec<Option<f64>> = vec![None; wanted.len()];
    loop {
        let open = || wanted.iter().zip(&parts).filter(|(_, part)| part.is_none()).map(|(of, _)| of);
        let level = (cores - parts.iter().flatten().sum::<f64>()) / open().map(|(_, shares)| shares).sum::<f64>();
        let before = open().count();
        let fits = |(wants, shares): &(f64, f64)| (*wants <= shares * level).then_some(*wants);
        parts = wanted.iter().zip(&parts).map(|(of, part)| part.or_else(|| fits(of))).collect();
        if parts.iter().filter(|part| part.is_none()).count() == before {
            return wanted.iter().zip(parts).map(|((_, shares), part)| part.unwrap_or(shares * level)).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(values: Vec<f64>) -> Vec<f64> {
        values.into_iter().map(|value| (value * 1e6).round() / 1e6).collect()
    }

    /// Who leaves until then, and when it does; negative: without an answer.
    fn ends(node: &mut Node, until: f64) -> Vec<(usize, f64)> {
        let mut ends = Vec::new();
        while let Some(end) = node.run(until) {
            let at = (end.at * 1e6).round() / 1e6;
            ends.push((end.key, if end.answered { at } else { -at }));
        }
        ends
    }

    #[test]
    fn cores_are_divided_by_shares_and_what_one_does_not_use_others_get() {
        assert_eq!(rounded(parts(4.0, &[(4.0, 100.0), (4.0, 300.0)])), [1.0, 3.0]);
        assert_eq!(rounded(parts(4.0, &[(4.0, 100.0), (2.0, 300.0)])), [2.0, 2.0]);
        assert_eq!(rounded(parts(4.0, &[(1.0, 100.0), (2.0, 300.0)])), [1.0, 2.0], "no more than they want");
        // One wants less than its part, and only then another one does.
        assert_eq!(
            rounded(parts(4.0, &[(4.0, 100.0), (1.2, 100.0), (0.0, 200.0), (4.0, 200.0)])),
            [1.0, 1.0, 0.0, 2.0]
        );
        assert_eq!(
            rounded(parts(4.0, &[(4.0, 100.0), (1.2, 100.0), (0.5, 200.0), (1.0, 200.0)])),
            [1.3, 1.2, 0.5, 1.0]
        );
        assert_eq!(rounded(parts(4.0, &[])), [0.0; 0]);
    }

    #[test]
    fn requests_of_a_container_share_its_threads() {
        let mut node = Node::new(4.0, [(1.0, 100.0)]);
        node.receive(0, 0.01, 9.0);
        node.receive(0, 0.02, 9.0);
        assert_eq!(ends(&mut node, 1.0), [(0, 0.02), (0, 0.03)]);
        let mut wide = Node::new(4.0, [(2.0, 100.0)]);
        for work in [0.02, 0.01, 0.03] {
            wide.receive(0, work, 9.0);
        }
        // Two thirds of a core each until the second one ends, a core each from then on.
        assert_eq!(ends(&mut wide, 0.02), [(0, 0.015)]);
        assert!((wide.backlog(0) - 0.02).abs() < 1e-9 && (wide.used(0) - 0.04).abs() < 1e-9);
        assert_eq!(ends(&mut wide, 1.0), [(0, 0.025), (0, 0.035)]);
        assert!((wide.used(0) - 0.06).abs() < 1e-9 && wide.backlog(0) == 0.0);
    }

    #[test]
    fn shares_say_who_is_first_and_may_change() {
        let mut node = Node::new(1.0, [(1.0, 300.0), (1.0, 100.0)]);
        node.receive(0, 3.0, 99.0);
        node.receive(1, 2.0, 99.0);
        assert_eq!(ends(&mut node, 2.0), []);
        node.set_shares(0, 100.0);
        // 1.5 are left of each.
        assert_eq!(ends(&mut node, 9.0), [(0, 5.0), (1, 5.0)]);
        node.receive(1, 1.0, 99.0);
        assert_eq!(ends(&mut node, 99.0), [(1, 10.0)], "alone on the core");
    }

    #[test]
    fn a_client_that_has_waited_for_too_long_leaves_and_its_work_with_it() {
        let mut node = Node::new(1.0, [(1.0, 100.0)]);
        node.receive(0, 0.6, 0.5);
        node.receive(0, 0.6, 2.0);
        let first = node.run(9.0).unwrap();
        assert_eq!(first, End { key: 0, at: 0.5, took: 0.5, answered: false });
        assert_eq!(ends(&mut node, 9.0), [(0, 0.85)]);
        assert!((node.used(0) - 0.85).abs() < 1e-9);
    }
}
