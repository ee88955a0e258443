//! What node agents say of the CPU of pods and applications ([`CpuMessage`]), and what that means
//! for the proxy of a pod.
//!
//! The agents decide on quotas, `bloc-policy` on what a server does with them. This module only
//! brings one to the other. The polls that wait for it are in [`store`](crate::store).
//!
//! An agent sends each replica what it says, so all know the same, and nothing of it is in a
//! version (`adr/0004-cpu-in-the-poll.md`). A pod of which nothing was heard for [`SILENT_AFTER`]
//! is not known any more, and its proxy is told that. A replica that has never heard of a pod says
//! nothing of it: it may be new, or an agent may reach only other replicas. A proxy that is told
//! nothing for 90 s forgets by itself.
//!
//! A message may also ask for the response times of pods, which their proxies report. Those are
//! counted here from then on, and the answer has the sums
//! (`adr/0005-response-times-for-agents.md`).
//!
//! | file | what |
//! |---|---|
//! | `table` | all pods, applications and agents, within [`MOST_BYTES`] |
//! | `history`, `cost` | the CPU time and quotas of a pod over time; CPU time per request |
//! | `told`, `news` | the CPU of a proxy's pod: who is told, and when |
//! | `asked` | the response times of pods that agents ask for |
//! | `view` | what operators see |

mod asked;
#[cfg(test)]
mod asked_tests;
mod cost;
mod history;
mod news;
mod table;
#[cfg(test)]
mod table_tests;
mod told;
mod view;

pub use asked::ASKED_EVERY;
pub use bloc_daemon::cpu::{CpuMessage, differs};
pub use news::{GAP, SILENT_AFTER, pod_of};
pub use table::{Cpus, Known, MOST_BYTES};
pub use view::{AppView, ContainerView};
