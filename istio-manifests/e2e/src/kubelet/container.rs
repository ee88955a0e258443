//! The containers of a pod, and the programs that replace their images.

use super::environment::{expand, variables};
use super::text::text;
use super::volumes::{array, moved};
use crate::inside::SCRATCH;
use crate::tools::Tools;
use anyhow::{Result, bail};
use bloc_mesh::http;
use bloc_mesh::process::Process;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const PROBE_LIMIT: Duration = Duration::from_secs(3);
const INIT_LIMIT: Duration = Duration::from_secs(60);

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// To its end, before the others.
    Init,
    /// Before the main ones, and beside them.
    Sidecar,
    /// For as long as the pod runs.
    Main,
}

/// A container as its pod declares it.
#[derive(Debug)]
pub struct Container<'a> {
    pub name: String,
    pub stage: Stage,
    spec: &'a Value,
}

/// All containers of a pod in the order in which they start.
pub fn all(pod: &Value) -> impl Iterator<Item = Container<'_>> {
    let list = |name: &str| pod["spec"][name].as_array().into_iter().flatten();
    let init = list("initContainers").map(|spec| {
        let stage = if spec["restartPolicy"] == "Always" { Stage::Sidecar } else { Stage::Init };
        Container { name: text(&spec["name"]), stage, spec }
    });
    init.chain(list("containers").map(|spec| Container { name: text(&spec["name"]), stage: Stage::Main, spec }))
}

impl Container<'_> {
    /// The command that replaces this container's image, with the container's arguments,
    /// environment and user.
    pub fn command(&self, tools: &Tools, pod: &Value, extra: &[String]) -> Result<Vec<String>> {
        let own = |name: &str| tools.own.join(name).display().to_string();
        let program: Vec<String> = match self.name.as_str() {
            "istio-init" | "istio-proxy" => vec![format!("{SCRATCH}/bin/pilot-agent")],
            "discovery" => vec![tools.istio.join("pilot-discovery").display().to_string()],
            "control-plane" => vec![own("bloc-control-plane")],
            "node-agent" => vec![own("bloc-node-agent")],
            "frontend" => vec![std::env::current_exe()?.display().to_string(), "frontend".to_owned()],
            "backend" => vec![own("bloc-lab"), "backend".to_owned(), "--listen".to_owned(), "0.0.0.0:8080".to_owned()],
            other => bail!("no program stands for the container {other}"),
        };
        let variables = variables(pod, self.spec);
        let arguments = array(&self.spec["args"]).map(|argument| {
            let argument = expand(&text(argument), &variables);
            let mounts = array(&self.spec["volumeMounts"]).map(|mount| text(&mount["mountPath"]));
            mounts.fold(argument, |argument, path| {
                let (all, moved) = (format!("={path}"), moved(&path));
                if argument.ends_with(&all) { argument.replace(&path, &moved) } else { argument }
            })
        });
        let context =
            |name: &str| self.spec["securityContext"][name].as_u64().or(pod["spec"]["securityContext"][name].as_u64());
        let mut command = vec!["env".to_owned(), "--ignore-environment".to_owned(), "--chdir=/".to_owned()];
        command.extend(variables.iter().cloned());
        if let (Some(user), Some(group)) = (context("runAsUser"), context("runAsGroup"))
            && user != 0
        {
            let user = [
                "setpriv".into(),
                format!("--reuid={user}"),
                format!("--regid={group}"),
                "--clear-groups".into(),
                "--".into(),
            ];
            command.extend(user);
        } else if self.spec["securityContext"]["capabilities"]["drop"] == json!(["ALL"]) {
            let added = array(&self.spec["securityContext"]["capabilities"]["add"]);
            let added: String = added.map(|name| format!(",+{}", text(name).to_lowercase())).collect();
            let only = ["inh-caps", "bounding-set"].map(|set| format!("--{set}=-all{added}"));
            command.extend(["setpriv".to_owned()].into_iter().chain(only).chain(["--".to_owned()]));
        }
        command.extend(program);
        if self.name == "backend" {
            command.extend(["--name".to_owned(), text(&pod["metadata"]["name"])]);
        }
        command.extend(arguments);
        command.extend(extra.iter().cloned());
        Ok(command)
    }

    /// Whether its readiness probe succeeds, or it has none. A sidecar that others wait for has a
    /// startup probe at the same place.
    pub async fn is_ready(&self, address: Ipv4Addr) -> bool {
        let probe = &self.spec["readinessProbe"]["httpGet"];
        let named = || {
            let ports = self.spec["ports"].as_array().into_iter().flatten();
            ports.filter(|port| port["name"] == probe["port"]).find_map(|port| port["containerPort"].as_u64())
        };
        let Some(port) = probe["port"].as_u64().or_else(named).and_then(|port| u16::try_from(port).ok()) else {
            return true;
        };
        let path = text(&probe["path"]);
        let answer = http::get(SocketAddr::from((address, port)), &path, PROBE_LIMIT).await;
        answer.is_ok_and(|(status, _)| status.is_success())
    }
}

/// Waits until a program has ended successfully.
pub async fn finish(process: &mut Process) -> Result<()> {
    let deadline = Instant::now() + INIT_LIMIT;
    loop {
        match process.check() {
            Ok(()) if Instant::now() < deadline => sleep(Duration::from_millis(20)).await,
            Ok(()) => return Err(process.late("end", INIT_LIMIT).into()),
            Err(bloc_mesh::process::ProcessError::Ended { status, .. }) if status == "exit status: 0" => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
