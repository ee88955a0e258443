//! Whether all parts counted the same requests.

use crate::experiments::chaos::judge::Promise;
use bloc_mesh::envoy::SERVICE;
use bloc_mesh::{Mesh, MeshError};
use serde::Serialize;

/// What all parts counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Books {
    /// Requests that the clients sent.
    pub sent: u64,
    /// Requests that an application answered.
    pub answered: u64,
    /// Requests that were shed.
    pub shed: u64,
    /// All other requests.
    pub errors: u64,
    /// Requests that the gateway received.
    pub gateway: u64,
    /// Requests that the frontends' sidecars received.
    pub frontends: u64,
    /// Retries of the frontends' sidecars.
    pub retries: u64,
    /// Requests that `bloc.outbound` saw.
    pub requests: u64,
    /// Attempts that `bloc.attempt` saw.
    pub attempts: u64,
    /// Attempts that `bloc.attempt` saw rejected, bounces included.
    pub rejections: u64,
    /// Requests that `bloc.outbound` gave up after a rejection.
    pub exhausted: u64,
    /// Attempts that `bloc.inbound` admitted.
    pub admitted: u64,
    /// Attempts that `bloc.inbound` rejected, for any reason.
    pub rejected: u64,
    /// Rejections because the attempt would have waited longer than its bid.
    pub bounced: u64,
    /// Rejections because of the capacity.
    pub full: u64,
    /// Answers of applications that `bloc.inbound` saw.
    pub departed: u64,
    /// Requests that the backends' sidecars sent to their applications.
    pub apps: u64,
    /// The gauge of requests in flight, read when there are none.
    pub in_flight: u64,
    /// The number of bursts.
    pub bursts: u64,
    /// The number of bursts in which a request was shed.
    pub bursts_shed: u64,
}

impl Books {
    /// The counts of the mesh; the clients' part is empty.
    ///
    /// # Errors
    /// A sidecar does not answer.
    pub async fn of(mesh: &Mesh) -> Result<Self, MeshError> {
        let outbound =
            async |name: &str| mesh.frontends_sum(&format!("wasmcustom.bloc.outbound.{SERVICE}.{name}")).await;
        let inbound = async |name: &str| mesh.sidecars_sum(&format!("wasmcustom.bloc.inbound.{SERVICE}.{name}")).await;
        let (full, bounced) = (inbound("rejected_capacity").await?, inbound("rejected_bid").await?);
        let rejected = full + bounced + inbound("rejected_deadline").await? + inbound("rejected_unreachable").await?;
        Ok(Self {
            gateway: mesh.gateway_counter("http.gateway.downstream_rq_total").await?,
            frontends: mesh.frontends_sum("http.outbound.downstream_rq_total").await?,
            retries: mesh.frontends_sum(&format!("cluster.{SERVICE}.upstream_rq_retry")).await?,
            requests: outbound("requests").await?,
            attempts: outbound("attempts").await? + outbound("refused_retries").await?,
            rejections: outbound("rejections").await? + outbound("bounces").await?,
            exhausted: outbound("retries_exhausted").await?,
            admitted: inbound("admitted").await?,
            rejected,
            bounced,
            full,
            departed: inbound("departed").await?,
            apps: mesh.sidecars_sum("cluster.app.upstream_rq_total").await?,
            in_flight: inbound("in_flight").await?,
            ..Self::default()
        })
    }

    /// Events that must have happened, or the run shows nothing about them. Only attempts that
    /// `bid` are bounced.
    pub fn happened(&self, bid: bool) -> Vec<Promise> {
        let some =
            |what, count: u64, measured: String| Promise { what, promised: "some".into(), measured, holds: count > 0 };
        let shed = format!("{} in {} of {} bursts", self.shed, self.bursts_shed, self.bursts);
        let bounced = bid.then(|| some("bounces: waits longer than bid", self.bounced, self.bounced.to_string()));
        let rest = [
            some("rejections in the bursts: servers at their capacity", self.full, self.full.to_string()),
            some("requests shed in the bursts", self.bursts_shed, shed),
        ];
        bounced.into_iter().chain(rest).collect()
    }

    /// Pairs of numbers that must be equal.
    pub fn balance(&self) -> Vec<Promise> {
        let same = |what, left: u64, right: u64| Promise {
            what,
            promised: "the same".into(),
            measured: if left == right { left.to_string() } else { format!("{left} and {right}") },
            holds: left == right,
        };
        let lost = Promise {
            what: "requests lost",
            promised: "0".into(),
            measured: self.errors.to_string(),
            holds: self.errors == 0,
        };
        vec![
            lost,
            same("requests: clients and gateway", self.sent, self.gateway),
            same("requests: gateway and frontends", self.gateway, self.frontends),
            same("requests: frontends and bloc.outbound", self.frontends, self.requests),
            same(
                "attempts: requests with Envoy's retries, and bloc.attempt",
                self.frontends + self.retries,
                self.attempts,
            ),
            same("attempts: bloc.attempt and bloc.inbound", self.attempts, self.admitted + self.rejected),
            same("rejections: bloc.attempt and bloc.inbound", self.rejections, self.rejected),
            same("shed: clients and bloc.outbound", self.shed, self.exhausted),
            same("answers: clients and bloc.inbound", self.answered, self.departed),
            same("admitted: bloc.inbound and the applications' connections", self.admitted, self.apps),
            same("in flight at the end: bloc.inbound and nothing", self.in_flight, 0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wrong_count_breaks_the_balance() {
        let even = Books {
            sent: 100,
            answered: 90,
            shed: 10,
            errors: 0,
            gateway: 100,
            frontends: 100,
            retries: 50,
            requests: 100,
            attempts: 150,
            rejections: 60,
            exhausted: 10,
            admitted: 90,
            rejected: 60,
            bounced: 40,
            full: 20,
            departed: 90,
            apps: 90,
            in_flight: 0,
            bursts: 3,
            bursts_shed: 2,
        };
        assert!(even.balance().iter().all(|promise| promise.holds), "{:?}", even.balance());
        let wrong: [fn(&mut Books); 15] = [
            |books| books.sent += 1,
            |books| books.answered += 1,
            |books| books.shed += 1,
            |books| books.errors += 1,
            |books| books.gateway += 1,
            |books| books.frontends += 1,
            |books| books.retries += 1,
            |books| books.requests += 1,
            |books| books.attempts += 1,
            |books| books.rejections += 1,
            |books| books.exhausted += 1,
            |books| books.admitted += 1,
            |books| books.rejected += 1,
            |books| books.departed += 1,
            |books| books.in_flight += 1,
        ];
        for (n, wrong) in wrong.iter().enumerate() {
            let mut books = even;
            wrong(&mut books);
            assert!(books.balance().iter().any(|promise| !promise.holds), "{n}");
        }
        let apps = Books { apps: 91, ..even };
        assert!(apps.balance().iter().any(|promise| !promise.holds));
    }

    #[test]
    fn requires_that_bounces_rejections_and_sheds_happened() {
        let all = Books { bounced: 1, full: 1, shed: 1, bursts: 1, bursts_shed: 1, ..Books::default() };
        let fails = |books: Books, bid| books.happened(bid).iter().filter(|promise| !promise.holds).count();
        assert_eq!((fails(all, true), fails(all, false)), (0, 0));
        assert_eq!(fails(Books { bounced: 0, ..all }, true), 1);
        assert_eq!(fails(Books { bounced: 0, ..all }, false), 0, "nothing bids");
        assert_eq!(fails(Books { full: 0, ..all }, true), 1);
        assert_eq!(fails(Books { bursts_shed: 0, ..all }, true), 1, "shed, but in no burst");
        assert_eq!(fails(Books::default(), true), 3);
    }
}
