//! The autoscaler queries of control-plane/README.md, unchanged.

use super::testbed::repository;
use crate::mesh::Mesh;
use crate::prometheus::Prometheus;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

const README: &str = "control-plane/README.md";
/// The least result of each query while the servers get more than they finish: a utilisation, or
/// the number of servers needed.
const OVERLOAD: f64 = 1.0;

/// Checks that each query for KEDA, and for the HorizontalPodAutoscaler through prometheus-adapter,
/// gives one number, and that it shows an overload.
pub async fn get_their_numbers(mesh: &Mesh, prometheus: &Prometheus) -> Result<()> {
    for query in queries(&std::fs::read_to_string(repository(mesh)?.join(README))?)? {
        let mut number = 0.0;
        mesh.until(&query, async || {
            number = prometheus.number(&query).await?;
            ensure!(number > OVERLOAD, "{number}");
            Ok(true)
        })
        .await?;
        println!("        {number:.3}: {query}");
    }
    Ok(())
}

/// The queries in the examples of a text.
fn queries(markdown: &str) -> Result<Vec<String>> {
    let mut documents: Vec<Value> = Vec::new();
    for block in markdown.split("\n```yaml\n").skip(1) {
        let block = block.split("\n```").next().unwrap_or_default();
        documents.extend(serde_saphyr::from_multiple::<Value>(block).with_context(|| block.to_owned())?);
    }
    let mut found = Vec::new();
    for trigger in documents.iter().flat_map(|document| array(&document["spec"]["triggers"])) {
        found.push(trigger["metadata"]["query"].as_str().context("a trigger without a query")?.to_owned());
    }
    let keda = found.len();
    for metric in documents.iter().flat_map(|document| array(&document["spec"]["metrics"])) {
        let metric = &metric["external"]["metric"];
        let mut rules = documents.iter().flat_map(|document| array(&document["externalRules"]));
        let rule = rules.find(|rule| rule["name"]["as"] == metric["name"]);
        let rule = rule.with_context(|| format!("no rule makes {}", metric["name"]))?;
        let labels = metric["selector"]["matchLabels"].as_object().context("a metric without labels")?;
        let matchers: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let text = |name: &str| rule[name].as_str().with_context(|| format!("a rule without {name}"));
        let query = text("metricsQuery")?.replace("<<.Series>>", text("seriesQuery")?);
        found.push(query.replace("<<.LabelMatchers>>", &matchers.join(",")));
    }
    ensure!(keda > 0 && found.len() > keda, "not the examples of both: {found:?}");
    Ok(found)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_keda_and_adapter_queries_in_the_readme() {
        let readme = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(README);
        let found = queries(&std::fs::read_to_string(readme).unwrap()).unwrap();
        assert_eq!(found.len(), 3, "{found:?}");
        for query in found {
            assert!(query.contains("service=\"backend.shop.svc.cluster.local\"") && !query.contains("<<"), "{query}");
        }
    }
}
