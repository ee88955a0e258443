//! The host's state of one VM while its code runs: its contexts, what they may access at the
//! moment, and what to do afterwards.

use crate::common::Common;
use crate::context::{Action, CallResponse, Context, RootState, StreamState};
use crate::cost::Tally;
use crate::headers::Headers;
use crate::metrics::Kind;
use crate::shared::Address;
use crate::status::{Refusal, Status};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use wasmtime::{Memory, TypedFunc};

/// The data of a VM's store.
pub(crate) struct Guest {
    pub(crate) common: Common,
    pub(crate) address: Address,
    pub(crate) vm_id: Rc<str>,
    pub(crate) vm_configuration: Vec<u8>,
    pub(crate) memory: Option<Memory>,
    pub(crate) allocate: Option<TypedFunc<u32, u32>>,
    pub(crate) contexts: HashMap<u32, Context>,
    pub(crate) last_context: u32,
    /// The callback that is running.
    pub(crate) callback: &'static str,
    pub(crate) current: u32,
    pub(crate) effective: Option<u32>,
    /// What to do when the callback has returned, as in Envoy.
    pub(crate) actions: VecDeque<Action>,
    pub(crate) metrics: HashMap<u32, (Vec<u8>, Kind)>,
    pub(crate) call_response: Option<CallResponse>,
    /// The counts, by root context, and the one that counts now.
    pub(crate) tallies: Vec<(u32, Tally)>,
    pub(crate) counting: usize,
    pub(crate) timed: bool,
    pub(crate) functions: Vec<&'static str>,
}

impl Guest {
    /// The tally of the root context whose callback runs.
    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.tallies[self.counting].1
    }

    /// From now on calls count for the root context of this context.
    pub(crate) fn count_for(&mut self, context: u32) {
        let root = match self.contexts.get(&context) {
            Some(Context::Stream(stream)) => stream.root,
            _ => context,
        };
        let known = self.tallies.iter().position(|(known, _)| *known == root);
        self.counting = known.unwrap_or_else(|| {
            self.tallies.push((root, Tally::new(self.functions.len())));
            self.tallies.len() - 1
        });
    }

    /// The context that host calls are made for.
    pub(crate) fn effective(&self) -> u32 {
        self.effective.unwrap_or(self.current)
    }

    /// The root context of the one that host calls are made for.
    pub(crate) fn root(&self) -> u32 {
        match self.contexts.get(&self.effective()) {
            Some(Context::Stream(stream)) => stream.root,
            _ => self.effective(),
        }
    }

    pub(crate) fn root_state(&mut self) -> Option<&mut RootState> {
        match self.contexts.get_mut(&self.root()) {
            Some(Context::Root(root)) => Some(root),
            _ => None,
        }
    }

    /// The stream that host calls are made for.
    pub(crate) fn stream(&mut self) -> Result<&mut StreamState, Refusal> {
        let context = self.effective();
        match self.contexts.get_mut(&context) {
            Some(Context::Stream(stream)) => Ok(stream),
            _ => Err(Refusal::bad(format!("context {context} is not that of a stream"))),
        }
    }

    /// The stream with this context.
    pub(crate) fn stream_of(&mut self, context: u32) -> Option<&mut StreamState> {
        match self.contexts.get_mut(&context) {
            Some(Context::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    pub(crate) fn next_context(&mut self) -> u32 {
        self.last_context += 1;
        self.last_context
    }

    /// A header map of the ABI. `write`: the guest wants to change it.
    pub(crate) fn map(&mut self, map: u32, write: bool) -> Result<Headers, Refusal> {
        let absent = |what: &str| Refusal::bad(format!("{what} are not there at this moment"));
        match map {
            0 | 2 => {
                let stream = self.stream()?;
                let (present, logged, what) = match map {
                    0 => (&stream.request, &stream.logged_request, "request headers"),
                    _ => (&stream.response, &stream.logged_response, "response headers"),
                };
                let logged = logged.as_ref().filter(|_| stream.logging && !write);
                present.as_ref().or(logged).cloned().ok_or_else(|| absent(what))
            }
            6 => {
                let root = self.root();
                let response = self.call_response.as_ref().filter(|response| response.root == root);
                if write {
                    return Err(Refusal::bad("the headers of a call's answer cannot be changed"));
                }
                response.map(|response| response.headers.clone()).ok_or_else(|| absent("headers of a call's answer"))
            }
            3 => self.stream()?.response_trailers.clone().ok_or_else(|| absent("response trailers")),
            1 | 7 => Err(absent("trailers")),
            4 | 5 => Err(absent("gRPC metadata")),
            _ => Err(Refusal::bad(format!("there is no map {map}"))),
        }
    }

    /// A property; none if there is none.
    pub(crate) fn property(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        match path {
            b"plugin_root_id" => return self.root_state().map(|root| root.key.root_id.as_bytes().to_vec()),
            b"plugin_name" => return self.root_state().map(|root| root.key.name.as_bytes().to_vec()),
            b"plugin_vm_id" => return Some(self.vm_id.as_bytes().to_vec()),
            b"xds\0node\0id" => return Some(self.common.node().into()),
            _ => {}
        }
        let stream = self.stream().ok()?;
        // As in Envoy: the headers while they can be read, and the body received so far.
        let size = |headers: &Headers| headers.borrow().iter().map(|(name, value)| name.len() + value.len()).sum();
        if path == b"request\0total_size" {
            let headers: usize = stream.request.as_ref().map_or(0, size);
            return Some((headers as u64 + stream.received).to_le_bytes().to_vec());
        }
        if path == b"response\0total_size" {
            let headers: usize = stream.response.as_ref().map_or(0, size);
            return Some((headers as u64 + stream.sent).to_le_bytes().to_vec());
        }
        stream.properties.get(path).cloned()
    }

    /// A buffer of the ABI.
    pub(crate) fn buffer(&mut self, buffer: u32) -> Result<Vec<u8>, Refusal> {
        let absent = |what: &str| Refusal::Fault(Status::NotFound, format!("{what} is not there at this moment"));
        match buffer {
            // A missing body is empty.
            0 => Ok(self.stream()?.request_body.clone().unwrap_or_default()),
            1 => Ok(self.stream()?.response_body.clone().unwrap_or_default()),
            5 => Ok(Vec::new()),
            4 => {
                let root = self.root();
                let response = self.call_response.as_ref().filter(|response| response.root == root);
                response.map(|response| response.body.clone()).ok_or_else(|| absent("the body of a call's answer"))
            }
            6 => Ok(self.vm_configuration.clone()),
            7 => {
                let root = self.root_state().filter(|root| root.configuring);
                root.map(|root| root.key.configuration.to_vec()).ok_or_else(|| absent("the plugin configuration"))
            }
            2 | 3 | 8 => Err(absent("this buffer")),
            _ => Err(Refusal::bad(format!("there is no buffer {buffer}"))),
        }
    }
}
