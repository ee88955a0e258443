//! Clocks, randomness, ticks, contexts, the log.

use super::call::{Answer, Call};
use super::memory::Slice;
use crate::context::{Action, Context};
use crate::status::{Refusal, Status};
use std::time::Duration;

/// The most bytes that `random_get` gives at once, as in Envoy.
const MOST_RANDOM: u32 = 64 * 1024;

impl Call<'_, '_> {
    pub(super) fn clock(&mut self, id: u32, to: u32) -> Answer {
        let common = &self.guest().common;
        let nanos = match id {
            0 => common.realtime(),
            1 => common.now(),
            _ => return Err(Refusal::Fault(Status::Unimplemented, format!("there is no clock {id}"))),
        };
        self.write(to, &(nanos.as_nanos() as u64).to_le_bytes())
    }

    pub(super) fn realtime(&mut self, to: u32) -> Answer {
        self.clock(0, to)
    }

    pub(super) fn random(&mut self, to: u32, size: u32) -> Answer {
        if size > MOST_RANDOM {
            return Err(Refusal::Fault(Status::Unimplemented, format!("{size} random bytes are too many")));
        }
        let mut bytes = vec![0; size as usize];
        self.guest().common.with(|common| common.rng.fill(&mut bytes));
        self.write(to, &bytes)
    }

    pub(super) fn set_tick_period(&mut self, period: u32) -> Answer {
        let guest = self.guest();
        let mut address = guest.address;
        address.root = guest.root();
        guest.common.set_timer(address, Duration::from_millis(period.into()));
        Ok(())
    }

    pub(super) fn set_effective_context(&mut self, context: u32) -> Answer {
        let guest = self.guest();
        if context == 0 {
            // The VM's own context counts as none: the callback's context is effective again.
            guest.effective = None;
            return Ok(());
        }
        if !guest.contexts.contains_key(&context) {
            return Err(Refusal::bad(format!("there is no context {context}")));
        }
        guest.effective = Some(context);
        Ok(())
    }

    pub(super) fn done(&mut self) -> Answer {
        let guest = self.guest();
        let context = guest.effective();
        match guest.contexts.get_mut(&context) {
            Some(Context::Root(root)) if root.ending => {
                root.ending = false;
                guest.actions.push_back(Action::DeleteRoot(context));
                Ok(())
            }
            _ => Err(Refusal::Fault(Status::NotFound, "nobody waits for this context to be done".into())),
        }
    }

    pub(super) fn log(&mut self, level: u32, text: Slice) -> Answer {
        let text = self.read(text)?;
        if level > 5 {
            return Err(Refusal::bad(format!("there is no log level {level}")));
        }
        self.guest().common.log(level, String::from_utf8_lossy(&text).into_owned());
        Ok(())
    }
}
