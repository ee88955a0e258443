//! `bloc-lab goals` when no mesh starts: nothing is measured, so the command reports that no claim
//! holds.

use std::path::Path;
use std::process::Command;

const LAB: &str = env!("CARGO_BIN_EXE_bloc-lab");

#[test]
fn unmeasured_claims_fail_the_command_after_results_are_written() {
    // All files that a mesh needs exist, but none works. The hard link has to be on the program's
    // file system.
    let lab = Path::new(LAB);
    let directory = tempfile::tempdir_in(lab.parent().unwrap()).unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::hard_link(lab, at("bloc-lab")).unwrap();
    std::fs::copy("/bin/false", at("bloc-control-plane")).unwrap();
    std::fs::write(at("bloc.wasm"), "").unwrap();
    let mut command = Command::new(at("bloc-lab"));
    command.args(["goals", "--only", "overload", "--rounds", "2", "--duration", "1s", "--seed", "7", "--out"]);
    command.arg(at("out")).env("CARGO_TARGET_DIR", directory.path()).env("ENVOY", "/bin/false");
    let output = command.env_remove("BLOC_WASM").output().unwrap();

    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let last = "not kept: overload/goodput (not measured), overload/goodput-two-choices (not measured), \
                overload/goodput-tuned (not measured), overload/p99-tuned (not measured), \
                overload/p99-two-choices (not measured), overload/cpu-tuned (not measured)";
    assert!(error.trim_end().ends_with(last), "{error}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.matches("NOT MEASURED").count(), 6, "{text}");
    assert!(text.contains("2 rounds are no headline"), "{text}");
    assert!(!text.contains("one-place"), "a kind that was not asked for: {text}");

    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(at("out/goals.json")).unwrap()).unwrap();
    let seeds: Vec<u64> = (0..2).map(|round| bloc_mesh::seeds::round(7, round)).collect();
    assert_eq!(written["seeds"], serde_json::json!(seeds));
    let claim = &written["claims"][0];
    assert_eq!((&claim["id"], &claim["outcome"]), (&"overload/goodput".into(), &"not_measured".into()));
    assert_eq!(claim["rounds"][1]["seed"], seeds[1]);
    assert_eq!(std::fs::read_to_string(at("out/records.json")).unwrap().trim(), "[\n\n]");
}
