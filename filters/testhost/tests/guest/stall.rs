//! Workers that stall while requests are in the wait queue: each request is let in or rejected.

use crate::support::{FROM_SIDECAR, GET, admitted, inbound, metric, process};
use bloc_testhost::{Flow, Process, Root, Stream};
use serde_json::json;
use std::time::Duration;

/// How long a request takes.
const SERVICE_TIME: Duration = Duration::from_millis(100);
const REQUESTS: usize = 16;

/// Sends requests to the two workers in turn; returns those inside and those that wait.
fn requests(workers: &[Root; 2]) -> (Vec<Stream>, Vec<Stream>) {
    let (mut inside, mut held) = (Vec::new(), Vec::new());
    for n in 0..REQUESTS {
        let mut stream = workers[n % 2].stream();
        match stream.request_headers([&GET[..], &FROM_SIDECAR].concat().as_slice(), true) {
            Flow::Pause => held.push(stream),
            _ => inside.push(stream),
        }
    }
    (inside, held)
}

/// Ends requests until none waits; returns how many were let in, and how many bounced.
fn serve(process: &Process, mut inside: Vec<Stream>, mut held: Vec<Stream>) -> (usize, usize) {
    let (mut served, mut bounced) = (0, 0);
    for _ in 0..400 {
        process.advance(SERVICE_TIME);
        served += inside.len();
        inside.drain(..).for_each(Stream::done);
        process.deliver();
        let (over, waiting): (Vec<Stream>, Vec<Stream>) = held.into_iter().partition(|stream| stream.reply().is_some());
        bounced += over.len();
        over.into_iter().for_each(Stream::done);
        (inside, held) = waiting.into_iter().partition(Stream::is_resumed);
        if inside.is_empty() && held.is_empty() {
            break;
        }
    }
    assert_eq!(held.len(), 0, "these wait for ever");
    (served, bounced)
}

fn stalled(seconds: f64, who: [bool; 2]) {
    println!("{seconds} s, {who:?}");
    let process = process(seconds.to_bits());
    let workers = [0, 1].map(|_| inbound(&process, &json!({"concurrency": 1, "hold": true})));
    process.deliver();
    let (inside, held) = requests(&workers);
    assert_eq!((inside.len(), held.len()), (1, REQUESTS - 1));
    for (worker, stands) in workers.iter().zip(who) {
        worker.vm().stand_still(stands);
    }
    process.advance(Duration::from_secs_f64(seconds));
    for worker in workers.iter().rev() {
        worker.vm().stand_still(false);
        // The worker that wakes first is alone for a while.
        process.advance(Duration::from_millis(60));
    }
    let (served, bounced) = serve(&process, inside, held);
    println!("served {served}, bounced {bounced}");
    assert_eq!(served + bounced, REQUESTS);
    // The stalled worker's requests could still be answered in time.
    assert!(bounced == 0 || seconds > 12.0, "{bounced} bounced");
    process.advance(Duration::from_secs(10));
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(0));
    drop(admitted(&workers[0]));
}

#[test]
fn every_request_is_answered_when_one_worker_stalls() {
    for seconds in [1.0, 2.5, 3.0, 6.0, 20.0] {
        stalled(seconds, [true, false]);
        stalled(seconds, [false, true]);
    }
}

#[test]
fn every_request_is_answered_when_all_workers_stall() {
    for seconds in [1.0, 2.5, 3.0, 6.0, 20.0] {
        stalled(seconds, [true, true]);
    }
}

/// Even without a deadline: `maxQueueWait` has a default.
#[test]
fn rejects_held_requests_after_the_default_maximum_wait() {
    let process = process(1);
    let workers = [0, 1].map(|_| inbound(&process, &json!({"concurrency": 1, "hold": true})));
    let (inside, held) = requests(&workers);
    process.advance(Duration::from_millis(14_900));
    assert!(held.iter().all(|stream| stream.reply().is_none()));
    process.advance(Duration::from_millis(200));
    for stream in &held {
        let reply = stream.reply().expect("an answer");
        assert_eq!((reply.status(), reply.details.as_str()), (429, "bloc_deadline"));
    }
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(1));
    drop(inside);
}
