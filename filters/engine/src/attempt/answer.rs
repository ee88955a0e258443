//! What an answer says, and the answers in place of a server's.

use crate::host::{HeaderMap, Host, NumberAttribute, Reply, Stream};
use crate::status::{SERVICE_UNAVAILABLE, UNAVAILABLE};
use crate::vm::Vm;
use bloc_policy::wire::headers::{LOAD, REJECT};
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::reason::Reason;

const GATEWAY_TIMEOUT: u32 = 504;

pub fn reply(stream: &impl Stream, status: u32, grpc_status: i32) {
    stream.reply(Reply { status, grpc_status, details: "bloc_retries", headers: &[] });
}

/// Answers as Envoy would after an attempt without an answer.
pub fn reply_for_silence(stream: &impl Stream, timed_out: bool) {
    reply(stream, if timed_out { GATEWAY_TIMEOUT } else { SERVICE_UNAVAILABLE }, UNAVAILABLE);
}

/// Answers the waiting attempts of requests with none under way.
pub fn answer_due<H: Host>(vm: &Vm<H>) {
    let due = vm.requests.borrow_mut().due();
    for (stream, timed_out) in due {
        stream.in_own_context(|| reply_for_silence(&stream, timed_out));
    }
}

/// The number of this attempt in its request; the first is 0.
pub fn attempt_number(stream: &impl Stream) -> Option<usize> {
    usize::try_from(stream.number(NumberAttribute::Attempts)?.checked_sub(1)?).ok()
}

/// A rejection: its reason, none if this version does not know it.
pub type Rejection = Option<Reason>;

/// The server's load report, and whether it rejected the attempt.
pub fn said(stream: &impl Stream) -> (Option<LoadReport>, Option<Rejection>) {
    let report = stream.header(HeaderMap::Response, LOAD).and_then(|value| LoadReport::decode(value.as_ref()));
    let rejection = match report {
        // Not from our sidecar: an application that sets this header would have its requests
        // repeated.
        None => {
            stream.remove_header(HeaderMap::Response, REJECT);
            None
        }
        // A rejection never carries a chip.
        Some(LoadReport { chip: true, .. }) => None,
        Some(_) => stream.header(HeaderMap::Response, REJECT).map(|value| Reason::read(value.as_ref())),
    };
    (report, rejection)
}
