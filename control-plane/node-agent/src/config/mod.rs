//! The configuration: applications, their pods and their limits.
//!
//! `apps` has applications by `namespace/name`: DNS names, at most 240 bytes together. The README
//! has an example.
//!
//! | value | default | allowed |
//! |---|---|---|
//! | `mode` | `observe` | `observe` changes nothing and shows its decisions; `enforce` |
//! | `overrideLimits` | `false` | `true`: a limit may exceed the sum of the containers' own limits |
//! | `pods.matchLabels` | | at least one label; all must match, in the application's namespace |
//! | `containers` | `["*", "!istio-proxy"]` | names, `*` for all, `!name` for all but this one |
//! | `cpu`, `qos`, `memory` | a missing resource is left alone | at least one of them; not both `cpu` and `qos` |
//! | `cpu.limit` | | 10m to 1024 cores |
//! | `cpu.over` | `node` | `node`: each node has the whole limit; `cluster`: all nodes share it, only with `--control-plane` |
//! | `cpu.floor` | 50m, or `limit` if that is less | 10m to `limit` |
//! | `cpu.grow`, `cpu.shrink` | see [`Rule`](crate::cpu::Rule) | 0.01 to 1 |
//! | `cpu.slack` | see [`Rule`](crate::cpu::Rule) | 10m to 4 cores |
//! | `cpu.window` | see [`Rule`](crate::cpu::Rule) | 1 to 50 steps |
//! | `qos` | | only with `--control-plane`, which knows the response times |
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

pub use checked::{AppConfig, AppName, Config, Containers, CpuConfig, MemoryConfig, Mode, Over};
