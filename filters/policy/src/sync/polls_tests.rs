//! Polls in virtual time.

use super::*;

/// How long the control plane may hold a poll.
const WAIT: Duration = Duration::from_secs(30);
const AT: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

fn rng() -> fastrand::Rng {
    fastrand::Rng::with_seed(1)
}

fn services(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn question(names: &[&str]) -> Question {
    Question {
        services: services(names),
        serves: BTreeSet::new(),
        stamp: [7; 16],
        cpu: ServerCpu::default(),
        wait: WAIT,
    }
}

/// How long polls pause from `now` on, in whole milliseconds.
fn pause(polls: &Polls, now: Timestamp) -> Duration {
    let services = services(&["a"]);
    let due = |after: &u64| polls.is_due(&services, &BTreeSet::new(), now.after(millis(*after)));
    millis((0..200_000).find(due).unwrap())
}

/// The pauses after an outcome that took `took`, each with new polls.
fn pauses(outcome: Outcome, took: Duration) -> Vec<Duration> {
    let mut rng = rng();
    let one = |_| {
        let mut polls = Polls::default();
        let now = AT.after(took);
        polls.settle(AT, outcome, now, &mut rng);
        pause(&polls, now)
    };
    (0..200).map(one).collect()
}

fn bounds(pauses: &[Duration]) -> (Duration, Duration) {
    (*pauses.iter().min().unwrap(), *pauses.iter().max().unwrap())
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_poll_is_due_at_the_start_and_again_when_the_last_one_ends() {
    let mut polls = Polls::default();
    assert!(polls.is_due(&services(&["a"]), &BTreeSet::new(), Timestamp::ZERO) && !polls.is_under_way());
    polls.asked(3, question(&["a"]), AT);
    assert!(polls.is_under_way());
    let later = AT.after(timeout(WAIT));
    assert!(!polls.is_due(&services(&["a"]), &BTreeSet::new(), later), "an answer is still to come");
    let answered = polls.answered(3).unwrap();
    assert_eq!(answered, Answered { question: question(&["a"]), since: AT });
    let settled = polls.settle(answered.since, Outcome::News, later, &mut rng());
    assert_eq!(settled, Settled { pause: None, at_once: true });
    assert!(polls.is_due(&services(&["a"]), &BTreeSet::new(), later) && !polls.is_under_way());
}

#[test]
fn a_change_of_services_makes_a_new_poll_due_at_once() {
    let mut polls = Polls::default();
    polls.asked(3, question(&["a"]), AT);
    assert!(!polls.is_due(&services(&["a"]), &BTreeSet::new(), AT));
    assert!(polls.is_due(&services(&["a", "b"]), &BTreeSet::new(), AT));
    polls.asked(4, question(&["a", "b"]), AT);
    assert_eq!(polls.answered(3), None, "the earlier poll no longer counts");
    assert!(polls.answered(4).is_some());
}

#[test]
fn ignores_an_answer_with_an_unknown_token() {
    let mut polls = Polls::default();
    assert_eq!(polls.answered(0), None);
    polls.asked(3, question(&["a"]), AT);
    assert_eq!(polls.answered(4), None);
    assert!(polls.is_under_way() && !polls.is_due(&services(&["a"]), &BTreeSet::new(), AT));
    assert!(polls.answered(3).is_some());
    assert_eq!(polls.answered(3), None, "once");
}

#[test]
fn a_poll_lost_in_a_reset_is_due_again_without_a_pause() {
    let mut polls = Polls::default();
    polls.failed_to_ask(AT, &mut rng());
    polls.asked(3, question(&["a"]), AT);
    polls.reset();
    assert!(!polls.is_under_way() && polls.is_due(&services(&["a"]), &BTreeSet::new(), AT));
    assert_eq!(polls.answered(3), None);
}

#[test]
fn failed_polls_back_off_up_to_a_bound_with_jitter() {
    let mut rng = rng();
    let mut most = [Duration::ZERO; 40];
    let mut least = [Duration::MAX; 40];
    for _ in 0..200 {
        let mut polls = Polls::default();
        for n in 0..40 {
            let settled = polls.settle(AT, Outcome::Failed, AT, &mut rng);
            let pause = settled.pause.unwrap();
            (least[n], most[n]) = (least[n].min(pause), most[n].max(pause));
            let end = AT.after(pause);
            assert!(polls.is_due(&services(&["a"]), &BTreeSet::new(), end));
            assert!(!polls.is_due(&services(&["a"]), &BTreeSet::new(), Timestamp::from_nanos(end.as_nanos() - 1)));
        }
    }
    for (n, full) in [(0, 500), (1, 1000), (2, 2000), (3, 4000), (4, 5000), (12, 5000), (39, 5000)] {
        let full = millis(full);
        assert!((full / 2..full * 11 / 20).contains(&least[n]), "failure {n}: {:?}", least[n]);
        assert!((full * 19 / 20..=full).contains(&most[n]), "failure {n}: {:?}", most[n]);
    }
}

#[test]
fn a_poll_that_cannot_be_sent_backs_off_like_a_failed_one() {
    let (mut polls, mut rng) = (Polls::default(), rng());
    let pauses: Vec<Duration> = (0..5).map(|_| polls.failed_to_ask(AT, &mut rng)).collect();
    assert!(pauses[0] <= LEAST_PAUSE && (MOST_PAUSE / 2..=MOST_PAUSE).contains(&pauses[4]), "{pauses:?}");
    assert!(pause(&polls, AT) >= MOST_PAUSE / 2);
}

#[test]
fn success_ends_the_back_off() {
    for outcome in [Outcome::News, Outcome::Cpu, Outcome::Unchanged { retry_after: None }] {
        let (mut polls, mut rng) = (Polls::default(), rng());
        for _ in 0..10 {
            polls.settle(AT, Outcome::Failed, AT, &mut rng);
        }
        polls.settle(AT, outcome, AT.after(LEAST_WAIT), &mut rng);
        let pause = polls.settle(AT, Outcome::Failed, AT, &mut rng).pause.unwrap();
        assert!(pause <= LEAST_PAUSE, "{outcome:?}: {pause:?}");
    }
}

#[test]
fn retry_after_spreads_the_next_polls_over_its_time_up_to_a_minute() {
    for (asked, obeyed) in [(10, 10), (60, 60), (61, 60), (u64::MAX, 60)] {
        let outcome = Outcome::Unchanged { retry_after: Some(Duration::from_secs(asked)) };
        let (least, most) = bounds(&pauses(outcome, millis(30_000)));
        let obeyed = Duration::from_secs(obeyed);
        assert!(least < obeyed / 20, "{asked} s: {least:?}");
        assert!((obeyed * 19 / 20..=obeyed).contains(&most), "{asked} s: {most:?}");
    }
}

#[test]
fn an_early_answer_without_news_pauses_for_one_to_two_least_waits() {
    let outcome = Outcome::Unchanged { retry_after: None };
    let (least, most) = bounds(&pauses(outcome, millis(899)));
    assert!((LEAST_WAIT..LEAST_WAIT * 21 / 20).contains(&least), "{least:?}");
    assert!((LEAST_WAIT * 39 / 20..=LEAST_WAIT * 2 + millis(1)).contains(&most), "{most:?}");
    let (_, most) = bounds(&pauses(outcome, LEAST_WAIT));
    assert_eq!(most, Duration::ZERO, "the poll was held long enough");
    let (_, most) = bounds(&pauses(Outcome::News, Duration::ZERO));
    assert_eq!(most, Duration::ZERO, "no pause after news");
}

#[test]
fn a_poll_shorter_than_the_least_wait_is_not_repeated_at_once() {
    let unchanged = Outcome::Unchanged { retry_after: None };
    for outcome in [Outcome::News, unchanged, Outcome::Failed] {
        for (took, at_once) in [(0, false), (899, false), (900, true), (30_000, true)] {
            let settled = Polls::default().settle(AT, outcome, AT.after(millis(took)), &mut rng());
            assert_eq!(settled.at_once, at_once, "{outcome:?} after {took} ms");
        }
    }
}

#[test]
fn the_host_timeout_is_five_seconds_longer_than_the_control_plane_wait() {
    assert_eq!(timeout(millis(30_000)), millis(35_000));
}

/// For example when its root context was deleted with its listener, which no host reports.
#[test]
fn repeats_a_poll_that_gets_no_answer() {
    let mut polls = Polls::default();
    polls.asked(3, question(&["a"]), AT);
    let (late, lost) = (AT.after(timeout(WAIT) + millis(4_999)), AT.after(timeout(WAIT) + millis(5_000)));
    polls.give_up(late);
    assert!(polls.is_under_way() && !polls.is_due(&services(&["a"]), &BTreeSet::new(), late));
    polls.give_up(lost);
    assert!(!polls.is_under_way() && polls.is_due(&services(&["a"]), &BTreeSet::new(), lost));
}

#[test]
fn an_answer_about_cpu_is_followed_at_once_but_not_twice_within_150_ms() {
    let (mut polls, mut rng) = (Polls::default(), rng());
    let mut at_once = |since: u64, now: u64, outcome| {
        let settled = polls.settle(AT.after(millis(since)), outcome, AT.after(millis(now)), &mut rng);
        assert_eq!((settled.pause, polls.is_due(&services(&["a"]), &BTreeSet::new(), AT)), (None, true));
        settled.at_once
    };
    assert!(at_once(0, 1, Outcome::Cpu), "even the first");
    assert!(!at_once(1, 150, Outcome::Cpu));
    assert!(at_once(1, 151, Outcome::Cpu), "150 ms since the last that was followed");
    assert!(!at_once(151, 300, Outcome::Cpu));
    assert!(!at_once(151, 500, Outcome::News), "of other answers only one that was held");
    assert!(at_once(151, 1_051, Outcome::News));
    assert!(at_once(500, 501, Outcome::Cpu));
    assert!(at_once(501, 1_401, Outcome::Unchanged { retry_after: None }), "held");
    assert!(at_once(0, 900, Outcome::Cpu) && at_once(0, 901, Outcome::Cpu), "held, both");
}
