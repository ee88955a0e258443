//! One application at this replica: what it has heard, and the asks that wait for a write.
//!
//! An ask that changes nothing is answered at once. The others wait for the write under way, and
//! then all of them go into one record. Hence their number does not decide how often the API server
//! is called, and two asks at one replica do not conflict.

use super::store::Known;
use bloc_daemon::lock;
use bloc_daemon::shares::Share;
use bloc_leases::{Ask, Grantor, MOST_NODES, Record, Told};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::oneshot;

/// Why an application is missing from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsaid {
    /// A later ask of the node has replaced it.
    Late,
    /// Another replica has written the record meanwhile.
    Conflict,
    /// The record could not be written in time.
    Failed,
    /// The record cannot be used.
    Unread,
    /// There is no room for another application or node, or a count is too large.
    NoRoom,
}

/// The answer about an application.
pub type Answer = Result<Told, Unsaid>;

/// An ask that waits for a write.
#[derive(Debug)]
pub struct Waiting {
    life: u64,
    ask: Ask,
    answer: oneshot::Sender<Answer>,
}

/// What to write together.
#[derive(Debug, Default)]
pub struct Batch {
    /// By node.
    asks: BTreeMap<String, Waiting>,
    /// Nodes that no longer exist.
    gone: BTreeSet<String>,
}

/// The answer, or where it will come from.
pub enum Said {
    Now(Answer),
    /// The flag: whether to start a writing task.
    Later(oneshot::Receiver<Answer>, bool),
}

/// The result of a batch.
pub struct Heard {
    pub record: Record,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
}

#[derive(Debug)]
struct State {
    grantor: Grantor,
    batch: Batch,
    is_writing: bool,
    /// When a node last asked about it.
    asked: Duration,
}

/// An application. Times are since the start of this replica.
#[derive(Debug)]
pub struct App {
    /// Its place among all, charged to the node that asked first.
    _place: Share,
    state: Mutex<State>,
}

impl App {
    pub fn new(place: Share, now: Duration) -> Self {
        let state = State { grantor: Grantor::default(), batch: Batch::default(), is_writing: false, asked: now };
        Self { _place: place, state: Mutex::new(state) }
    }

    /// Hears an ask, given the known record.
    pub fn receive(&self, known: &Known, node: &str, life: u64, ask: Ask, now: Duration) -> Said {
        let mut state = lock(&self.state);
        state.asked = now;
        let mut record = (*known.record).clone();
        match receive(&mut state.grantor, &mut record, node, life, &ask, now) {
            Ok(_) if record != *known.record => {}
            answer => return Said::Now(answer),
        }
        let asks = &mut state.batch.asks;
        if asks.get(node).is_some_and(|other| (other.life, other.ask.number) > (life, ask.number)) {
            return Said::Now(Err(Unsaid::Late));
        }
        if asks.len() >= MOST_NODES && !asks.contains_key(node) {
            return Said::Now(Err(Unsaid::NoRoom));
        }
        let (answer, receiver) = oneshot::channel();
        // An agent's new ask replaces its previous one, whose answer nobody awaits.
        asks.insert(node.to_owned(), Waiting { life, ask, answer });
        Said::Later(receiver, !std::mem::replace(&mut state.is_writing, true))
    }

    /// A node no longer exists. Returns whether to start a task that writes.
    pub fn free(&self, node: String) -> bool {
        let mut state = lock(&self.state);
        state.batch.gone.insert(node);
        !std::mem::replace(&mut state.is_writing, true)
    }

    /// What has come since; none: nothing, and the writing task ends.
    pub fn take(&self) -> Option<Batch> {
        let mut state = lock(&self.state);
        let batch = std::mem::take(&mut state.batch);
        state.is_writing = !batch.asks.is_empty() || !batch.gone.is_empty();
        state.is_writing.then_some(batch)
    }

    /// The writing task is gone. What has come since waits for the next one.
    pub fn stop(&self) {
        lock(&self.state).is_writing = false;
    }

    /// Makes the record to write from the known one. `is_silent`: whether a node still is;
    /// `may_begin`: whether a node may have an entry in one more record.
    pub fn apply(
        &self,
        batch: Batch,
        known: &Known,
        is_silent: impl Fn(&str) -> bool,
        may_begin: impl Fn(&str) -> bool,
        now: Duration,
    ) -> Heard {
        let mut state = lock(&self.state);
        let mut record = (*known.record).clone();
        for node in batch.gone.iter().filter(|node| is_silent(node)) {
            record.free(node);
        }
        let answers = batch.asks.into_iter().map(|(node, waiting)| {
            let Waiting { life, ask, answer } = waiting;
            if record.entry(&node).is_none() && !ask.is_nothing() && !may_begin(&node) {
                return (answer, Err(Unsaid::NoRoom));
            }
            (answer, receive(&mut state.grantor, &mut record, &node, life, &ask, now))
        });
        let answers = answers.collect();
        Heard { record, answers }
    }

    /// When a node last asked about it; none: a write is due.
    pub fn idle_since(&self) -> Option<Duration> {
        let state = lock(&self.state);
        (!state.is_writing).then_some(state.asked)
    }
}

impl Batch {
    /// Tells the waiting asks why they get no answer.
    pub fn fail(self, why: Unsaid) {
        for waiting in self.asks.into_values() {
            // The receiver may have stopped waiting.
            let _ = waiting.answer.send(Err(why));
        }
    }
}

impl Heard {
    /// Answers with what was written, or why it was not.
    pub fn say(self, written: Result<(), Unsaid>) {
        for (sender, answer) in self.answers {
            let _ = sender.send(written.and(answer));
        }
    }
}

fn receive(grantor: &mut Grantor, record: &mut Record, node: &str, life: u64, ask: &Ask, now: Duration) -> Answer {
    grantor.receive(record, node, life, ask, now).ok_or(Unsaid::NoRoom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_daemon::shares::Shares;
    use bloc_leases::Part;

    fn app() -> App {
        App::new(Shares::capped(1, 1).take("n", 1).unwrap(), Duration::ZERO)
    }

    fn ask(number: u64, part: u32) -> Ask {
        let part = Part::millionths(part);
        Ask { name: "a/b".into(), number, part, wants: Part::WHOLE, least: Part::ZERO, own: None }
    }

    fn later(app: &App, known: &Known, ask: Ask) -> oneshot::Receiver<Answer> {
        match app.receive(known, "n", 1, ask, Duration::ZERO) {
            Said::Later(receiver, _) => receiver,
            Said::Now(answer) => panic!("{answer:?}"),
        }
    }

    #[test]
    fn of_the_asks_of_a_node_only_the_last_one_waits() {
        let (app, known) = (app(), Known::default());
        let mut first = later(&app, &known, ask(1, 300_000));
        let mut second = later(&app, &known, ask(2, 200_000));
        assert!(first.try_recv().is_err(), "nobody waits for it");
        let late = app.receive(&known, "n", 1, ask(1, 300_000), Duration::ZERO);
        assert!(matches!(late, Said::Now(Err(Unsaid::Late))));
        let heard = app.apply(app.take().unwrap(), &known, |_| true, |_| true, Duration::ZERO);
        assert_eq!(heard.record.part("n").get(), 200_000);
        heard.say(Ok(()));
        assert_eq!(second.try_recv().unwrap().unwrap().number, 2);
        assert!(app.take().is_none() && app.take().is_none());
    }

    #[test]
    fn a_node_that_is_heard_before_the_write_is_not_freed() {
        let (app, known) = (app(), Known::default());
        drop(later(&app, &known, ask(1, 300_000)));
        let record = app.apply(app.take().unwrap(), &known, |_| true, |_| true, Duration::ZERO).record;
        let known = Known { record: record.into(), version: Some("1".into()) };
        for is_silent in [false, true] {
            app.free("n".into());
            let record = app.apply(app.take().unwrap(), &known, |_| is_silent, |_| true, Duration::ZERO).record;
            assert_eq!(record.part("n").get(), if is_silent { 0 } else { 300_000 });
        }
    }

    #[test]
    fn no_room_in_the_record_is_no_room() {
        let record = (0..MOST_NODES).map(|nth| format!(r#""n{nth}":{{"life":1,"number":0,"part":0}}"#));
        let text = format!(r#"{{"nodes":{{{}}}}}"#, record.collect::<Vec<_>>().join(","));
        let record: Record = serde_json::from_str(&text).unwrap();
        let (app, known) = (app(), Known { record: record.into(), version: None });
        let said = |known: &Known, count: u64| app.receive(known, "n", count, ask(count, 0), Duration::ZERO);
        assert!(matches!(said(&known, 1), Said::Now(Err(Unsaid::NoRoom))));
        assert!(matches!(said(&Known::default(), 1 << 53), Said::Now(Err(Unsaid::NoRoom))));
    }
}
