//! What node agents report about the CPU of pods and applications ([`CpuMessage`]), and what
//! follows for the proxy of a pod.
//!
//! The agents decide on quotas, `bloc-policy` on what a server does with them. This module only
//! connects the two. The polls that wait for it are in [`store`](crate::store).
//!
//! An agent sends its reports to each replica, so all know the same. None of it is in a version
//! (`adr/0004-cpu-in-the-poll.md`). After [`SILENT_AFTER`] without a report, a pod's CPU is
//! unknown, and its proxy is told so. A replica that has never heard of a pod tells its proxy
//! nothing: the pod may be new, or its agent may reach only other replicas. A proxy that is told
//! nothing for 90 s forgets its CPU by itself.
//!
//! A message may also ask for the response times of pods, which their proxies report. This module
//! counts them from then on, and the answer has the sums (`adr/0005-response-times-for-agents.md`).
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
