//! A node agent that answers as the real one does.

use super::{MOST_ANSWERS, calls};
use bloc_testhost::history::NODE_AGENT;
use bloc_testhost::{HttpCall, Process};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
pub struct NodeAgent {
    /// When the waiting polls came.
    came: BTreeMap<u32, Duration>,
}

impl NodeAgent {
    /// Answers the polls that are due. Err: there is more than one poll, unless that is `lenient`.
    pub fn answer(&mut self, process: &Process, lenient: bool) -> Result<(), String> {
        for _ in 0..MOST_ANSWERS {
            let calls = calls(process, NODE_AGENT);
            self.came.retain(|token, _| calls.iter().any(|call| call.token() == *token));
            if calls.len() > 1 && !lenient {
                let threads: Vec<usize> = calls.iter().map(HttpCall::vm).collect();
                return Err(format!("polls at the node agent by threads {threads:?}"));
            }
            let answered = calls.iter().filter(|call| self.answer_one(process, call)).count();
            if answered == 0 {
                return Ok(());
            }
        }
        Err(format!("{MOST_ANSWERS} polls at the node agent at one moment"))
    }

    fn answer_one(&mut self, process: &Process, call: &HttpCall) -> bool {
        let path = call.headers.text(":path").expect("a path");
        let query = path.strip_prefix("/v1/self?").expect("its path").split('&');
        let query: BTreeMap<&str, &str> = query.filter_map(|parameter| parameter.split_once('=')).collect();
        let wait = query["wait"].strip_suffix('s').and_then(|seconds| seconds.parse().ok()).expect("seconds");
        let asked = query.get("cores").map(|cores| cores.parse::<f64>().expect("cores"));
        let came = *self.came.entry(call.token()).or_insert_with(|| process.now());
        let is_due = cores(process.now()) != asked || process.now() >= came + Duration::from_secs(wait);
        if is_due {
            let body = cores(process.now()).map_or_else(|| "{}".to_owned(), |cores| format!(r#"{{"cores":{cores}}}"#));
            process.answer(call, 200, &[], body.as_bytes());
        }
        is_due
    }
}

/// The cores of the pod, which the agent does not manage all the time.
fn cores(now: Duration) -> Option<f64> {
    [None, Some(0.5), Some(1.25), Some(1.25)][(now.as_secs() / 4 % 4) as usize]
}
