//! Least request over all servers: the one with the fewest pending requests of this sender; at a
//! tie a random one of them.

use super::pending::{ByPending, Pending};
use super::{Policy, SenderModel};

/// Least request, full scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastRequestFull;

impl Policy for LeastRequestFull {
    fn sender(&self) -> Box<dyn SenderModel> {
        ByPending::boxed(pick)
    }
}

fn pick(known: &Pending, rng: &mut fastrand::Rng) -> Option<u32> {
    let least = known.members.iter().map(|&server| known.of[server as usize]).min()?;
    let equals = || known.members.iter().filter(|&&server| known.of[server as usize] == least);
    equals().nth(rng.usize(..equals().count())).copied()
}
