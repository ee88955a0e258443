//! The simulation: one sender with random arrivals, servers that serve one request at a time, in
//! order.

use bloc_figures::stats::quantile;
use bloc_policy::config::{CapacitySpec, RoutingKind, ServiceSpec};
use bloc_policy::endpoints::{Answer, EndpointId};
use bloc_policy::sender::{Attempt, Sender};
use bloc_policy::server::Server;
use bloc_policy::server::steps::{Inside, OneThread};
use bloc_policy::units::{Concurrency, Timestamp};
use bloc_policy::wire::bid::{self, Bid, Caller};
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::reason::Reason;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;

/// How many servers there usually are. The first is the liar.
pub const SERVERS: usize = 10;
/// What a server takes for a request.
pub const SERVICE: Duration = Duration::from_millis(50);
/// The reset interval of the service.
pub const RESET: Duration = Duration::from_millis(500);
/// How long a sender waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How the liar treats a request.
#[derive(Clone, Copy)]
pub enum Lie {
    /// It tells the truth.
    None,
    /// It admits and serves everything, and says this.
    Says(&'static [u8]),
    /// It rejects everything, for its capacity, and says this.
    Rejects(&'static [u8]),
    /// It bounces everything, for the bid, and says this.
    Bounces(&'static [u8]),
    /// It admits everything, takes so long for each request, however many it has, and says this.
    Delays(&'static [u8], Duration),
    /// The same, except that it serves attempts that bid in time.
    DelaysWithoutBid(&'static [u8], Duration),
    /// It takes everything and answers nothing.
    Swallows,
}

impl Lie {
    /// What it reports with its answers, if that is not the truth.
    fn says(self) -> Option<&'static [u8]> {
        match self {
            Self::Says(text) | Self::Delays(text, _) | Self::DelaysWithoutBid(text, _) => Some(text),
            _ => None,
        }
    }

    /// How long it keeps an attempt, if not as long as an honest server.
    fn keeps(self, bids: bool) -> Option<Duration> {
        match self {
            Self::Delays(_, time) => Some(time),
            Self::DelaysWithoutBid(_, time) => Some(if bids { SERVICE } else { time }),
            _ => None,
        }
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned();
        match self {
            Self::None => f.write_str("honest"),
            Self::Says(text) => write!(f, "says {:?}", shown(text)),
            Self::Rejects(text) => write!(f, "rejects, {:?}", shown(text)),
            Self::Bounces(text) => write!(f, "bounces, {:?}", shown(text)),
            Self::Delays(text, time) => write!(f, "takes {time:?}, says {:?}", shown(text)),
            Self::DelaysWithoutBid(text, time) => write!(f, "takes {time:?} without a bid, says {:?}", shown(text)),
            Self::Swallows => f.write_str("swallows"),
        }
    }
}

/// What has happened.
#[derive(Debug, Default)]
pub struct Tally {
    /// Attempts at each server.
    pub attempts: Vec<u64>,
    /// Requests that each server served.
    pub served: Vec<u64>,
    /// Requests that were answered, by how long they took, in milliseconds.
    pub took: Vec<u64>,
    /// Requests that no server took.
    pub lost: u64,
    /// The most requests that the liar had at once.
    pub most_at_liar: usize,
}

impl Tally {
    fn of(servers: usize) -> Self {
        Self { attempts: vec![0; servers], served: vec![0; servers], ..Self::default() }
    }

    /// The liar's share of what was served.
    pub fn share(&self) -> f64 {
        self.served[0] as f64 / self.served.iter().sum::<u64>().max(1) as f64
    }

    /// The mean response time of what was served, in milliseconds.
    pub fn mean(&self) -> f64 {
        self.took.iter().sum::<u64>() as f64 / self.took.len().max(1) as f64
    }

    /// The response time that 99 of 100 requests stay under, in milliseconds.
    pub fn p99(&self) -> u64 {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        quantile(&sorted, 0.99).unwrap()
    }
}

struct Place {
    id: EndpointId,
    address: String,
    server: Server,
    /// What is in it, and when that is done.
    line: Vec<usize>,
    free: Timestamp,
    thread: OneThread,
}

struct Request {
    came: Timestamp,
    list: Vec<EndpointId>,
    /// The one under way, or the last one.
    attempt: Option<Attempt>,
    /// None where its server lies: it may have let in what it would reject.
    inside: Option<Inside>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive,
    /// The server answers the request.
    Depart(usize, usize),
    TimeOut(usize),
}

/// How a sender chooses, and how many requests of others each server reports besides its own.
pub const SENDERS: [(RoutingKind, u32); 4] =
    [(RoutingKind::Bloc, 0), (RoutingKind::Bid, 1), (RoutingKind::Bid, 0), (RoutingKind::Mu, 0)];

/// A report of a server that also has this many requests of others.
fn with_strangers(report: LoadReport, strangers: u32) -> LoadReport {
    LoadReport { queue: report.queue.map(|queue| queue + strangers), ..report }
}

/// The sender, its servers, and what is under way.
pub struct Mesh {
    now: Timestamp,
    rng: fastrand::Rng,
    sender: Sender,
    places: Vec<Place>,
    requests: Vec<Request>,
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    scheduled: u64,
    gap: Duration,
    lie: Lie,
    strangers: u32,
    tally: Tally,
}

impl Mesh {
    /// A mesh in which servers are busy for this share of their time.
    pub fn new(sender: (RoutingKind, u32), load: f64, seed: u64) -> Self {
        Self::of(SERVERS, sender, load, seed)
    }

    /// The same, with so many servers.
    pub fn of(servers: usize, (routing, strangers): (RoutingKind, u32), load: f64, seed: u64) -> Self {
        let addresses: Vec<String> = (0..servers).map(|i| format!("10.0.0.{i}:80")).collect();
        let spec = ServiceSpec {
            routing: Some(routing),
            concurrency: Some(1),
            hold: Some(false),
            capacity: Some(CapacitySpec::Static { limit: 100 }),
            reset_interval: Some(format!("{}ms", RESET.as_millis())),
            endpoints: Some(addresses.clone()),
            ..ServiceSpec::default()
        };
        let parameters = spec.validate().unwrap();
        let sender = Sender::new(parameters.clone(), Timestamp::ZERO);
        let place = |address: &String| Place {
            id: sender.endpoints().find(address).unwrap(),
            address: address.clone(),
            server: Server::new(&parameters),
            line: Vec::new(),
            free: Timestamp::ZERO,
            thread: OneThread::default(),
        };
        let places = addresses.iter().map(place).collect();
        let mut mesh = Self {
            now: Timestamp::ZERO,
            rng: fastrand::Rng::with_seed(seed),
            places,
            sender,
            requests: Vec::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
            gap: SERVICE.div_f64(servers as f64 * load),
            lie: Lie::None,
            strangers,
            tally: Tally::of(servers),
        };
        mesh.schedule(Duration::ZERO, Event::Arrive);
        mesh
    }

    /// From now on the first server does this.
    pub fn lie(&mut self, lie: Lie) {
        self.lie = lie;
    }

    /// Goes on for so long, and tells what happened meanwhile.
    pub fn run(&mut self, time: Duration) -> Tally {
        self.tally = Tally::of(self.places.len());
        let end = self.now.after(time);
        while let Some(&Reverse((at, _, event))) = self.events.peek()
            && at <= end
        {
            self.events.pop();
            self.now = at;
            match event {
                Event::Arrive => self.arrive(),
                Event::Depart(place, request) => self.depart(place, request),
                Event::TimeOut(request) => self.time_out(request),
            }
        }
        self.now = end;
        std::mem::take(&mut self.tally)
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now.after(after), self.scheduled, event)));
    }

    fn arrive(&mut self) {
        let gap = self.gap.mul_f64(-(1.0 - self.rng.f64()).ln());
        self.schedule(gap, Event::Arrive);
        let list = self.sender.choose(self.now, &mut self.rng).to_vec();
        self.requests.push(Request { came: self.now, list, attempt: None, inside: None });
        self.attempt(self.requests.len() - 1);
    }

    /// Tries the servers of a request's list, until one takes it. The network takes no time.
    fn attempt(&mut self, index: usize) {
        let now = self.now;
        let mut retries = self.sender.retries(0, true);
        for id in self.requests[index].list.clone() {
            let at = self.places.iter().position(|place| place.id == id).unwrap();
            self.tally.attempts[at] += 1;
            let attempt = self.sender.begin(&self.places[at].address, retries.bid(), now).unwrap();
            let verdict = self.knock(at, attempt.bid);
            let request = &mut self.requests[index];
            request.attempt = Some(attempt);
            match verdict {
                Ok(inside) => {
                    request.inside = inside;
                    return self.enter(at, index);
                }
                Err(answer) => {
                    self.sender.answer(&attempt, answer, now);
                    if matches!(answer, Answer::Rejected(_)) {
                        self.sender.refused_as_full();
                    }
                    self.sender.end(&attempt);
                    let again = match &answer {
                        Answer::Bounced(report) => retries.rejected_for(Some(Reason::Bid), attempt.bid, report),
                        _ => retries.rejected(true),
                    };
                    if !again {
                        break;
                    }
                }
            }
        }
        self.tally.lost += 1;
    }

    /// Whether a server lets a request in.
    fn knock(&mut self, at: usize, bid: Option<Bid>) -> Result<Option<Inside>, Answer> {
        let place = &mut self.places[at];
        let others = Concurrency::new(place.line.len() as u32);
        // As it comes over the wire.
        let mut text = String::new();
        if let Some(bid) = bid {
            bid::encode(bid, &mut text);
        }
        let bid = Caller::of(Some(text.as_bytes())).bid;
        let admitted = place.server.arrive(others, bid, None, &place.thread, self.now);
        let inside = admitted.map(|admitted| place.server.hand_over(admitted, false, &mut place.thread, self.now));
        let said = |text: &[u8]| LoadReport::decode(text);
        match (self.lie, inside) {
            (Lie::Rejects(text), _) if at == 0 => Err(said(text).map_or(Answer::Unreported, Answer::Rejected)),
            (Lie::Bounces(text), _) if at == 0 => Err(said(text).map_or(Answer::Unreported, Answer::Bounced)),
            (Lie::Says(_) | Lie::Delays(..) | Lie::DelaysWithoutBid(..) | Lie::Swallows, inside) if at == 0 => {
                Ok(inside.ok())
            }
            (_, Ok(inside)) => Ok(Some(inside)),
            (_, Err(Reason::Bid)) => {
                Err(Answer::Bounced(with_strangers(place.server.bare_report(others), self.strangers)))
            }
            (_, Err(_)) => Err(Answer::Rejected(with_strangers(place.server.bare_report(others), self.strangers))),
        }
    }

    fn enter(&mut self, at: usize, request: usize) {
        self.places[at].line.push(request);
        if at == 0 {
            self.tally.most_at_liar = self.tally.most_at_liar.max(self.places[0].line.len());
        }
        if at == 0 && matches!(self.lie, Lie::Swallows) {
            return self.schedule(TIMEOUT, Event::TimeOut(request));
        }
        let bids = self.requests[request].attempt.unwrap().bid.is_some();
        let kept = self.lie.keeps(bids).filter(|_| at == 0).unwrap_or_else(|| {
            let free = &mut self.places[at].free;
            *free = (*free).max(self.now).after(SERVICE);
            free.since(self.now)
        });
        self.schedule(kept, Event::Depart(at, request));
    }

    fn depart(&mut self, at: usize, request: usize) {
        let place = &mut self.places[at];
        place.line.retain(|&waiting| waiting != request);
        let (request, now) = (&mut self.requests[request], self.now);
        let attempt = request.attempt.unwrap();
        let others = Concurrency::new(place.line.len() as u32);
        if let Some(inside) = request.inside.take() {
            place.server.answer(inside, true, others, &mut place.thread, now);
        }
        place.server.tick(&place.thread, || true, now);
        let mut text = String::new();
        let report = place.server.report(others, &mut self.rng);
        with_strangers(report, self.strangers).encode(&mut text);
        let said = self.lie.says().filter(|_| at == 0).unwrap_or(text.as_bytes());
        let answer = LoadReport::decode(said).map_or(Answer::Unreported, Answer::Served);
        self.sender.answer(&attempt, answer, now);
        self.sender.end(&attempt);
        self.tally.served[at] += 1;
        self.tally.took.push(now.since(request.came).as_millis() as u64);
    }

    fn time_out(&mut self, request: usize) {
        let place = &mut self.places[0];
        place.line.retain(|&waiting| waiting != request);
        if let Some(inside) = self.requests[request].inside.take() {
            place.server.leave(inside, Concurrency::new(place.line.len() as u32), self.now);
        }
        let attempt = self.requests[request].attempt.unwrap();
        self.sender.answer(&attempt, Answer::Failed, self.now);
        self.sender.end(&attempt);
        self.tally.lost += 1;
    }
}
