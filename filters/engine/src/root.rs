//! The plugins of one thread: what their root contexts pass on to what lives as long as the VM.
//!
//! A root context comes with each plugin configuration and goes with its listener. It reads the
//! configuration, passes on ticks, messages and answers, and makes the filters of the requests; it
//! owns nothing that another one needs.

use crate::agent::Agent;
use crate::attempt::Attempt;
use crate::crash;
use crate::fail_open::{FailOpen, Passing};
use crate::host::{Host, PostAnswer};
use crate::inbound::InboundRequest;
use crate::message::Message;
use crate::names::{Plugin, TICK};
use crate::outbound::OutboundRequest;
use crate::queue::Turns;
use crate::vm::Vm;
use bloc_policy::config::PluginConfig;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// The filters of one thread.
pub struct Engine<H: Host> {
    vm: Rc<Vm<H>>,
    agent: RefCell<Agent<H>>,
    fail_open: FailOpen,
}

impl<H: Host> Engine<H> {
    /// The filters of a thread that has just started.
    pub fn new(host: H) -> Rc<Self> {
        let fail_open = FailOpen::look(&host);
        let vm = Rc::new(Vm::new(host));
        Rc::new(Self { agent: RefCell::new(Agent::new(&vm)), vm, fail_open })
    }

    /// What the thread knows.
    pub fn vm(&self) -> &Rc<Vm<H>> {
        &self.vm
    }

    /// This code panics: puts right what nobody else could.
    pub fn recover(&self) {
        self.vm.recovery.run();
    }

    /// A plugin of this thread: the context with this number and root id. None, which is in the
    /// log, if its configuration is refused.
    pub fn plug(self: &Rc<Self>, context: u32, root_id: &str, configuration: Vec<u8>) -> Option<Root<H>> {
        let Some(plugin) = Plugin::of(root_id) else {
            let [inbound, outbound, attempt] = Plugin::ALL.map(Plugin::root_id);
            log::error!("unknown root_id {root_id:?}, only {inbound}, {outbound} or {attempt}");
            return None;
        };
        let mut root = Root { engine: Rc::clone(self), context, plugin, service: None, later: None };
        if self.fail_open.holds(&self.vm.host) {
            // Reading it may be what crashes.
            root.later = Some(configuration);
            self.vm.host.set_tick_period(TICK);
            return Some(root);
        }
        root.configure(&configuration).then_some(root)
    }
}

/// The filter of a new stream.
pub enum NewFilter<H: Host> {
    /// Of a request that comes in.
    Inbound(InboundRequest<H>),
    /// Of a request that goes out.
    Outbound(OutboundRequest<H>),
    /// Of an attempt.
    Attempt(Attempt<H>),
    /// Of any of them, while the filters fail open.
    Passing(Passing<H::Stream>),
}

/// One plugin of one thread.
pub struct Root<H: Host> {
    engine: Rc<Engine<H>>,
    context: u32,
    plugin: Plugin,
    /// The service that an inbound filter stands in front of, if its configuration names one.
    service: Option<String>,
    /// The plugin configuration, as long as the filters fail open.
    later: Option<Vec<u8>>,
}

impl<H: Host> Root<H> {
    /// Asks for a tick within `period`.
    fn tick_within(&self, period: Duration) {
        let vm = &self.engine.vm;
        if vm.pace.is_carried_by(self.context) {
            vm.pace.hurry(period);
        } else {
            vm.host.set_tick_period(period);
        }
    }

    /// Puts a plugin configuration in force; false if it is refused.
    fn configure(&mut self, configuration: &[u8]) -> bool {
        let configuration = match PluginConfig::from_json(configuration) {
            Ok(configuration) => configuration,
            Err(error) => {
                log::error!("{}: configuration refused: {error}", self.plugin.root_id());
                return false;
            }
        };
        if self.plugin == Plugin::Attempt {
            return true;
        }
        let vm = &self.engine.vm;
        self.engine.agent.borrow_mut().configure(self.context, configuration.control_plane());
        vm.host.set_tick_period(TICK);
        vm.host.register_queue(vm.number);
        let inbound = self.plugin == Plugin::Inbound;
        self.service = configuration.service().filter(|_| inbound).map(str::to_owned);
        vm.configure(self.plugin, configuration);
        if inbound {
            vm.pace.carried_by(self.context, TICK);
        }
        if let Some(service) = &self.service {
            vm.service(service);
        }
        true
    }

    /// It is time to look.
    pub fn tick(&mut self) {
        let engine = Rc::clone(&self.engine);
        let vm = &engine.vm;
        vm.callback();
        if self.later.is_some() && engine.fail_open.holds(&vm.host) {
            return;
        }
        if let Some(configuration) = self.later.take() {
            // What concerns the ticks this sets anew, if it needs any.
            vm.host.set_tick_period(Duration::ZERO);
            self.configure(&configuration);
            return;
        }
        crash::point(&vm.host, "tick");
        let carries = engine.agent.borrow_mut().tick(self.context);
        let period = engine.agent.borrow().period();
        if !vm.pace.is_carried_by(self.context) {
            // Without anything to carry, a newer root context of this VM has taken over.
            vm.host.set_tick_period(if carries { period } else { Duration::ZERO });
            return;
        }
        let (now, services) = (vm.host.now(), vm.services());
        let turns: Vec<Turns<H>> = services.iter().map(|service| service.borrow_mut().tick(now)).collect();
        let queues = services.iter().filter_map(|service| service.borrow().tick_period(now)).min();
        vm.pace.set(queues.unwrap_or(period));
        // Last: each of them leaves another context in force.
        for turns in turns {
            turns.take(now);
        }
    }

    /// Messages have come.
    pub fn messages(&self, messages: impl IntoIterator<Item = Vec<u8>>) {
        let vm = &self.engine.vm;
        vm.callback();
        let (mut period, mut all): (Option<Duration>, Vec<Turns<H>>) = (None, Vec::new());
        for message in messages {
            let Some(message) = Message::decode(&message) else { continue };
            let service = match message {
                Message::News => {
                    if !self.engine.agent.borrow_mut().hear() {
                        self.tick_within(TICK);
                    }
                    continue;
                }
                Message::Turn(service) | Message::Count(service) => service,
            };
            let Some(service) = vm.known_service(service) else { continue };
            let now = vm.host.now();
            if matches!(message, Message::Count(_)) {
                service.borrow_mut().look_at_count(now);
            } else {
                all.push(service.borrow_mut().look(now));
            }
            period = period.into_iter().chain(service.borrow().tick_period(now)).min();
        }
        if let Some(period) = period {
            // The root context that has the queue need not be the one that looks after the
            // services.
            vm.pace.hurry_from_anywhere(period);
        }
        // Last: each of them leaves another context in force, and a call to the control plane that
        // is made there ends with that request.
        for turns in all {
            turns.take(vm.host.now());
        }
    }

    /// A call of ours was answered, or (none) has failed.
    pub fn call_answered(&self, token: u32, answer: Option<&PostAnswer>) {
        self.engine.vm.callback();
        let on = self.engine.agent.borrow_mut().answered(token, answer);
        if !on {
            self.tick_within(TICK);
        }
    }

    /// The filter of a new stream.
    pub fn filter(&self, stream: H::Stream) -> NewFilter<H> {
        let vm = &self.engine.vm;
        if self.later.is_some() {
            return NewFilter::Passing(Passing(stream));
        }
        match self.plugin {
            Plugin::Outbound => NewFilter::Outbound(OutboundRequest::new(vm, stream)),
            Plugin::Attempt => NewFilter::Attempt(Attempt::new(vm, stream)),
            Plugin::Inbound => {
                let named = self.service.as_deref().and_then(|service| vm.known_service(service));
                NewFilter::Inbound(InboundRequest::new(vm, stream, named))
            }
        }
    }
}
