# `make` alone lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# First what is missing, then what takes long.
.NOTPARALLEL:

LAB := target/release/bloc-lab
comma := ,
# Where Debian has nft, iptables and ip; not on everybody's PATH.
BLOC_SBIN ?= /usr/sbin:/sbin
export PATH := $(PATH):$(BLOC_SBIN)

# After `##`: group | time | tools | what it does. `.ci/needs` reads it, and says what is missing.
.PHONY: needs
needs:
	@.ci/needs $(or $(MAKECMDGOALS),help)

.PHONY: help
help:
	@.ci/needs --help-text

# --- use

.PHONY: demo
demo: needs release envoy ## use | 5 min | | The main job: a mesh of real Envoys under load, a table and a report
	$(LAB) demo

.PHONY: demo-istio
demo-istio: needs wasm envoy ## use | 3 min | root go ip iptables openssl | Least request, BLOC and bids in an Istio mesh on this machine (the first build takes 15 min)
	istio-manifests/e2e/build.sh
	cargo build --locked -p bloc-control-plane -p bloc-lab -p bloc-node-agent -p bloc-e2e
	target/debug/bloc-e2e demo

.PHONY: wasm
wasm: needs ## use | 1 min | rust cc wasm32 | target/bloc.wasm, and the modules that tests and benches compare with
	filters/build-wasm.sh
	BLOC_WASM_FEATURES=crash filters/build-wasm.sh target/crash.wasm
	filters/build-wasm.sh target/reference.wasm bloc-reference-guests

.PHONY: release
release: needs wasm ## use | 4 min | rust cc | The module, the control plane, the node agent and the lab, into target/release
	cargo build --locked --release -p bloc-control-plane -p bloc-node-agent -p bloc-lab

.PHONY: envoy
envoy: needs ## use | 10 s | envoy | Envoy, into target/envoy (ENVOY=/path overrides it)
	@[ -n "$${ENVOY:-}" ] || loadtest/install-envoy.sh >/dev/null

# --- test

.PHONY: test
test: needs wasm envoy ## test | 11 min | rust cc python3 nextest wrk? chromium? chromedriver? prometheus? promtool? cgroups? | Unit and property tests, then the filters in real Envoys
	.ci/next-build module control-plane
	.ci/test

.PHONY: check
check: needs lint ## test | 3 min | rust cc python3 nextest | Formatting, clippy, unit and property tests; no Envoy
	.ci/test --only 'not group(end-to-end) & not binary(guest) & not test(/(^|::)promtool_|::wrk_/)'
	.ci/whole-runs check

.PHONY: test-kube
test-kube: needs wasm envoy ## test | 5 min | rust cc python3 nextest go-kube namespaces ip openssl | The control plane at a real API server and etcd (the first build takes 5 min)
	control-plane/tests/kube/run.sh

.PHONY: test-istio
test-istio: needs wasm envoy ## test | 9 min | root go ip iptables openssl prometheus promtool | The manifests as shipped, on a real istiod and API server (the first build takes 15 min)
	istio-manifests/e2e/run.sh

.PHONY: test-cgroup2
test-cgroup2: needs ## test | 3 min | rust cc python3 debian x86-64 | The node agent at control groups of version 2, in QEMU (fetches 45 MB once; TARGETS=a,b runs only these)
	control-plane/node-agent/tests/cgroups/qemu.sh $(subst $(comma), ,$(TARGETS))

.PHONY: flood
flood: needs ## test | 2 min | rust cc python3 nextest go-kube namespaces ip openssl | A minute of hostile callers at the control plane
	control-plane/tests/kube/run.sh flood

.PHONY: fuzz
fuzz: needs ## test | 6 min | rust cc c++ python3 | Fuzz all that is read from others, FUZZ_SECONDS (60) each
	filters/fuzz/fuzz.sh

.PHONY: soak
soak: needs wasm ## test | 90 s | | 5 million requests and 10,000 servers that come and go, on wasmtime: flat memory
	cargo run --locked --release -p bloc-testhost --example soak

.PHONY: soak-envoy
soak-envoy: needs release envoy ## test | 31 min | | 30 minutes of load, bursts and changes each second in real Envoys: flat memory, equal counts
	$(LAB) soak --duration 30m

.PHONY: chaos
chaos: needs release envoy ## test | 60 min | root ip nft | One fault after the other under load, into Envoy, stock and tuned, with ours and without (ROWS=a,b runs only these)
	cargo build --locked --release -p bloc-clock
	$(LAB) chaos $(if $(ROWS),--only $(ROWS))

# --- measure

.PHONY: bench
bench: needs wasm ## measure | 3 min | | What a request pays: the decisions natively, the filters on wasmtime; holds the bounds
	rm -rf target/bench/criterion
	CRITERION_HOME=$(CURDIR)/target/bench/criterion cargo bench --locked -p bloc-benches --benches
	cargo run --locked --release -p bloc-benches -- summary target/bench/criterion target/bench/summary.json

.PHONY: bench-envoy
bench-envoy: needs release envoy ## measure | 3 min | wrk | What a request pays in a real Envoy; holds the bounds
	$(LAB) cost

.PHONY: gates
gates: needs wasm ## measure | 10 s | | A request's host calls and instructions, beside the record that make test holds it to
	cargo run --locked -p bloc-testhost --example gates

.PHONY: goals
goals: needs release envoy ## measure | 45 min | | The performance claims of README.md and docs/measurements.md, 5 rounds; fails if a median misses its bound
	$(LAB) goals

.PHONY: paper
paper: needs release envoy ## measure | 35 min | | The paper's experiment at full scale: 250 ms, 5 minutes a case
	$(LAB) demo --scale 1 --duration 5m --out target/paper

.PHONY: agree
agree: needs release envoy ## measure | 15 min | | Whether simulator and real mesh agree within 15%, in times and attempts
	$(LAB) agree

.PHONY: ablation
ablation: needs release envoy ## measure | 9 min | | Chips alone, bids alone, both, neither, at four service times
	$(LAB) ablation

.PHONY: quota
quota: needs release envoy ## measure | 150 min | root cgroups | Who sets CPU and memory: the node agent, fixed quotas, a burst, an autoscaler, 5 rounds (ONLY=a,b runs only these)
	$(LAB) quota $(if $(ONLY),--only $(ONLY))

# --- develop

.PHONY: lint
lint: needs ## develop | 1 min | rust clippy cc python3 | Import cycles, line width, needs of the targets, formatting, clippy; warnings are errors
	.ci/imports --self-test
	.ci/imports
	.ci/columns
	.ci/needs_test.py
	.ci/whole-runs --self-test
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

.PHONY: deny
deny: needs ## develop | 10 s | rust python3 deny | Licences, duplicates, sources and known weaknesses of the dependencies
	.ci/deny

.PHONY: page
page: needs ## develop | 20 s | rust cc chromium chromedriver | Write the picture of the control plane's page
	cargo test --locked -p bloc-control-plane --test page writes_the_picture_of_the_readme -- --ignored

.PHONY: clean
clean: needs ## develop | 5 s | rust | Remove all that was built
	cargo clean
