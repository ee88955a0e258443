//! When a question is answered.

use super::question::Question;
use crate::report::differs;
use bloc_policy::cpu::ServerCpu;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The shortest time between two answers about a change at one socket, as the control plane has it
/// for each proxy: a quota that moves in each step would keep a sidecar busy.
const GAP: Duration = Duration::from_millis(200);

/// Until when the answer to a question of `asked` is held, if it is about a change or not, and the
/// last one about a change was at `last`.
fn due(question: Question, asked: Instant, change: bool, last: Option<Instant>) -> Instant {
    let end = asked + question.wait;
    if change { last.map_or(asked, |last| asked.max(last + GAP)).min(end) } else { end }
}

/// What is known of a pod, for those who ask at its socket.
///
/// An agent that has just started is to say soon what it manages. Until then a sidecar keeps what
/// the last agent said.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// None: nothing was said yet.
    cpu: watch::Sender<Option<ServerCpu>>,
    /// When a change was last told.
    told: Mutex<Option<Instant>>,
}

impl Known {
    /// This is to be said now; none: it is not known yet. The use wakes nobody.
    pub(super) fn tell(&self, cpu: Option<ServerCpu>) {
        self.cpu.send_if_modified(|known| {
            let cpu = cpu.or(known.map(|_| ServerCpu::default()));
            std::mem::replace(known, cpu).map(|known| known.cores) != cpu.map(|cpu| cpu.cores)
        });
    }

    /// Answers when it is time. None: the wait is over, and nothing is known yet.
    pub(super) async fn answer(&self, question: Question) -> Option<ServerCpu> {
        let asked = Instant::now();
        let mut cpu = self.cpu.subscribe();
        loop {
            let is = *cpu.borrow_and_update();
            let due = {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                let now = Instant::now();
                let change = is.is_some_and(|is| differs(question.cores, is.cores));
                let due = due(question, asked, change, *told);
                if due <= now {
                    if change {
                        *told = Some(now);
                    }
                    return is;
                }
                due
            };
            tokio::select! {
                // The sender lives as long as this.
                _ = cpu.changed() => {}
                () = sleep_until(due) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::task::JoinHandle;

    const MILLI: Duration = Duration::from_millis(1);

    fn question(cores: Option<f64>, millis: u64) -> Question {
        Question { cores, wait: Duration::from_millis(millis) }
    }

    fn cpu(cores: f64, used: f64) -> ServerCpu {
        ServerCpu { cores: Some(cores), used: Some(used), per_request_us: None }
    }

    #[test]
    fn a_change_is_due_at_once_but_not_soon_after_another_and_the_rest_at_the_end_of_the_wait() {
        let asked = Instant::now();
        let after = |wait, change, last: Option<u32>| {
            // `last`: so long before the question.
            let last = last.map(|millis| asked.checked_sub(MILLI * millis).unwrap());
            (due(question(None, wait), asked, change, last) - asked).as_millis()
        };
        assert_eq!(
            [after(10_000, true, None), after(10_000, true, Some(200)), after(10_000, true, Some(50))],
            [0, 0, 150]
        );
        assert_eq!([after(100, true, Some(50)), after(0, true, Some(50))], [100, 0], "the wait ends before");
        assert_eq!(
            [after(10_000, false, None), after(10_000, false, Some(50)), after(0, false, Some(0))],
            [10_000, 10_000, 0]
        );
    }

    /// An answer to this, and how many milliseconds it took.
    fn ask(known: &Arc<Known>, question: Question) -> JoinHandle<(Option<ServerCpu>, u128)> {
        let (known, began) = (Arc::clone(known), Instant::now());
        tokio::spawn(async move { (known.answer(question).await, began.elapsed().as_millis()) })
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_known_yet_is_no_change_and_what_is_no_longer_known_is_one() {
        let known = Arc::new(Known::default());
        known.tell(None);
        assert_eq!(ask(&known, question(Some(1.0), 500)).await.unwrap(), (None, 500));
        let held = ask(&known, question(Some(1.0), 10_000));
        for millis in [100, 1_000] {
            tokio::time::sleep(MILLI * millis).await;
            known.tell(None);
        }
        known.tell(Some(cpu(2.0, 0.5)));
        assert_eq!(held.await.unwrap(), (Some(cpu(2.0, 0.5)), 1_100));
        let held = ask(&known, question(Some(2.0), 10_000));
        tokio::time::sleep(MILLI * 300).await;
        known.tell(None);
        assert_eq!(held.await.unwrap(), (Some(ServerCpu::default()), 300));
        let held = ask(&Arc::new(Known::default()), question(Some(2.0), 10_000));
        assert_eq!(held.await.unwrap(), (None, 10_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_question_is_answered_with_the_change_and_otherwise_at_its_end() {
        let known = Arc::new(Known::default());
        let held = ask(&known, question(None, 10_000));
        tokio::time::sleep(MILLI * 1_000).await;
        known.tell(Some(cpu(1.0, 0.5)));
        assert_eq!(held.await.unwrap(), (Some(cpu(1.0, 0.5)), 1_000));
        // Small changes are known at the end of the wait.
        let held = ask(&known, question(Some(1.0), 10_000));
        for (millis, cores, used) in [(1_000, 1.02, 0.5), (1_000, 1.04, 0.75)] {
            tokio::time::sleep(MILLI * millis).await;
            known.tell(Some(cpu(cores, used)));
        }
        known.tell(Some(cpu(1.04, 0.875)));
        assert_eq!(held.await.unwrap(), (Some(cpu(1.04, 0.875)), 10_000));
        let held = ask(&known, question(Some(1.04), 10_000));
        tokio::time::sleep(MILLI).await;
        known.tell(Some(ServerCpu::default()));
        assert_eq!(held.await.unwrap(), (Some(ServerCpu::default()), 1), "the agent manages it no more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_quota_that_moves_in_each_step_is_told_five_times_a_second() {
        let known = Arc::new(Known::default());
        let moving = tokio::spawn({
            let known = Arc::clone(&known);
            async move {
                for step in 1.. {
                    known.tell(Some(cpu(f64::from(step), 0.0)));
                    tokio::time::sleep(MILLI * 100).await;
                }
            }
        });
        let (began, mut has) = (Instant::now(), None);
        for nth in 0..10 {
            let (answer, _) = ask(&known, question(has, 10_000)).await.unwrap();
            assert_eq!(began.elapsed().as_millis(), 200 * nth);
            assert!(answer.unwrap().cores > has, "{answer:?}");
            has = answer.unwrap().cores;
        }
        moving.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_change_delays_no_change() {
        let known = Arc::new(Known::default());
        known.tell(Some(cpu(1.0, 0.5)));
        assert_eq!(ask(&known, question(Some(1.0), 0)).await.unwrap(), (Some(cpu(1.0, 0.5)), 0));
        assert_eq!(ask(&known, question(Some(2.0), 10_000)).await.unwrap(), (Some(cpu(1.0, 0.5)), 0));
        assert_eq!(ask(&known, question(Some(2.0), 10_000)).await.unwrap(), (Some(cpu(1.0, 0.5)), 200));
    }
}
