//! What the operator writes: applications, their pods and their limits.
//!
//! ```yaml
//! mode: observe            # or enforce; observe changes nothing and shows its decisions
//! overrideLimits: false    # true: an application's limit may exceed the sum of its containers' own
//! apps:
//!   shop/checkout:
//!     pods: {matchLabels: {app: checkout}}
//!     containers: ["*", "!istio-proxy"]
//!     cpu: {limit: "4", over: node, floor: 50m, grow: 1, shrink: 0.8, slack: 200m, window: 3}
//!     memory: {limit: 4Gi, reserve: 0.2, margin: 50Mi, step: 16Mi}
//!   shop/cart:
//!     pods: {matchLabels: {app: cart}}
//!     qos: {target: 200ms, threshold: 1.2, step: 10}   # instead of cpu
//! ```
//!
//! | value | default | allowed |
//! |---|---|---|
//! | `mode` | `observe` | `observe`, `enforce` |
//! | `pods.matchLabels` | | at least one label; all must match, in the application's namespace |
//! | `containers` | `["*", "!istio-proxy"]` | names, `*` for all, `!name` for all but this |
//! | `cpu`, `qos`, `memory` | what is missing is left alone | at least one of them; not both `cpu` and `qos` |
//! | `cpu.limit` | | 10m to 1024 cores |
//! | `cpu.over` | `node` | `node`: each node has the limit; `cluster`: all nodes together, only with `--control-plane`, and the application's name consists of lower-case DNS names with at most 240 bytes together |
//! | `cpu.floor` | 50m, or `limit` if that is less | 10m to `limit` |
//! | `cpu.grow`, `cpu.shrink` | see [`Rule`](crate::cpu::Rule) | 0.01 to 1 |
//! | `cpu.slack` | see [`Rule`](crate::cpu::Rule) | 10m to 4 cores |
//! | `cpu.window` | see [`Rule`](crate::cpu::Rule) | 1 to 50 steps |
//! | `qos` | | only with `--control-plane`: response times come from there |
//! | `qos.target` | | 1ms to 1m, such as `200ms` or `1.5s` |
//! | `qos.threshold` | see [`Rule`](crate::qos::Rule) | 1.1 to 1.8 |
//! | `qos.step` | see [`Rule`](crate::qos::Rule) | 10 to 50 |
//! | `memory.limit` | | 16 MiB to 64 TiB, on each node |
//! | `memory.reserve` | see [`Rule`](crate::memory::Rule) | 0 to 0.9 |
//! | `memory.margin` | 50 MiB, or `step` if that is more, or `limit` if that is less | `step` to `limit` |
//! | `memory.step` | see [`Rule`](crate::memory::Rule) | 4 MiB to `limit` |

mod checked;
mod spec;
#[cfg(test)]
mod tests;

pub use checked::{AppConfig, AppName, Config, Containers, CpuConfig, MemoryConfig, Mode, Over, QosConfig};
