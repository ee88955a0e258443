//! What is simulated.

use crate::incident::Incident;
use crate::load::Load;
use crate::policies::PolicyKind::{self, BestOf, Bid, Central, Jsq, Reserve, ShortestResponse};
use crate::policies::reserve::Reserving;
use crate::regimes::{self, Cell, Size};
use crate::scenario::Scenario;
use bloc_figures::service_time::ServiceTime;
use bloc_policy::config::ServiceSpec;
use std::time::Duration;

/// The mean service time of the cells.
const MEAN: Duration = Duration::from_millis(50);
/// From sender to server or back, unless a row says otherwise.
const ONE_WAY: Duration = Duration::from_micros(250);
/// What a bounce takes beside the way there and back, as in the map of regimes.
const BOUNCE: Duration = Duration::from_micros(500);
/// From an answer to the next request, for a sidecar that holds the queue, as `bloc-lab handover`
/// measures it. The model that the cells are from has none.
const HAND_OVER: Duration = Duration::from_micros(300);
/// A server dies so often, one after the other, and is away for [`AWAY`].
const DEATHS: Duration = Duration::from_secs(10);
const AWAY: Duration = Duration::from_secs(1);
/// A server begins cold so often, one after the other.
const COLD: Duration = Duration::from_secs(30);

/// One policy in one case; the seed is set when it runs.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The case.
    pub scenario: Scenario,
    /// What the policy is called in the table.
    pub name: String,
}

/// What differs from the cell, and the policies that it concerns.
#[derive(Clone, Debug)]
pub struct Row {
    /// What differs; empty: nothing.
    pub name: String,
    /// All-seeing least request in this case, with which the others are compared.
    pub baseline: Scenario,
    /// The policies.
    pub compared: Vec<Compared>,
}

/// A cell, and its rows.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// The 99th percentiles of another model, in mean service times: late binding, all-seeing least
    /// request, best of two fresh looks; in the row with this name.
    pub expected: Option<(&'static str, [f64; 3])>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// The same case for another policy. What that policy does not look at has its default, so that
/// equal simulations run once.
fn of(scenario: &Scenario, policy: PolicyKind) -> Scenario {
    let mut scenario = Scenario { policy, ..scenario.clone() };
    if !matches!(policy, Reserve | Bid) {
        (scenario.service, scenario.hand_over) = (ServiceSpec::default(), Duration::ZERO);
    }
    let servers = scenario.reserve.servers;
    match policy {
        Reserve => {}
        BestOf => scenario.reserve = Reserving { servers, ..Reserving::default() },
        _ => scenario.reserve = Reserving::default(),
    }
    scenario
}

fn name(scenario: &Scenario) -> String {
    match scenario.policy {
        BestOf => format!("best of {}", scenario.reserve.servers),
        Jsq => "all-seeing least request".to_owned(),
        ShortestResponse => "all-seeing, knows speeds".to_owned(),
        Central => "central queue".to_owned(),
        Bid => "bids".to_owned(),
        other => other.name().to_owned(),
    }
}

fn row(text: &str, scenario: &Scenario, policies: &[PolicyKind]) -> Row {
    let compared = policies.iter().map(|&policy| {
        let scenario = of(scenario, policy);
        Compared { name: name(&scenario), scenario }
    });
    Row { name: text.to_owned(), baseline: of(scenario, Jsq), compared: compared.collect() }
}

/// The map of regimes at 0.25 ms one way and d = 3, one row a cell. Cells under overload are left
/// out: reservations reject nothing, so queues only grow. A freed place is granted after the time
/// of a hand-over, also where bids leave the queue to the application (`no hold`) and save that.
pub fn map(size: Size) -> Vec<Row> {
    let cells = regimes::corners().into_iter().chain(regimes::covering()).filter(|cell| !cell.is_overloaded());
    let row = |cell: Cell| {
        let scenario = Scenario { one_way: ONE_WAY, bounce: 2 * ONE_WAY + BOUNCE, ..cell.scenario(Reserve, 1, size) };
        row(&cell.to_string(), &scenario, &[Central, Reserve, Bid, BestOf])
    };
    cells.map(row).collect()
}

/// A cell of ten servers.
fn cell(times: ServiceTime, places: u32, load: f64, answers: u64) -> Scenario {
    let scenario = Scenario {
        policy: Reserve,
        servers: 10,
        concurrency: places,
        service_time: times,
        load: Load::Share(load),
        one_way: ONE_WAY,
        bounce: 2 * ONE_WAY + BOUNCE,
        service: told(Some(places)),
        ..Scenario::default()
    };
    let rate = load * 10.0 * f64::from(places) / MEAN.as_secs_f64();
    // Queues move slowly at high load.
    let answers = answers as f64 * if load >= 0.9 { 3.0 } else { 1.0 };
    // The first tenth does not count; 3% more than must be answered, as arrivals are random.
    let (warm_up, duration) = (answers / 10.0 / rate, answers * 1.03 / rate);
    Scenario { warm_up: Duration::from_secs_f64(warm_up), duration: Duration::from_secs_f64(duration), ..scenario }
}

/// What the sidecars are told; they hold the queue if they know the places.
fn told(concurrency: Option<u32>) -> ServiceSpec {
    ServiceSpec {
        concurrency: concurrency.map(i64::from),
        hold: concurrency.map(|_| true),
        max_queue_wait: Some("1h".to_owned()),
        ..ServiceSpec::default()
    }
}

/// A wrong number of places: bids leave the queue to the application then, as in the map.
fn not_held(concurrency: u32) -> ServiceSpec {
    ServiceSpec { hold: Some(false), ..told(Some(concurrency)) }
}

/// Every fifth server at 0.4 of its speed, and the load as before in proportion.
fn two_speeds(scenario: &Scenario) -> Scenario {
    Scenario { speeds: vec![0.4, 1.0, 1.0, 1.0, 1.0], ..scenario.clone() }
}

/// An incident for each of the `servers` in turn, from the end of the warm-up on.
fn in_turn(scenario: &Scenario, every: Duration, text: impl Fn(u32, Duration) -> String) -> Scenario {
    let times = (0u32..).map(|n| (n, scenario.warm_up + every * n));
    let times = times.take_while(|(_, at)| *at < scenario.warm_up + scenario.duration);
    let incident = |(n, at): (u32, Duration)| text(n % scenario.servers, at).parse::<Incident>().ok();
    // A failed attempt is repeated, as the user's retry policy would have it.
    Scenario { incidents: times.filter_map(incident).collect(), retry_failures: true, ..scenario.clone() }
}

fn rows(base: &Scenario) -> Vec<Row> {
    const ALL: [PolicyKind; 5] = [Reserve, Central, Jsq, Bid, BestOf];
    let with = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = base.clone();
        change(&mut scenario);
        scenario
    };
    let reserving = |settings: Reserving| Scenario { reserve: settings, ..base.clone() };
    let servers = |servers| reserving(Reserving { servers, ..Reserving::default() });
    let mut rows = vec![row("", base, &ALL)];
    rows[0].compared.extend(row("", &servers(2), &[BestOf]).compared);
    for micros in [100, 500, 1_000, 2_000] {
        let one_way = Duration::from_micros(micros);
        let scenario = with(&|case| (case.one_way, case.bounce) = (one_way, 2 * one_way + BOUNCE));
        rows.push(row(&format!("{one_way:?} one way"), &scenario, &ALL));
    }
    for d in [2, 4] {
        rows.push(row(&format!("d = {d}"), &servers(d), &[Reserve, BestOf]));
    }
    let question = Reserving { question: true, ..Reserving::default() };
    rows.push(row("the first look is a question", &reserving(question), &[Reserve]));
    rows.push(row("hand-over of 0.3 ms", &with(&|case| case.hand_over = HAND_OVER), &[Reserve, Bid]));
    rows.extend(speeds(base));
    let places = base.concurrency;
    if places > 1 {
        let half = with(&|case| case.service = not_held(places / 2));
        rows.push(row("`concurrency` half the truth", &half, &[Reserve, Bid]));
    }
    let twice = with(&|case| case.service = not_held(places * 2));
    rows.push(row("`concurrency` twice the truth", &twice, &[Reserve, Bid]));
    rows.push(row("`concurrency` unknown", &with(&|case| case.service = told(None)), &[Reserve, Bid]));
    for lost in [0.01, 0.1] {
        let text = format!("{:.0}% of cancellations and grants lost", lost * 100.0);
        rows.push(row(&text, &reserving(Reserving { lost, ..Reserving::default() }), &[Reserve]));
    }
    let die = Reserving { callers_die: 0.01, ..Reserving::default() };
    rows.push(row("1% of callers die with a grant", &reserving(die), &[Reserve]));
    let millis = |time: Duration| format!("{}ms", time.as_millis());
    let dead = in_turn(base, DEATHS, |server, at| format!("down:{server}@{}-{}", millis(at), millis(at + AWAY)));
    rows.push(row("each 10 s a server dies for 1 s", &dead, &ALL));
    let cold = in_turn(base, COLD, |server, at| format!("cold:{server}@{}=0.025", millis(at)));
    rows.push(row("each 30 s a server begins slowly", &cold, &ALL));
    let wrong = format!("refusing:0@{}=1", millis(base.warm_up / 2)).parse::<Incident>();
    let wrong = with(&|case| case.incidents = wrong.iter().cloned().collect());
    rows.push(row("one server answers at once, wrongly", &wrong, &ALL));
    rows
}

/// Two speeds, not known and known.
fn speeds(base: &Scenario) -> [Row; 2] {
    let slow = two_speeds(base);
    let weighs = Scenario { reserve: Reserving { weighs: true, ..Reserving::default() }, ..slow.clone() };
    let (unknown, known) = ("every fifth at 0.4 of its speed", "the same, speeds known");
    [row(unknown, &slow, &[Reserve, Central, Jsq, Bid, BestOf]), row(known, &weighs, &[Reserve, ShortestResponse])]
}

/// The cells; `answers` count in each simulation at least, three times as many at 90% load.
pub fn sections(answers: u64) -> Vec<Section> {
    let exponential = cell(ServiceTime::Exponential(MEAN), 1, 0.9, answers);
    let lognormal = cell(ServiceTime::Lognormal(MEAN, 2.0), 2, 0.8, answers);
    let fixed = cell(ServiceTime::Fixed(MEAN), 1, 0.9, answers);
    let four = cell(ServiceTime::Exponential(MEAN), 4, 0.8, answers);
    let section = |name: &str, expected, rows| Section { name: name.to_owned(), expected: Some(expected), rows };
    let mut slow: Vec<Row> = speeds(&four).into();
    let two_looks = Reserving { servers: 2, ..Reserving::default() };
    let two_looks = Scenario { reserve: two_looks, ..two_speeds(&four) };
    slow[0].compared.extend(row("", &two_looks, &[BestOf]).compared);
    vec![
        section("10 x 1, exponential, 90%", ("", [6.8, 8.1, 10.6]), rows(&exponential)),
        section("10 x 2, lognormal (2), 80%", ("", [16.3, 21.4, 52.8]), rows(&lognormal)),
        section("10 x 1, fixed, 90%", ("", [3.7, 3.0, 4.2]), rows(&fixed)),
        section("10 x 4, exponential, 80%", ("every fifth at 0.4 of its speed", [6.4, 5.3, 5.8]), slow),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_can_be_simulated_and_rows_of_a_cell_differ() {
        let map = map(Size { answers: 1_000, warm_up: 100 });
        assert!(map.len() > 90, "{}", map.len());
        let sections = sections(1_000);
        let mut names = BTreeSet::new();
        for (section, row) in
            sections.iter().flat_map(|section| section.rows.iter().map(move |row| (&section.name, row)))
        {
            assert!(names.insert((section, &row.name)), "{section}: {}", row.name);
        }
        for row in sections.iter().flat_map(|section| &section.rows).chain(&map) {
            for compared in &row.compared {
                compared.scenario.validate().unwrap_or_else(|error| panic!("{}: {error}", row.name));
            }
            row.baseline.validate().unwrap_or_else(|error| panic!("{}: {error}", row.name));
            assert_eq!(row.baseline.policy, Jsq);
        }
    }

    #[test]
    fn incidents_hit_one_server_after_the_other_while_it_counts() {
        let base = cell(ServiceTime::Fixed(MEAN), 1, 0.9, 5_000);
        let seconds = base.duration.as_secs_f64();
        let hit = in_turn(&base, DEATHS, |server, at| format!("down:{server}@{}ms", at.as_millis()));
        assert_eq!(hit.incidents.len() as f64, (seconds / DEATHS.as_secs_f64()).ceil());
        assert_eq!(hit.incidents[3].last_server(), 3);
        assert!(hit.retry_failures);
    }

    #[test]
    fn what_a_policy_does_not_look_at_makes_no_other_case() {
        let base = cell(ServiceTime::Fixed(MEAN), 1, 0.9, 5_000);
        let other =
            Scenario { reserve: Reserving { lost: 0.5, ..Reserving::default() }, service: told(None), ..base.clone() };
        for policy in [Jsq, Central, BestOf] {
            assert_eq!(of(&base, policy), of(&other, policy), "{policy:?}");
        }
        assert_ne!(of(&base, Reserve), of(&other, Reserve));
        assert_ne!(of(&base, Bid), of(&other, Bid));
    }
}
