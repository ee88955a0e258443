//! What the operator writes: applications, their pods and their limits.
//!
//! ```yaml
//! mode: observe            # or enforce; observe changes nothing and shows what enforce would do
//! overrideLimits: false    # true: an application's limit may exceed the sum of its containers' own
//! apps:
//!   shop/checkout:
//!     pods: {matchLabels: {app: checkout}}
//!     containers: ["*", "!istio-proxy"]
//!     cpu: {limit: "4", floor: 50m, grow: 1, shrink: 0.8, slack: 200m, window: 3}
//! ```
//!
//! | value | default | allowed |
//! |---|---|---|
//! | `mode` | `observe` | `observe`, `enforce` |
//! | `pods.matchLabels` | | at least one label; all must match, in the application's namespace |
//! | `containers` | `["*", "!istio-proxy"]` | names, `*` for all, `!name` for all but this |
//! | `cpu.limit` | | 10m to 1024 cores, on each node |
//! | `cpu.floor` | 50m, or `limit` if that is less | 10m to `limit` |
//! | `cpu.grow`, `cpu.shrink` | see [`Rule`](crate::cpu::Rule) | 0.01 to 1 |
//! | `cpu.slack` | see [`Rule`](crate::cpu::Rule) | 10m to 4 cores |
//! | `cpu.window` | see [`Rule`](crate::cpu::Rule) | 1 to 50 steps |

mod checked;
mod spec;
#[cfg(test)]
mod tests;

pub use checked::{AppConfig, AppName, Config, Containers, Mode};
