//! The documents state the claims that the commands check: each documented claim is checked, and
//! each checked claim is documented.

use bloc_lab::experiments::chaos::{self, Claim};
use bloc_lab::experiments::goals::{CLAIMS, KINDS};
use std::collections::BTreeSet;
use std::path::Path;

fn text(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts in backticks.
fn codes(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The part of a document below a heading, up to the next one of the same depth.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let begin = text.find(&format!("{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let body = &text[begin + heading.len()..];
    let depth = heading.split(' ').next().unwrap_or_default();
    let end = body.find(&format!("\n{depth} ")).unwrap_or(body.len());
    &body[..end]
}

/// The names in backticks in the first column of the tables in a text.
fn rows(text: &str) -> BTreeSet<&str> {
    let first = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    first.flat_map(codes).collect()
}

#[test]
fn documents_and_commands_have_the_same_performance_claims() {
    let record = text("docs/measurements.md");
    let readme = text("README.md");
    let written: BTreeSet<&str> = codes(&record).union(&codes(&readme)).copied().collect();
    let is_claim = |code: &&str| code.split_once('/').is_some_and(|(kind, _)| KINDS.contains(&kind));
    let asked: BTreeSet<&str> = CLAIMS.iter().filter(|claim| claim.bound.is_some()).map(|claim| claim.id).collect();
    let beside: BTreeSet<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
    let unchecked: Vec<&&str> = written.iter().filter(|code| is_claim(code) && !beside.contains(*code)).collect();
    assert!(unchecked.is_empty(), "documented, but checked by no command: {unchecked:?}");
    let unread: Vec<&&str> = asked.iter().filter(|id| !written.contains(*id)).collect();
    assert!(unread.is_empty(), "checked, but documented nowhere: {unread:?}");
}

#[test]
fn reliability_page_lists_each_chaos_row_under_its_claim() {
    let page = text("docs/reliability.md");
    for (claim, heading) in [
        (Claim::Ours, "### Only with these filters"),
        (Claim::Untuned, "### What tuned Envoy does too"),
        (Claim::NoHarm, "### No harm"),
    ] {
        let asked: BTreeSet<&str> = chaos::claims().filter(|(_, of)| *of == claim).map(|(name, _)| name).collect();
        assert_eq!(rows(section(&page, heading)), asked, "{heading}");
    }
}
