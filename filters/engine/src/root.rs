//! The plugins of one thread: they pass the callbacks of their root contexts on to the state that
//! lives as long as the VM.
//!
//! A root context begins with a plugin configuration and ends with the last listener or stream that
//! has it. It reads the configuration, passes on ticks, messages and answers, and creates the
//! filters. One root context [carries](crate::pace) the ticks, the messages and the calls of the
//! thread. When it ends, another one takes over.

use crate::attempt;
use crate::attempt::Attempt;
use crate::crash;
use crate::fail_open::{FailOpen, Passing};
use crate::host::{Host, PostAnswer};
use crate::inbound::InboundRequest;
use crate::message::Message;
use crate::names::{Plugin, TICK};
use crate::outbound::OutboundRequest;
use crate::parameters::PluginId;
use crate::queue::Turns;
use crate::service::Service;
use crate::sync_client::SyncClient;
use crate::vm::Vm;
use bloc_policy::config::PluginConfig;
use bloc_policy::units::Timestamp;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// The filters of one thread.
pub struct Engine<H: Host> {
    vm: Rc<Vm<H>>,
    agent: RefCell<SyncClient<H>>,
    fail_open: FailOpen,
}

impl<H: Host> Engine<H> {
    /// The filters of a thread that has just started.
    pub fn new(host: H) -> Rc<Self> {
        let fail_open = FailOpen::look(&host);
        let vm = Rc::new(Vm::new(host));
        Rc::new(Self { agent: RefCell::new(SyncClient::new(&vm)), vm, fail_open })
    }

    /// The thread's state.
    pub fn vm(&self) -> &Rc<Vm<H>> {
        &self.vm
    }

    /// This code has panicked: runs crash recovery.
    pub fn recover(&self) {
        self.vm.recovery.run();
    }

    /// Creates the plugin of the context with this number and root id. None if its configuration is
    /// refused, which the log then says.
    pub fn plug(self: &Rc<Self>, context: u32, root_id: &str, configuration: Vec<u8>) -> Option<Root<H>> {
        let Some(plugin) = Plugin::of(root_id) else {
            let [inbound, outbound, attempt] = Plugin::ALL.map(Plugin::root_id);
            log::error!("unknown root_id {root_id:?}; allowed: {inbound}, {outbound}, {attempt}");
            return None;
        };
        let engine = Rc::clone(self);
        let mut root = Root { engine, context, plugin, id: None, service: None, later: None };
        if self.fail_open.is_active(&self.vm.host) {
            // Reading the configuration may be what crashes.
            root.later = Some(configuration);
            self.vm.host.set_tick_period(context, TICK);
            return Some(root);
        }
        root.configure(&configuration).then_some(root)
    }

    /// Tells the agent what the present configurations say.
    fn configure_agent(&self) {
        self.agent.borrow_mut().configure(self.vm.control_plane().as_ref());
    }

    /// Looks after all services. Returns how often they need a tick, if any does.
    fn look(&self, service: impl Fn(&mut Service<H>, Timestamp) -> Turns<H>) -> Option<Duration> {
        let (now, all) = (self.vm.host.now(), self.vm.services());
        let turns: Vec<Turns<H>> = all.iter().map(|shared| service(&mut shared.borrow_mut(), now)).collect();
        for turns in turns {
            turns.take(now);
        }
        all.iter().filter_map(|service| service.borrow().tick_period(now)).min()
    }

    /// Ends a callback in which the control plane may have changed something: releases requests
    /// that must not be held any longer.
    fn settle(&self) {
        if self.vm.take_updated()
            && let Some(period) = self.look(Service::look)
        {
            self.vm.pace.hurry(period);
        }
    }
}

/// The filter of a new stream.
pub enum NewFilter<H: Host> {
    /// Of an incoming request.
    Inbound(InboundRequest<H>),
    /// Of an outgoing request.
    Outbound(OutboundRequest<H>),
    /// Of an attempt.
    Attempt(Attempt<H>),
    /// Of any stream, while the filters fail open.
    Passing(Passing<H::Stream>),
}

/// One plugin of one thread. It is dropped with its root context, which Envoy keeps as long as any
/// listener or stream has its configuration. So it keeps the root context of an updated listener
/// until that has drained. A listener that is rolled back before then serves again without being
/// configured anew.
pub struct Root<H: Host> {
    engine: Rc<Engine<H>>,
    context: u32,
    plugin: Plugin,
    /// Its configuration, once that is in force.
    id: Option<PluginId>,
    /// The service that an inbound filter stands in front of, if its configuration names one.
    service: Option<String>,
    /// The plugin configuration, while the filters fail open.
    later: Option<Vec<u8>>,
}

impl<H: Host> Root<H> {
    /// Puts a plugin configuration in force; false if it is refused.
    fn configure(&mut self, configuration: &[u8]) -> bool {
        let configuration = match PluginConfig::from_json(configuration) {
            Ok(configuration) => configuration,
            Err(error) => {
                log::error!("{}: configuration refused: {error}", self.plugin.root_id());
                return false;
            }
        };
        if !configuration.passed_over().is_empty() {
            let names = configuration.passed_over();
            log::warn!("{}: with: ignored {names:?}, features that this module does not have", self.plugin.root_id());
        }
        let vm = &self.engine.vm;
        let inbound = self.plugin == Plugin::Inbound;
        self.service = configuration.service().filter(|_| inbound).map(str::to_owned);
        self.id = Some(vm.configure(self.plugin, configuration));
        if let Some(service) = &self.service {
            vm.service(service);
        }
        self.engine.configure_agent();
        vm.pace.add(self.context, vm.number, TICK);
        vm.pace.hurry(TICK);
        true
    }

    /// The root context ticks.
    pub fn tick(&mut self) {
        let engine = Rc::clone(&self.engine);
        let vm = &engine.vm;
        if self.later.is_some() && engine.fail_open.is_active(&vm.host) {
            return;
        }
        if let Some(configuration) = self.later.take() {
            // Configuring sets the period again, if this context carries the ticks.
            vm.host.set_tick_period(self.context, Duration::ZERO);
            self.configure(&configuration);
            return;
        }
        crash::point(&vm.host, "tick");
        if !vm.pace.is_carried_by(self.context) {
            return;
        }
        engine.agent.borrow_mut().tick();
        engine.settle();
        let services = engine.look(Service::tick);
        let (streams, turns) = vm.streams.look(vm.host.now());
        // A stream that counts again may need quicker ticks: without signs of life from this
        // thread, others would give its place away.
        let woken = vm.services().iter().filter_map(|service| service.borrow().tick_period(vm.host.now())).min();
        let period = services.into_iter().chain(woken).chain(streams).chain([engine.agent.borrow().period()]).min();
        vm.pace.set(period.unwrap_or(TICK));
        for turns in turns {
            turns.take(vm.host.now());
        }
        attempt::answer_due(vm);
    }

    /// Messages have come.
    pub fn messages(&self, messages: impl IntoIterator<Item = Vec<u8>>) {
        let vm = &self.engine.vm;
        let (mut period, mut all): (Option<Duration>, Vec<Turns<H>>) = (None, Vec::new());
        for message in messages {
            let Some(message) = Message::decode(&message) else { continue };
            let service = match message {
                Message::News => {
                    if !self.engine.agent.borrow_mut().observe() {
                        vm.pace.hurry(TICK);
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
            vm.pace.hurry(period);
        }
        for turns in all {
            turns.take(vm.host.now());
        }
        self.engine.settle();
    }

    /// A call of ours was answered, or (none) has failed.
    pub fn call_answered(&self, token: u32, answer: Option<&PostAnswer>) {
        let vm = &self.engine.vm;
        let on = self.engine.agent.borrow_mut().answered(token, answer);
        if !on {
            vm.pace.hurry(TICK);
        }
        self.engine.settle();
    }

    /// The filter of a new stream.
    pub fn filter(&self, stream: H::Stream) -> NewFilter<H> {
        let vm = &self.engine.vm;
        let Some(id) = self.id else { return NewFilter::Passing(Passing(stream)) };
        match self.plugin {
            Plugin::Outbound => NewFilter::Outbound(OutboundRequest::new(vm, id, stream)),
            Plugin::Attempt => NewFilter::Attempt(Attempt::new(vm, stream)),
            Plugin::Inbound => {
                let named = self.service.as_deref().and_then(|service| vm.known_service(service));
                NewFilter::Inbound(InboundRequest::new(vm, id, stream, named))
            }
        }
    }
}

impl<H: Host> Drop for Root<H> {
    fn drop(&mut self) {
        let (engine, vm) = (&self.engine, &self.engine.vm);
        let Some(id) = self.id else {
            if self.later.is_some() {
                vm.host.set_tick_period(self.context, Duration::ZERO);
            }
            return;
        };
        vm.remove(self.plugin, id);
        let carried = vm.pace.remove(self.context, vm.number);
        if carried {
            engine.agent.borrow_mut().moved();
        }
        if !vm.pace.is_carried() {
            vm.flush();
            engine.agent.borrow_mut().leave();
            vm.recovery.resign();
            return;
        }
        engine.configure_agent();
        // Wake-ups under way to this context are lost. So the new carrier reads all messages, and
        // asks the control plane again. Likewise if the control plane's parameters no longer apply.
        if carried || vm.is_updated() {
            vm.host.wake(vm.number, &Message::News.encode());
        }
    }
}
