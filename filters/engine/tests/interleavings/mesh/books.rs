//! What happened, beside what the filters have recorded.

use super::*;

/// What happened, as the test counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    pub requests: i64,
    pub attempts: i64,
    pub rejected: i64,
    pub failures: i64,
    pub given_up: i64,
    pub exhausted: i64,
    /// Attempts that `bloc.attempt` answered because they were one too many.
    pub refused: i64,
    /// Answers of an application that Envoy was told not to retry.
    pub ended: i64,
}

impl Mesh {
    /// Every attempt under way is recorded to its own request and server only.
    pub(super) fn check(&self) {
        let cluster = self.caller.engine.vm().cluster(None, "backend").expect("a cluster");
        let mut at: BTreeMap<String, u32> = BTreeMap::new();
        for request in &self.requests {
            let (Some((attempt, stream)), Some((outbound, _))) = (&request.attempt, &request.outbound) else {
                continue;
            };
            let address = stream.0.address.clone().expect("a server");
            let began = request.began;
            let recorded = Recorded { request: outbound.key(), server: address.clone(), began };
            assert_eq!(attempt.recorded(), Some(recorded), "recorded to another one");
            let key = outbound.key().expect("a key");
            let course = self.caller.engine.vm().requests.borrow().course(key).expect("its request");
            assert_eq!(course.attempts as u64, request.attempts, "attempts of this request");
            *at.entry(address).or_default() += 1;
        }
        for (_, endpoint) in cluster.borrow().sender.endpoints().iter() {
            let expected = at.get(endpoint.address()).copied().unwrap_or(0);
            assert_eq!(endpoint.pending(), expected, "pending at {}", endpoint.address());
        }
    }

    /// All requests have ended: the filters have counted what happened, and no state is left.
    pub fn close(&mut self) {
        for server in &mut self.servers {
            server.observe();
            server.tick();
        }
        let vm = self.caller.engine.vm();
        assert!(vm.requests.borrow().is_empty(), "requests are left");
        vm.flush();
        let sum = |name: &str| self.caller.process.metric(&format!("bloc.outbound.backend.{name}")).unwrap_or(0);
        let counted = Books {
            requests: sum("requests"),
            attempts: sum("attempts"),
            rejected: sum("rejections") + sum("bounces"),
            failures: sum("failures"),
            given_up: sum("given_up"),
            exhausted: sum("retries_exhausted"),
            ..self.books
        };
        assert_eq!(counted, self.books);
        for server in &self.servers {
            for (name, value) in server.process.metrics("in_flight") {
                assert_eq!(value, 0, "{name}");
            }
        }
    }
}
