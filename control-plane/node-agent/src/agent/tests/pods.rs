//! What is told of pods.

use super::stand::{CONFIG, Stand};
use crate::report::Cpu;
use std::sync::Arc;

#[test]
fn an_observer_tells_no_quotas() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    let told = |stand: &Stand| Cpu::new(stand.agent.pods(), Arc::default(), Arc::default()).pods.len();
    stand.join();
    assert_eq!(told(&stand), 2);
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.join();
    assert_eq!((told(&stand), stand.agent.pods().count()), (0, 2));
}
