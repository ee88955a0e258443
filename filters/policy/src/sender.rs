//! A sender: all that one proxy decides about the requests that it sends to one cluster.
//!
//! Puts together the parameters, the [`Endpoints`], a [`Router`] and, where nobody named the endpoints, [`Discovery`].

use crate::bid::{self, Bids};
use crate::config::{RoutingKind, ServiceParameters};
use crate::discovery::Discovery;
use crate::endpoints::{Answer, Endpoint, EndpointId, Endpoints};
use crate::retry_budget::RetryBudget;
use crate::rng::Rng;
use crate::routing::{Router, Routing};
use crate::units::Timestamp;
use std::time::Duration;

/// The service of a cluster: the host of an Istio cluster (`outbound|8080|subset|host`), else the cluster's own name.
pub fn service_of(cluster: &str) -> &str {
    match cluster.split_once('|') {
        Some(("outbound" | "inbound", rest)) => {
            rest.rsplit('|').next().filter(|host| !host.is_empty()).unwrap_or(cluster)
        }
        _ => cluster,
    }
}

/// What holds for one cluster of the service: of the endpoints, those of the port that the cluster's name tells. A subset has only some
/// of them, which nobody named, so its senders learn them.
pub fn parameters_of(cluster: &str, service: &ServiceParameters) -> ServiceParameters {
    let mut parts = cluster.split('|');
    let (direction, port, subset) = (parts.next(), parts.next(), parts.next());
    match (direction, port, subset) {
        (Some("outbound"), Some(port), Some("")) => service.at_port(port.parse().ok()),
        (Some("outbound"), Some(_), Some(_)) => service.without_endpoints(),
        _ => service.at_port(None),
    }
}

/// One proxy's view of one cluster.
#[derive(Clone, Debug)]
pub struct Sender {
    parameters: ServiceParameters,
    router: Router,
    endpoints: Endpoints,
    discovery: Discovery,
    bids: Bids,
    budget: RetryBudget,
    list: Vec<EndpointId>,
}

impl Sender {
    /// A sender that has not sent anything.
    pub fn new(parameters: ServiceParameters, now: Timestamp) -> Self {
        let mut sender = Self {
            router: Router::new(parameters.routing(), parameters.reset_interval()),
            endpoints: Endpoints::new(parameters.reset_interval(), parameters.max_chips()),
            discovery: Discovery::default(),
            bids: Bids::default(),
            budget: RetryBudget::new(parameters.retry_budget()),
            list: Vec::new(),
            parameters,
        };
        sender.set_endpoints(now);
        sender
    }

    /// New parameters; what is known of the servers that stay stays.
    pub fn configure(&mut self, parameters: ServiceParameters, now: Timestamp) {
        if parameters.routing() != self.parameters.routing() {
            self.router = Router::new(parameters.routing(), parameters.reset_interval());
        }
        self.router.configure(parameters.reset_interval());
        self.endpoints.configure(parameters.reset_interval(), parameters.max_chips());
        self.budget.configure(parameters.retry_budget());
        self.parameters = parameters;
        self.set_endpoints(now);
    }

    fn set_endpoints(&mut self, now: Timestamp) {
        if let Some(addresses) = self.parameters.endpoints() {
            let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            self.endpoints.replace(texts.iter().map(String::as_str), now);
        }
    }

    /// Whether the servers are learned from the answers, because nobody named them.
    fn learns(&self) -> bool {
        self.parameters.endpoints().is_none()
    }

    /// The parameters in force.
    pub fn parameters(&self) -> &ServiceParameters {
        &self.parameters
    }

    /// The servers.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// The servers, to report attempts and answers to.
    pub fn endpoints_mut(&mut self) -> &mut Endpoints {
        &mut self.endpoints
    }

    /// How often a request may be sent again: the retries of the parameters, and one for each bid that may bounce.
    pub fn retries(&self) -> u32 {
        match self.parameters.routing() {
            RoutingKind::Bid => self.parameters.retries() + bid::MULTIPLES.len() as u32,
            _ => self.parameters.retries(),
        }
    }

    /// Whether the request chosen for last may be sent again after something else than a rejection.
    pub fn retries_failures(&self) -> bool {
        self.budget.allows()
    }

    /// Whether attempts bid.
    pub fn bids(&self) -> bool {
        self.parameters.routing() == RoutingKind::Bid
    }

    /// The bid of attempt `attempt` (the first is 0): the longest expected response time that it accepts; none: without limit.
    pub fn bid(&self, attempt: usize) -> Option<Duration> {
        match self.parameters.routing() {
            RoutingKind::Bid => self.bids.bid(attempt),
            _ => None,
        }
    }

    /// An attempt that began at `began`, with this `bid`, was answered.
    pub fn answer(&mut self, id: EndpointId, answer: Answer, bid: Option<Duration>, began: Timestamp, now: Timestamp) {
        let took = now.since(began);
        let answer = match answer {
            Answer::Bounced(report) if !bid::is_bounce(bid, &report) => Answer::Rejected(report),
            answer => answer,
        };
        let answered = matches!(answer, Answer::Served(_) | Answer::Orca(_));
        if answered && self.parameters.routing() == RoutingKind::Mu {
            self.endpoints.served(id, now);
        }
        if self.bids() {
            if matches!(answer, Answer::Served(_) | Answer::Silent | Answer::Orca(_)) {
                // Who speaks ORCA only takes every bid.
                self.endpoints.judge(id, bid, took, !matches!(answer, Answer::Served(_)));
                self.bids.served(took);
            }
            match &answer {
                Answer::Served(report) | Answer::Rejected(report) => self.bids.hear(report),
                Answer::Bounced(report) => {
                    self.bids.hear(report);
                    self.bids.bounced(took);
                }
                Answer::Silent | Answer::Orca(_) | Answer::Failed => {}
            }
        }
        if matches!(answer, Answer::Rejected(_) | Answer::Bounced(_)) {
            self.budget.rejection();
        }
        self.endpoints.answer(id, answer, now);
    }

    /// Chooses the servers of a request, in the order in which they are to be tried: at most one for the first attempt and each retry. None at
    /// all: no server is known, or the request is to go where Envoy's own policy sends it, so that new ones are found.
    pub fn choose(&mut self, now: Timestamp, rng: &mut impl Rng) -> &[EndpointId] {
        self.list.clear();
        self.budget.request();
        let explores = self.learns() && self.discovery.explores(self.endpoints.len(), rng);
        if !explores {
            let length = self.retries() as usize + 1;
            self.router.choose(&mut self.endpoints, length, now, rng, &mut self.list);
        }
        if self.bids()
            && let Some(further) = self.list.get_mut(1..)
        {
            let empty =
                |id: &EndpointId| self.endpoints.get(*id).is_some_and(|endpoint| endpoint.promises().are_empty());
            if further.iter().any(empty) {
                // In place, so that nothing is allocated, and stable: the list is short.
                further.sort_by_key(empty);
            }
        }
        &self.list
    }

    /// By how much the best server would miss the SLO, at the last choice; none: it would not, or there is no SLO, or nothing is known.
    pub fn overrun(&self) -> Option<Duration> {
        let slo = self.parameters.slo()?;
        let expected = self.router.expected()?;
        expected.checked_sub(slo + self.parameters.slo_grace()).filter(|overrun| !overrun.is_zero())
    }

    /// The addresses of the servers chosen last.
    pub fn chosen(&self) -> impl Iterator<Item = &str> {
        self.list.iter().filter_map(|&id| self.endpoints.get(id)).map(Endpoint::address)
    }

    /// The server with this address, to which an attempt goes, which costs the retry budget one; a new one is learned if nobody named the servers.
    pub fn endpoint_at(&mut self, address: &str, now: Timestamp) -> Option<EndpointId> {
        self.budget.attempt();
        let known = self.endpoints.find(address);
        if !self.learns() {
            return known;
        }
        let id = known.unwrap_or_else(|| {
            self.discovery.found();
            let count = self.endpoints.len();
            self.endpoints.forget(|met| self.discovery.is_gone(met, count));
            self.endpoints.add(address, now)
        });
        self.endpoints.meet(id, self.discovery.explored());
        Some(id)
    }

    /// Envoy does not have this server in the cluster (any more): one that was learned is forgotten, one that was named is left alone for an interval.
    pub fn missing(&mut self, id: EndpointId, now: Timestamp) {
        if self.learns() {
            self.endpoints.remove(id);
            self.discovery.found();
        } else {
            self.endpoints.missing(id, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, ServiceSpec};
    use crate::endpoints::Right;
    use crate::load_report::LoadReport;
    use std::collections::BTreeSet;

    fn sender(endpoints: Option<&[&str]>) -> Sender {
        let endpoints = endpoints.map(|texts| texts.iter().map(ToString::to_string).collect());
        let spec = ServiceSpec { endpoints, retries: Some(2), ..ServiceSpec::default() };
        Sender::new(spec.validate().unwrap(), Timestamp::ZERO)
    }

    #[test]
    fn a_cluster_names_its_service() {
        assert_eq!(service_of("backend"), "backend");
        assert_eq!(service_of("outbound|8080||echo.default.svc.cluster.local"), "echo.default.svc.cluster.local");
        assert_eq!(service_of("outbound|8080|v1|echo.default.svc.cluster.local"), "echo.default.svc.cluster.local");
        assert_eq!(service_of("inbound|8080||"), "inbound|8080||");
        assert_eq!(service_of("a|b"), "a|b");
    }

    #[test]
    fn a_cluster_has_the_endpoints_of_its_port() {
        let json = r#"{"retries":1,"endpointsByPort":{"80":["1.1.1.1:8080"],"81":["1.1.1.1:8081"]}}"#;
        let spec: ServiceSpec = ConfigError::read_json(json.as_bytes()).unwrap();
        let service = spec.validate().unwrap();
        let of = |cluster| {
            let parameters = parameters_of(cluster, &service);
            assert_eq!(parameters.retries(), 1);
            parameters.endpoints().map(|endpoints| endpoints.iter().map(|e| e.port()).collect::<Vec<_>>())
        };
        assert_eq!(of("outbound|80||a.b.svc.cluster.local"), Some(vec![8080]));
        assert_eq!(of("outbound|81||a.b.svc.cluster.local"), Some(vec![8081]));
        assert_eq!(of("outbound|82||a.b.svc.cluster.local"), None);
        assert_eq!(of("outbound|80|v1|a.b.svc.cluster.local"), None, "a subset");
        assert_eq!(of("a"), None, "two ports");
    }

    #[test]
    fn named_servers_are_chosen_at_once_one_for_each_attempt() {
        let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3", "[::1]:4"]));
        let mut rng = fastrand::Rng::with_seed(1);
        assert_eq!(sender.choose(Timestamp::ZERO, &mut rng).len(), 3);
        assert_eq!(sender.endpoint_at("9.9.9.9:9", Timestamp::ZERO), None, "only those that were named");
        assert!(sender.endpoint_at("[::1]:4", Timestamp::ZERO).is_some());
    }

    /// A new server for each twentieth request: every request explores, so no list ever names a server that has left.
    #[test]
    fn servers_that_come_and_go_all_the_time_are_not_kept() {
        let (mut sender, mut rng) = (sender(None), fastrand::Rng::with_seed(3));
        let mut most = 0;
        for request in 0..20_000u32 {
            assert!(sender.choose(Timestamp::ZERO, &mut rng).is_empty());
            let newest = request / 20;
            let address = format!("10.0.{}.{}:80", newest / 256, newest % 256 + request % 10);
            sender.endpoint_at(&address, Timestamp::ZERO).unwrap();
            most = most.max(sender.endpoints().len());
        }
        assert!((10..150).contains(&most), "{most} servers known at once");
    }

    /// Attempts meet the servers that are there, so none of them is forgotten, however many there are.
    #[test]
    fn servers_that_stay_are_not_forgotten_when_new_ones_are_found() {
        let (mut sender, mut rng) = (sender(None), fastrand::Rng::with_seed(4));
        for known in 1..=200u32 {
            for _ in 0..50 {
                sender.choose(Timestamp::ZERO, &mut rng);
                let address = format!("10.0.0.{}:80", rng.u32(0..known));
                sender.endpoint_at(&address, Timestamp::ZERO).unwrap();
            }
        }
        assert!(sender.endpoints().len() >= 198, "{} of 200 known", sender.endpoints().len());
    }

    #[test]
    fn unnamed_servers_are_learned_and_forgotten() {
        let mut sender = sender(None);
        let mut rng = fastrand::Rng::with_seed(2);
        assert!(sender.choose(Timestamp::ZERO, &mut rng).is_empty());
        let first = sender.endpoint_at("1.1.1.1:1", Timestamp::ZERO).unwrap();
        sender.endpoint_at("2.2.2.2:2", Timestamp::ZERO).unwrap();
        let lists = (0..500).filter(|_| !sender.choose(Timestamp::ZERO, &mut rng).is_empty()).count();
        assert!(lists > 450, "{lists} of 500 with a list");
        sender.missing(first, Timestamp::ZERO);
        assert_eq!(sender.endpoints().len(), 1);
        assert!(sender.choose(Timestamp::ZERO, &mut rng).is_empty(), "the search begins anew");
    }

    #[test]
    fn a_named_server_that_envoy_lacks_is_left_alone() {
        let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
        let mut rng = fastrand::Rng::with_seed(3);
        let missing = sender.endpoint_at("1.1.1.1:1", Timestamp::ZERO).unwrap();
        sender.missing(missing, Timestamp::ZERO);
        let first: BTreeSet<EndpointId> = (0..100).map(|_| sender.choose(Timestamp::ZERO, &mut rng)[0]).collect();
        assert!(!first.contains(&missing));
        assert_eq!(sender.endpoints().len(), 2);
    }

    #[test]
    fn failures_use_up_the_retry_budget_and_rejections_do_not() {
        let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3"]));
        let mut rng = fastrand::Rng::with_seed(8);
        let mut granted = |answer: fn() -> Answer| {
            let mut granted = 0;
            for _ in 0..1_000 {
                sender.choose(Timestamp::ZERO, &mut rng);
                let retries = if sender.retries_failures() { 2 } else { 0 };
                granted += u32::from(retries > 0);
                let attempts = if answer() == Answer::Failed { 1 + retries } else { 3 };
                for _ in 0..attempts {
                    let id = sender.endpoint_at("1.1.1.1:1", Timestamp::ZERO).unwrap();
                    sender.answer(id, answer(), None, Timestamp::ZERO, Timestamp::ZERO);
                }
            }
            granted
        };
        assert_eq!(granted(|| Answer::Rejected(LoadReport::default())), 1_000);
        let after_failures = granted(|| Answer::Failed);
        assert!((100..=106).contains(&after_failures), "{after_failures}: 200 retries and the burst");
        let none = ServiceSpec {
            retry_budget: Some(0.0),
            endpoints: Some(vec!["1.1.1.1:1".into()]),
            ..ServiceSpec::default()
        };
        sender.configure(none.validate().unwrap(), Timestamp::ZERO);
        assert!(!sender.retries_failures());
    }

    #[test]
    fn beyond_the_slo_and_its_grace_a_request_is_refused() {
        let spec = ServiceSpec {
            routing: Some(crate::config::RoutingKind::Mu),
            slo: Some("1s".into()),
            slo_grace: Some("100ms".into()),
            endpoints: Some(vec!["1.1.1.1:1".into()]),
            ..ServiceSpec::default()
        };
        let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
        let mut rng = fastrand::Rng::with_seed(5);
        let id = sender.endpoint_at("1.1.1.1:1", Timestamp::ZERO).unwrap();
        sender.choose(Timestamp::ZERO, &mut rng);
        assert_eq!(sender.overrun(), None, "nothing is known yet");
        for (queue, overrun) in [(10, None), (11, Some(100)), (19, Some(900))] {
            let report = LoadReport { queue: Some(queue), service: Some(10.0), ..LoadReport::default() };
            sender.endpoints_mut().answer(id, Answer::Served(report), Timestamp::ZERO);
            sender.choose(Timestamp::ZERO, &mut rng);
            let millis = sender.overrun().map(|overrun| (overrun.as_secs_f64() * 1e3).round() as u64);
            assert_eq!(millis, overrun, "queue {queue}");
        }
    }

    #[test]
    fn a_request_may_bounce_on_every_bid_and_still_has_its_retries() {
        let spec = ServiceSpec {
            routing: Some(RoutingKind::Bid),
            retries: Some(2),
            endpoints: Some((1..=9).map(|i| format!("1.1.1.{i}:1")).collect()),
            ..ServiceSpec::default()
        };
        let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
        let mut rng = fastrand::Rng::with_seed(6);
        assert_eq!(sender.retries(), 7, "five bids and two retries");
        assert_eq!(sender.choose(Timestamp::ZERO, &mut rng).len(), 8);
        assert_eq!(sender.bid(0), None, "nothing is known yet");
        let id = sender.endpoint_at("1.1.1.1:1", Timestamp::ZERO).unwrap();
        let report = LoadReport { queue: Some(9), service: Some(20.0), ..LoadReport::default() };
        let now = Timestamp::ZERO.after(Duration::from_millis(1));
        sender.answer(id, Answer::Bounced(report), None, Timestamp::ZERO, now);
        assert_eq!(sender.bid(0), Some(Duration::from_millis(450)), "0.9 of half a second");
        assert_eq!(sender.bid(4), Some(Duration::from_millis(700)));
        assert_eq!(sender.bid(5), None, "the rest goes without limit");
    }

    #[test]
    fn a_server_that_takes_every_bid_stands_last_after_the_first_place() {
        let spec = ServiceSpec {
            routing: Some(RoutingKind::Bid),
            endpoints: Some((1..=5).map(|i| format!("1.1.1.{i}:1")).collect()),
            ..ServiceSpec::default()
        };
        let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
        let mut rng = fastrand::Rng::with_seed(7);
        for i in 1..=5 {
            let id = sender.endpoint_at(&format!("1.1.1.{i}:1"), Timestamp::ZERO).unwrap();
            let bid = Some(Duration::from_millis(100));
            sender.answer(id, Answer::Bounced(LoadReport::default()), bid, Timestamp::ZERO, Timestamp::ZERO);
        }
        let silent = sender.endpoint_at("1.1.1.3:1", Timestamp::ZERO).unwrap();
        sender.answer(silent, Answer::Silent, None, Timestamp::ZERO, Timestamp::ZERO);
        let places: Vec<usize> = (0..1000)
            .map(|_| sender.choose(Timestamp::ZERO, &mut rng).iter().position(|&id| id == silent).unwrap())
            .collect();
        assert!(places.iter().all(|&place| place == 0 || place == 4), "first by its share, or last");
        let first = places.iter().filter(|&&place| place == 0).count();
        assert!((150..250).contains(&first), "{first} of 1000 first");
    }

    #[test]
    fn a_server_that_bounces_without_a_reason_is_left_alone_like_one_that_rejects() {
        let bid = Some(Duration::from_millis(100));
        let idle = LoadReport { queue: Some(0), service: Some(1000.0), ..LoadReport::default() };
        for (bid, report, chips) in [(None, LoadReport::default(), 0), (bid, idle, 0), (bid, LoadReport::default(), 1)]
        {
            let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
            let id = sender.endpoint_at("1.1.1.1:1", Timestamp::ZERO).unwrap();
            sender.endpoints_mut().begin(id, Timestamp::ZERO);
            sender.answer(id, Answer::Bounced(report), bid, Timestamp::ZERO, Timestamp::ZERO);
            assert_eq!(sender.endpoints().get(id).map(Endpoint::chips), Some(chips), "{bid:?}, {report:?}");
        }
    }

    #[test]
    fn new_parameters_keep_what_is_known() {
        let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
        let id = sender.endpoint_at("1.1.1.1:1", Timestamp::ZERO).unwrap();
        sender.endpoints_mut().begin(id, Timestamp::ZERO);
        let spec =
            ServiceSpec { endpoints: Some(vec!["1.1.1.1:1".into()]), retries: Some(0), ..ServiceSpec::default() };
        sender.configure(spec.validate().unwrap(), Timestamp::ZERO);
        assert_eq!(sender.endpoints().len(), 1);
        assert_eq!(sender.choose(Timestamp::ZERO, &mut fastrand::Rng::with_seed(4)), [id]);
        assert_eq!(sender.endpoints_mut().begin(id, Timestamp::ZERO), Some(Right::Forced), "its chip was spent before");
    }
}
