//! The configuration as written in YAML, and its validation.

use super::checked::{AppConfig, AppName, Config, Containers, CpuConfig, MemoryConfig, Mode, Over};
use crate::bytes::Bytes;
use crate::cores::Cores;
use crate::{cpu, memory, qos};
use bloc_daemon::ranges::{app, refused, within};
use bloc_policy::config::ConfigError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
struct ConfigSpec {
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    override_limits: bool,
    #[serde(default)]
    apps: BTreeMap<String, AppSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping")]
struct AppSpec {
    pods: Selector,
    #[serde(default = "all_but_the_sidecar")]
    containers: Vec<String>,
    cpu: Option<CpuSpec>,
    qos: Option<QosSpec>,
    memory: Option<MemorySpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping")]
struct CpuSpec {
    limit: Cores,
    #[serde(default)]
    over: Over,
    floor: Option<Cores>,
    grow: Option<f64>,
    shrink: Option<f64>,
    slack: Option<Cores>,
    window: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping")]
struct MemorySpec {
    limit: Bytes,
    reserve: Option<f64>,
    margin: Option<Bytes>,
    step: Option<Bytes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping")]
struct QosSpec {
    target: String,
    threshold: Option<f64>,
    step: Option<f64>,
}

fn all_but_the_sidecar() -> Vec<String> {
    vec!["*".to_owned(), "!istio-proxy".to_owned()]
}

/// The kernel's smallest quota: 1 ms in 100 ms.
const LEAST: Cores = Cores::new(0.01);
const MOST: Cores = Cores::new(1_024.0);
const FLOOR: Cores = Cores::new(0.05);

impl Config {
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        bloc_yaml::read::<ConfigSpec>(text)?.check()
    }

    /// For an agent without a control plane: it has neither response times nor leases.
    pub fn read_without_control_plane(text: &str) -> Result<Self, ConfigError> {
        let config = Self::read(text)?;
        for (name, app) in &config.apps {
            if app.qos.is_some() {
                let allowed = "only with --control-plane, which knows the response times";
                return Err(refused(format_args!("apps.{name}.qos"), "qos", allowed));
            }
            if app.cpu.as_ref().is_some_and(|cpu| cpu.over == Over::Cluster) {
                let allowed = "node; cluster only with --control-plane, which leases parts of the limit";
                return Err(refused(format_args!("apps.{name}.cpu.over"), "cluster", allowed));
            }
        }
        Ok(config)
    }
}

impl ConfigSpec {
    fn check(self) -> Result<Config, ConfigError> {
        let mut apps = BTreeMap::new();
        for (name, spec) in self.apps {
            let at = format!("apps.{name}");
            app(&at, &name)?;
            apps.insert(AppName(name), spec.check(&at)?);
        }
        Ok(Config { mode: self.mode, override_limits: self.override_limits, apps })
    }
}

impl AppSpec {
    fn check(self, at: &str) -> Result<AppConfig, ConfigError> {
        if self.pods.match_labels.is_empty() {
            return Err(refused(format_args!("{at}.pods.matchLabels"), "{}", "at least one label"));
        }
        let containers = containers(self.containers, &format!("{at}.containers"))?;
        match (&self.cpu, &self.qos, &self.memory) {
            (None, None, None) => {
                return Err(refused(at, "an application without a resource", "at least one of cpu, qos, memory"));
            }
            (Some(_), Some(_), _) => return Err(refused(at, "cpu with qos", "one of them")),
            _ => {}
        }
        Ok(AppConfig {
            labels: self.pods.match_labels,
            containers,
            cpu: self.cpu.map(|cpu| cpu.check(&format!("{at}.cpu"))).transpose()?,
            qos: self.qos.map(|qos| qos.check(&format!("{at}.qos"))).transpose()?,
            memory: self.memory.map(|memory| memory.check(&format!("{at}.memory"))).transpose()?,
        })
    }
}

impl CpuSpec {
    fn check(self, at: &str) -> Result<CpuConfig, ConfigError> {
        let usual = cpu::Rule::default();
        let limit = within(format_args!("{at}.limit"), self.limit, LEAST, MOST)?;
        let floor = within(format_args!("{at}.floor"), self.floor.unwrap_or(FLOOR.min(limit)), LEAST, limit)?;
        let rule = cpu::Rule {
            grow: within(format_args!("{at}.grow"), self.grow.unwrap_or(usual.grow), 0.01, 1.0)?,
            shrink: within(format_args!("{at}.shrink"), self.shrink.unwrap_or(usual.shrink), 0.01, 1.0)?,
            slack: within(format_args!("{at}.slack"), self.slack.unwrap_or(usual.slack), LEAST, Cores::new(4.0))?,
            window: match self.window {
                Some(window) => within(format_args!("{at}.window"), window, 1, 50)? as usize,
                None => usual.window,
            },
        };
        Ok(CpuConfig { limit, over: self.over, floor, rule })
    }
}

impl QosSpec {
    fn check(self, at: &str) -> Result<qos::Rule, ConfigError> {
        let range = Duration::from_millis(1)..=Duration::from_secs(60);
        let target = humantime::parse_duration(&self.target).ok();
        let Some(target) = target.filter(|target| range.contains(target)) else {
            let allowed = "a duration such as 200ms or 1.5s, 1ms to 1m";
            return Err(refused(format_args!("{at}.target"), self.target, allowed));
        };
        let usual = qos::Rule::new(target);
        Ok(qos::Rule {
            threshold: within(format_args!("{at}.threshold"), self.threshold.unwrap_or(usual.threshold), 1.1, 1.8)?,
            step: within(format_args!("{at}.step"), self.step.unwrap_or(usual.step), 10.0, 50.0)?,
            ..usual
        })
    }
}

impl MemorySpec {
    fn check(self, at: &str) -> Result<MemoryConfig, ConfigError> {
        let usual = memory::Rule::default();
        let limit = within(format_args!("{at}.limit"), self.limit, Bytes::mebi(16), Bytes::mebi(64 << 20))?;
        let step = within(format_args!("{at}.step"), self.step.unwrap_or(usual.step), Bytes::mebi(4), limit)?;
        // A grant ends a step above the use: with a smaller margin, it would be taken back and
        // repeated.
        let margin = self.margin.unwrap_or(usual.margin.max(step).min(limit));
        let rule = memory::Rule {
            reserve: within(format_args!("{at}.reserve"), self.reserve.unwrap_or(usual.reserve), 0.0, 0.9)?,
            margin: within(format_args!("{at}.margin"), margin, step, limit)?,
            step,
        };
        Ok(MemoryConfig { limit, rule })
    }
}

fn containers(texts: Vec<String>, at: &str) -> Result<Containers, ConfigError> {
    for (index, text) in texts.iter().enumerate() {
        let name = text.strip_prefix('!').unwrap_or(text);
        if text != "*" && (name.is_empty() || name.contains(['*', '!', '/'])) {
            let allowed = "a name, * for all, or !name for all but this one";
            return Err(refused(format_args!("{at}[{index}]"), text, allowed));
        }
    }
    if texts.iter().all(|text| text.starts_with('!')) {
        return Err(refused(at, format!("{texts:?}"), "at least one name or *"));
    }
    Ok(Containers(texts))
}
