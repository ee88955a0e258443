//! The modules of all proxies, for operators: which versions exist, and which proxies lack what.

use super::proxies::Record;
use crate::snapshot::Catalog;
use bloc_policy::config::features::{Feature, Features};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The most proxies, services and versions to name.
const MAX_NAMED: usize = 20;

/// The module of one proxy, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleView {
    /// The version of the module; `null`: not given.
    pub module: Option<String>,
    /// Its features.
    pub features: Vec<&'static str>,
    /// The features that its services use and that it lacks.
    pub lacking: Vec<&'static str>,
    /// The services whose parameters it could not read.
    pub unread: Vec<String>,
}

impl ModuleView {
    /// The module of this proxy.
    pub fn of(record: &Record, catalog: &Catalog) -> Self {
        Self {
            module: record.module.version.clone(),
            features: names(&record.module.features),
            lacking: names(&catalog.lacking(record.subscription.texts(), &record.module.features)),
            unread: record.unread.clone(),
        }
    }
}

/// The modules of all connected proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Modules {
    /// The first few pairs of version and features.
    pub versions: Vec<ModuleCount>,
    /// What proxies lack, by feature.
    pub lacking: Vec<Lacking>,
    /// The first few proxies that could not read parameters.
    pub unread: Vec<UnreadParameters>,
}

/// The proxies with one version and the same features.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleCount {
    /// The version; `null`: not given.
    pub module: Option<String>,
    /// The features.
    pub features: Vec<&'static str>,
    /// How many proxies.
    pub proxies: usize,
}

/// The proxies that lack a feature which their services use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lacking {
    /// The feature.
    pub feature: &'static str,
    /// How many proxies.
    pub proxies: usize,
    /// The first few of them.
    pub named: Vec<String>,
    /// The first few of these services.
    pub services: Vec<String>,
}

/// A proxy that could not read parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadParameters {
    pub proxy: String,
    /// The services.
    pub services: Vec<String>,
}

/// Counts the modules of proxies.
#[derive(Debug, Default)]
pub struct Tally<'a> {
    versions: BTreeMap<(Option<&'a str>, &'a Features), usize>,
    lacking: BTreeMap<Feature, (usize, Vec<&'a str>, BTreeSet<&'a str>)>,
    unread: Vec<(&'a str, &'a [String])>,
}

impl<'a> Tally<'a> {
    /// Counts a connected proxy.
    pub fn add(&mut self, proxy: &'a str, record: &'a Record, catalog: &'a Catalog) {
        let features = &record.module.features;
        *self.versions.entry((record.module.version.as_deref(), features)).or_default() += 1;
        for feature in catalog.lacking(record.subscription.texts(), features).iter() {
            let (proxies, named, services) = self.lacking.entry(feature).or_default();
            *proxies += 1;
            if named.len() < MAX_NAMED {
                named.push(proxy);
                let users = catalog.of(record.subscription.texts()).filter(|(_, service)| service.needs().has(feature));
                services.extend(users.map(|(name, _)| name.as_str()));
            }
        }
        if !record.unread.is_empty() {
            self.unread.push((proxy, &record.unread));
        }
    }

    /// How many proxies lack each feature that services in force need.
    pub fn lacking(&self, catalog: &Catalog) -> Vec<(Feature, usize)> {
        catalog.needs().iter().map(|feature| (feature, self.lacking.get(feature).map_or(0, |of| of.0))).collect()
    }

    /// How many proxies could not read parameters.
    pub fn unread(&self) -> usize {
        self.unread.len()
    }

    /// What operators see.
    pub fn view(self) -> Modules {
        let versions = self.versions.into_iter().map(|((module, features), proxies)| ModuleCount {
            module: module.map(str::to_owned),
            features: names(features),
            proxies,
        });
        let lacking = self.lacking.into_iter().map(|(feature, (proxies, named, services))| Lacking {
            feature,
            proxies,
            named: owned(named),
            services: owned(services.into_iter().take(MAX_NAMED)),
        });
        let unread = self.unread.into_iter().take(MAX_NAMED);
        let unread = unread.map(|(proxy, services)| UnreadParameters {
            proxy: proxy.to_owned(),
            services: services.iter().take(MAX_NAMED).cloned().collect(),
        });
        Modules { versions: versions.take(MAX_NAMED).collect(), lacking: lacking.collect(), unread: unread.collect() }
    }
}

fn names(features: &Features) -> Vec<Feature> {
    features.iter().collect()
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "modules_tests.rs"]
mod tests;
