//! The root contexts: one for each plugin of each thread. They read the plugin configuration and make the contexts of the requests.

use crate::agent;
use crate::aside::{self, Passing};
use crate::attempt::Attempt;
use crate::crash;
use crate::host;
use crate::inbound::InboundRequest;
use crate::line::Turns;
use crate::message::Message;
use crate::outbound::OutboundRequest;
use crate::state;
use bloc_policy::config::PluginConfig;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use std::time::Duration;

/// Root id of the inbound filter.
pub const INBOUND: &str = "bloc.inbound";
/// Root id of the outbound filter.
pub const OUTBOUND: &str = "bloc.outbound";
/// Root id of the upstream filter.
pub const ATTEMPT: &str = "bloc.attempt";

/// Makes the root context of a plugin.
pub fn create(context_id: u32) -> Box<dyn RootContext> {
    Box::new(Root {
        context_id,
        id: host::text_property("plugin_root_id").unwrap_or_default(),
        service: None,
        later: None,
    })
}

struct Root {
    context_id: u32,
    id: String,
    /// The service that an inbound filter stands in front of, if its configuration names one.
    service: Option<String>,
    /// The plugin configuration, as long as the filters stand aside.
    later: Option<Vec<u8>>,
}

impl Root {
    /// Asks for a tick within `period`.
    fn tick_within(&self, period: Duration) {
        let serves = state::with(|state| {
            let serves = state.inbound_root == self.context_id;
            if serves {
                state.hurry(period);
            }
            serves
        });
        if !serves {
            host::set_tick_period(period);
        }
    }

    /// Puts a plugin configuration in force; false if it is refused.
    fn configure(&mut self, configuration: &[u8]) -> bool {
        let plugin = match PluginConfig::from_json(configuration) {
            Ok(plugin) => plugin,
            Err(error) => {
                log::error!("{}: configuration refused: {error}", self.id);
                return false;
            }
        };
        if self.id == ATTEMPT {
            return true;
        }
        agent::with(|agent| agent.configure(self.context_id, plugin.control_plane()));
        host::set_tick_period(agent::TICK);
        host::register_queue(state::with(|state| state.vm));
        let inbound = self.id == INBOUND;
        self.service = plugin.service().filter(|_| inbound).map(str::to_owned);
        state::with(|state| {
            state.configure(&self.id, plugin);
            if inbound {
                (state.inbound_root, state.inbound_tick) = (self.context_id, agent::TICK);
            }
            if let Some(service) = &self.service {
                state.inbound(service);
            }
        });
        true
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body_size: usize, _trailers: usize) {
        if !agent::with(|agent| agent.answered(token, headers, body_size)) {
            self.tick_within(agent::TICK);
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _size: usize) -> bool {
        if ![INBOUND, OUTBOUND, ATTEMPT].contains(&self.id.as_str()) {
            log::error!("unknown root_id {:?}, only {INBOUND}, {OUTBOUND} or {ATTEMPT}", self.id);
            return false;
        }
        let configuration = host::plugin_configuration();
        if aside::is_aside() {
            // Reading it may be what crashes.
            self.later = Some(configuration);
            host::set_tick_period(agent::TICK);
            return true;
        }
        self.configure(&configuration)
    }

    fn on_tick(&mut self) {
        if self.later.is_some() && aside::is_aside() {
            return;
        }
        if let Some(configuration) = self.later.take() {
            // What concerns the ticks this sets anew, if it needs any.
            host::set_tick_period(Duration::ZERO);
            self.configure(&configuration);
            return;
        }
        crash::point("tick");
        let carries = agent::with(|agent| agent.tick(self.context_id));
        let period = agent::with(|agent| agent.period());
        let (serves, served) = state::with(|state| (state.inbound_root == self.context_id, state.served_here()));
        if !serves {
            // Without anything to carry, a newer root context of this VM has taken over.
            host::set_tick_period(if carries { period } else { Duration::ZERO });
            return;
        }
        let now = host::now();
        let turns: Vec<Turns> = served.iter().map(|inbound| inbound.borrow_mut().tick(now)).collect();
        let line = served.iter().filter_map(|inbound| inbound.borrow().tick_period(now)).min();
        state::with(|state| state.pace(line.unwrap_or(period)));
        // Last: each of them leaves another context in force.
        for turns in turns {
            turns.take(now);
        }
    }

    fn on_queue_ready(&mut self, queue: u32) {
        let (mut period, mut all): (Option<Duration>, Vec<Turns>) = (None, Vec::new());
        while let Some(message) = host::dequeue(queue) {
            let Some(message) = Message::decode(&message) else { continue };
            let service = match message {
                Message::News => {
                    if !agent::with(|agent| agent.hear()) {
                        self.tick_within(agent::TICK);
                    }
                    continue;
                }
                Message::Turn(service) | Message::Count(service) => service,
            };
            let Some(inbound) = state::with(|state| state.known(service)) else { continue };
            let now = host::now();
            if matches!(message, Message::Count(_)) {
                inbound.borrow_mut().look_at_count(now);
            } else {
                all.push(inbound.borrow_mut().look(now));
            }
            period = period.into_iter().chain(inbound.borrow().tick_period(now)).min();
        }
        if let Some(period) = period {
            // The root context that has the queue need not be the one that looks after the services.
            let root = state::with(|state| state.inbound_root);
            host::in_context(root, || state::with(|state| state.hurry(period)));
        }
        // Last: each of them leaves another context in force, and a call to the control plane that is
        // made there ends with that request.
        for turns in all {
            turns.take(host::now());
        }
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, context_id: u32) -> Option<Box<dyn HttpContext>> {
        if self.later.is_some() {
            return Some(Box::new(Passing));
        }
        Some(match self.id.as_str() {
            OUTBOUND => Box::new(OutboundRequest::default()),
            ATTEMPT => Box::new(Attempt::default()),
            _ => {
                let named = self.service.as_deref().and_then(|service| state::with(|state| state.known(service)));
                Box::new(InboundRequest::new(context_id, named))
            }
        })
    }
}
