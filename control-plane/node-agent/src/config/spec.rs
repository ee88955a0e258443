//! The configuration as it is written.

use super::checked::{AppConfig, AppName, Config, Containers, CpuConfig, MemoryConfig, Mode, Over, QosConfig};
use crate::bytes::Bytes;
use crate::cores::Cores;
use crate::{cpu, memory, qos};
use bloc_daemon::ranges::{is_app, refused, within};
use bloc_policy::config::ConfigError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigSpec {
    #[serde(default)]
    mode: ModeSpec,
    #[serde(default)]
    override_limits: bool,
    #[serde(default)]
    apps: BTreeMap<String, AppSpec>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ModeSpec {
    #[default]
    Observe,
    Enforce,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AppSpec {
    pods: Selector,
    #[serde(default = "all_but_the_sidecar")]
    containers: Vec<String>,
    cpu: Option<CpuSpec>,
    qos: Option<QosSpec>,
    memory: Option<MemorySpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CpuSpec {
    limit: Cores,
    #[serde(default)]
    over: OverSpec,
    floor: Option<Cores>,
    grow: Option<f64>,
    shrink: Option<f64>,
    slack: Option<Cores>,
    window: Option<u32>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum OverSpec {
    #[default]
    Node,
    Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MemorySpec {
    limit: Bytes,
    reserve: Option<f64>,
    margin: Option<Bytes>,
    step: Option<Bytes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct QosSpec {
    target: String,
    threshold: Option<f64>,
    step: Option<f64>,
}

fn all_but_the_sidecar() -> Vec<String> {
    vec!["*".to_owned(), "!istio-proxy".to_owned()]
}

/// Below this the kernel's shortest quota, 1 ms in 100 ms, is reached.
const LEAST: Cores = Cores::new(0.01);
const MOST: Cores = Cores::new(1_024.0);
const FLOOR: Cores = Cores::new(0.05);
const MOST_SLACK: Cores = Cores::new(4.0);
const LEAST_PART: f64 = 0.01;
const MOST_WINDOW: u32 = 50;
const LEAST_MEMORY: Bytes = Bytes::mebi(16);
const MOST_MEMORY: Bytes = Bytes::mebi(64 << 20);
const LEAST_STEP: Bytes = Bytes::mebi(4);
const MOST_RESERVE: f64 = 0.9;
const LEAST_TARGET: Duration = Duration::from_millis(1);
const MOST_TARGET: Duration = Duration::from_secs(60);

impl Config {
    /// Reads YAML.
    ///
    /// # Errors
    /// The first value that is not allowed, with its path and the allowed range.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        bloc_yaml::read::<ConfigSpec>(text)?.check()
    }

    /// The same, for an agent that hears no response times and holds no parts of limits.
    ///
    /// # Errors
    /// The first value that is not allowed, with its path and the allowed range.
    pub fn read_without_control_plane(text: &str) -> Result<Self, ConfigError> {
        let config = Self::read(text)?;
        for (name, app) in &config.apps {
            if app.qos.is_some() {
                let allowed = "only with --control-plane, from where response times come";
                return Err(refused(format!("apps.{name}.qos"), "qos", allowed));
            }
            if app.cpu.as_ref().is_some_and(|cpu| cpu.over == Over::Cluster) {
                let allowed = "node; cluster only with --control-plane, which leases the limit's parts";
                return Err(refused(format!("apps.{name}.cpu.over"), "cluster", allowed));
            }
        }
        Ok(config)
    }
}

impl ConfigSpec {
    fn check(self) -> Result<Config, ConfigError> {
        let mode = match self.mode {
            ModeSpec::Observe => Mode::Observe,
            ModeSpec::Enforce => Mode::Enforce,
        };
        let mut apps = BTreeMap::new();
        for (text, app) in self.apps {
            let at = format!("apps.{text}");
            let Some(name) = name(&text) else {
                return Err(refused(at, text, "namespace/name, each of letters, digits, - and ."));
            };
            let app = app.check(&at)?;
            let leased = app.cpu.as_ref().is_some_and(|cpu| cpu.over == Over::Cluster);
            if leased && !is_app(&text) {
                return Err(refused(at, text, LEASED_NAMES));
            }
            apps.insert(name, app);
        }
        Ok(Config { mode, override_limits: self.override_limits, apps })
    }
}

fn name(text: &str) -> Option<AppName> {
    let (namespace, name) = text.split_once('/')?;
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
    };
    (plain(namespace) && plain(name)).then(|| AppName { namespace: namespace.to_owned(), name: name.to_owned() })
}

const LEASED_NAMES: &str =
    "with `over: cluster` namespace/name, each a lower-case DNS name, at most 240 bytes together";

impl AppSpec {
    fn check(self, at: &str) -> Result<AppConfig, ConfigError> {
        if self.pods.match_labels.is_empty() {
            return Err(refused(format!("{at}.pods.matchLabels"), "{}", "at least one label"));
        }
        let containers = containers(&self.containers, &format!("{at}.containers"))?;
        match (&self.cpu, &self.qos, &self.memory) {
            (None, None, None) => {
                return Err(refused(at.to_owned(), "nothing to move", "at least one of cpu, qos, memory"));
            }
            (Some(_), Some(_), _) => return Err(refused(at.to_owned(), "cpu and qos", "one of both")),
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
        let Self { limit, over, floor, grow, shrink, slack, window } = self;
        let path = |name: &str| format!("{at}.{name}");
        let limit = within(path("limit"), limit, LEAST, MOST)?;
        let floor = within(path("floor"), floor.unwrap_or(FLOOR.min(limit)), LEAST, limit)?;
        let usual = cpu::Rule::default();
        let window = window.map(|window| within(path("window"), window, 1, MOST_WINDOW)).transpose()?;
        let rule = cpu::Rule {
            grow: within(path("grow"), grow.unwrap_or(usual.grow), LEAST_PART, 1.0)?,
            shrink: within(path("shrink"), shrink.unwrap_or(usual.shrink), LEAST_PART, 1.0)?,
            slack: within(path("slack"), slack.unwrap_or(usual.slack), LEAST, MOST_SLACK)?,
            window: window.map_or(usual.window, |window| window as usize),
        };
        let over = match over {
            OverSpec::Node => Over::Node,
            OverSpec::Cluster => Over::Cluster,
        };
        Ok(CpuConfig { limit, over, floor, rule })
    }
}

impl QosSpec {
    fn check(self, at: &str) -> Result<QosConfig, ConfigError> {
        let path = |name: &str| format!("{at}.{name}");
        let target = humantime::parse_duration(&self.target).ok();
        let Some(target) = target.filter(|target| (LEAST_TARGET..=MOST_TARGET).contains(target)) else {
            return Err(refused(path("target"), self.target, "a duration such as 200ms or 1.5s, 1ms to 1m"));
        };
        let usual = qos::Rule::new(target);
        let rule = qos::Rule {
            threshold: within(path("threshold"), self.threshold.unwrap_or(usual.threshold), 1.1, 1.8)?,
            step: within(path("step"), self.step.unwrap_or(usual.step), 10.0, 50.0)?,
            ..usual
        };
        Ok(QosConfig { rule })
    }
}

impl MemorySpec {
    fn check(self, at: &str) -> Result<MemoryConfig, ConfigError> {
        let path = |name: &str| format!("{at}.{name}");
        let limit = within(path("limit"), self.limit, LEAST_MEMORY, MOST_MEMORY)?;
        let usual = memory::Rule::default();
        let step = within(path("step"), self.step.unwrap_or(usual.step), LEAST_STEP, limit)?;
        // A container is given a step above its use: what is less would be taken and given again
        // and again.
        let margin = self.margin.unwrap_or(usual.margin.max(step).min(limit));
        let rule = memory::Rule {
            reserve: within(path("reserve"), self.reserve.unwrap_or(usual.reserve), 0.0, MOST_RESERVE)?,
            margin: within(path("margin"), margin, step, limit)?,
            step,
        };
        Ok(MemoryConfig { limit, rule })
    }
}

fn containers(texts: &[String], at: &str) -> Result<Containers, ConfigError> {
    let mut containers = Containers { all: false, with: Default::default(), without: Default::default() };
    for (index, text) in texts.iter().enumerate() {
        let name = text.strip_prefix('!').unwrap_or(text);
        if text == "*" {
            containers.all = true;
        } else if name.is_empty() || name.contains(['*', '!', '/']) {
            return Err(refused(format!("{at}[{index}]"), text, "a name, * for all, or !name for all but this"));
        } else if text.starts_with('!') {
            containers.without.insert(name.to_owned());
        } else {
            containers.with.insert(name.to_owned());
        }
    }
    if !containers.all && containers.with.is_empty() {
        return Err(refused(at.to_owned(), format!("{texts:?}"), "at least one name or *"));
    }
    Ok(containers)
}
