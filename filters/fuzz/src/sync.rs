//! The answer of the control plane.

use crate::parameters;
use bloc_policy::config::ConfigError;
use bloc_policy::config::cluster_name::parameters_of;
use bloc_policy::sender::Sender;
use bloc_policy::server::Server;
use bloc_policy::server::steps::OneThread;
use bloc_policy::sync::{Answer, State, SyncResponse};
use bloc_policy::units::{Concurrency, Timestamp};
use std::time::Duration;

/// The control plane's answer, as a proxy takes it.
pub fn sync_response(data: &[u8]) {
    if let Ok(response) = ConfigError::read_json::<SyncResponse>(data) {
        let text = serde_json::to_vec(&response).expect("what was read can be written");
        assert_eq!(ConfigError::read_json::<SyncResponse>(&text).as_ref(), Ok(&response), "read again");
    }
    let Ok(Answer { state, cpu }) = Answer::read(data) else { return };
    let cpu = cpu.unwrap_or_default();
    let members = [cpu.cores, cpu.used, cpu.per_request_us];
    assert!(members.into_iter().flatten().all(|value| (0.0..=3.6e9).contains(&value)), "{cpu:?}");
    let State { services, .. } = state.unwrap_or_default();
    let (now, mut rng) = (Timestamp::ZERO, fastrand::Rng::with_seed(1));
    for (name, service) in &services {
        parameters::check(service);
        for cluster in [name.clone(), format!("outbound|80||{name}"), format!("outbound|80|v1|{name}")] {
            let mut sender = Sender::new(parameters_of(&cluster, service), now);
            assert!(sender.choose(now, &mut rng).len() <= 16, "ten retries, five bids, and the first");
            sender.configure(service.clone(), now.after(Duration::from_secs(1)));
        }
        let mut server = Server::new(service);
        server.provide(cpu);
        let (mut thread, none) = (OneThread::default(), Concurrency::new(0));
        if let Ok(admitted) = server.arrive(none, None, None, &thread, now) {
            let inside = server.hand_over(admitted, false, &mut thread, now);
            server.answer(inside, true, none, &mut thread, now.after(Duration::from_millis(50)));
        }
        let (bid, left) = (Some(Duration::MAX.into()), Some(Duration::MAX));
        let _ = server.arrive(Concurrency::new(u32::MAX), bid, left, &thread, now);
    }
}
