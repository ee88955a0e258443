//! The pods that are reported.

use super::testbed::{CONFIG, Stand};

#[test]
fn an_observer_reports_no_quotas() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    assert_eq!(stand.agent.pods().count(), 2);
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.join();
    assert_eq!(stand.agent.pods().count(), 0);
}
