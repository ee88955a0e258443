//! When the running request began: all threads of a proxy know it, whichever has it.

use crate::host::Process;
use crate::inbound::{ANSWER, Request, Server};
use crate::thread::Thread;
use bloc_policy::proxy::shared::Shared;
use std::rc::Rc;
use std::time::Duration;

const KEY: &str = "bloc/start/s";
/// What a request takes.
const TIME: u64 = 200;

struct Proxy {
    process: Rc<Process>,
    threads: [Server; 2],
}

fn bids(hold: bool) -> String {
    format!(r#""routing":"bid","concurrency":1,"hold":{hold}"#)
}

impl Proxy {
    fn new(spec: &str) -> Self {
        let process = Process::new(1);
        let threads = [(); 2].map(|()| {
            let thread = Thread::of(&process);
            let configuration = format!(r#"{{"service":"s","services":{{"s":{{{spec}}}}}}}"#);
            let root = thread.plug(1, "bloc.inbound", &configuration);
            Server { thread, root }
        });
        Self { process, threads }
    }

    /// Both threads have served requests of the same time, one at a time.
    fn warm(hold: bool) -> Self {
        let proxy = Self::new(&bids(hold));
        for request in 0..1_000 {
            let mut request = proxy.threads[request % 2].comes(&[]);
            proxy.passes(TIME);
            request.answered(&ANSWER, true);
        }
        proxy
    }

    fn passes(&self, millis: u64) {
        self.process.advance(Duration::from_millis(millis));
    }

    /// Whether a thread admits a bid in milliseconds.
    fn admits(&self, thread: usize, bid: u64) -> bool {
        self.threads[thread].comes(&[("x-bloc-bid", &bid.to_string())]).status().is_none()
    }

    /// Whether a thread takes the request that it meets for new (459 ms, but for small errors), for
    /// 190 ms old (318 ms), or does not know (400 ms).
    fn sees(&self, thread: usize) -> &'static str {
        match [360, 430].map(|bid| self.admits(thread, bid)) {
            [true, true] => "old",
            [false, true] => "unknown",
            _ => "new",
        }
    }

    fn writes(&self) -> bool {
        self.process.keys().iter().any(|key| key == KEY)
    }
}

#[test]
fn a_thread_knows_the_age_of_another_threads_request_that_came_to_a_free_place() {
    for hold in [true, false] {
        let proxy = Proxy::warm(hold);
        let inside = proxy.threads[0].comes(&[]);
        assert_eq!([0, 1].map(|thread| proxy.sees(thread)), ["new"; 2], "{hold}");
        proxy.passes(190);
        assert_eq!([0, 1].map(|thread| proxy.sees(thread)), ["old"; 2], "{hold}");
        drop(inside);
    }
}

#[test]
fn a_deadline_is_compared_with_it_too() {
    let proxy = Proxy::warm(false);
    let _inside = proxy.threads[0].comes(&[]);
    let in_time =
        |proxy: &Proxy| proxy.threads[1].comes(&[("x-envoy-expected-rq-timeout-ms", "360")]).status().is_none();
    assert!(!in_time(&proxy));
    proxy.passes(190);
    assert!(in_time(&proxy));
}

/// A request of each thread. Then the first thread's is over, and the second one's begins: what
/// both threads see at once, and 190 ms later.
fn passed_on(hold: bool, end: impl FnOnce(Request)) -> [[&'static str; 2]; 2] {
    let proxy = Proxy::warm(hold);
    let first = proxy.threads[0].comes(&[]);
    let second = proxy.threads[1].comes(&[]);
    proxy.passes(TIME);
    end(first);
    proxy.threads[1].hears();
    assert_eq!(second.entered(), hold);
    let see = || [0, 1].map(|thread| proxy.sees(thread));
    let new = see();
    proxy.passes(190);
    [new, see()]
}

#[test]
fn the_next_request_begins_when_the_one_before_it_is_over_in_any_thread() {
    for hold in [true, false] {
        let answered = passed_on(hold, |mut first| first.answered(&ANSWER, true));
        assert_eq!(answered, [["new"; 2], ["old"; 2]], "{hold}");
    }
    assert_eq!(passed_on(true, drop), [["new"; 2], ["old"; 2]], "its place is passed on");
    assert_eq!(passed_on(false, drop), [["old"; 2]; 2], "the application may still work on it");
}

/// A body that is too large to be held lets its request in beside the one inside.
#[test]
fn a_request_that_enters_over_the_limit_begins() {
    let proxy = Proxy::warm(true);
    let _inside = proxy.threads[0].comes(&[]);
    proxy.passes(190);
    let _large = proxy.threads[1].comes(&[("content-length", "9000000")]);
    // For two others: 200 ms more.
    assert!(!proxy.admits(0, 630));
    proxy.passes(190);
    assert!(proxy.admits(0, 560));
}

#[test]
fn the_start_of_a_lost_threads_request_counts_for_nothing_when_it_would_be_long_over() {
    let mut proxy = Proxy::warm(false);
    let lost = proxy.threads[0].comes(&[]);
    // Nothing runs any more in that thread.
    std::mem::forget(lost);
    proxy.passes(190);
    assert_eq!(proxy.sees(1), "old");
    proxy.passes(300);
    assert_eq!(proxy.sees(1), "unknown");
    // The others count again without it.
    proxy.threads[1].ticks(20);
    let _inside = proxy.threads[1].comes(&[]);
    assert_eq!(proxy.sees(1), "new");
}

#[test]
fn a_start_that_is_absent_or_cannot_be_read_counts_for_nothing() {
    for bytes in [&[][..], &[1; 7], &[1; 9]] {
        let proxy = Proxy::warm(false);
        let _inside = proxy.threads[0].comes(&[]);
        proxy.threads[0].thread.host.overwrite(KEY, bytes);
        assert_eq!(proxy.sees(1), "unknown", "{bytes:?}");
    }
    let proxy = Proxy::warm(false);
    let _inside = proxy.threads[0].comes(&[]);
    proxy.threads[0].thread.host.overwrite(KEY, &u64::MAX.to_le_bytes());
    assert_eq!(proxy.sees(1), "new", "in the future");
}

#[test]
fn nothing_is_written_where_no_age_counts() {
    for spec in [
        r#""routing":"bid","concurrency":2,"hold":true"#,
        r#""routing":"bloc","concurrency":1,"hold":true"#,
        r#""routing":"bid""#,
    ] {
        let proxy = Proxy::new(spec);
        let _inside = [0, 1, 0].map(|thread| proxy.threads[thread].comes(&[("x-bloc-bid", "5")]));
        assert!(!proxy.writes(), "{spec}");
    }
    let proxy = Proxy::new(&bids(true));
    let _inside = proxy.threads[0].comes(&[]);
    assert!(proxy.writes());
}
