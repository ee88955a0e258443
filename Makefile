# `make` alone lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

LAB := target/release/bloc-lab
comma := ,

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: release envoy ## Run the main job: a mesh of real Envoys under load, a table and a report (about 5 minutes)
	$(LAB) demo

.PHONY: test
test: wasm reference envoy last-release ## Unit and property tests, then the filters in real Envoys (about 10 minutes)
	.ci/test

.PHONY: check
check: lint ## Formatting, clippy, unit and property tests, no Envoy (2 minutes at most)
	.ci/test --only 'not group(end-to-end) & not binary(guest) & not test(/(^|::)promtool_|::wrk_/)'

.PHONY: paper
paper: release envoy ## The paper's experiment at full scale (250 ms, 5 minutes a case; about 35 minutes)
	$(LAB) demo --scale 1 --duration 5m --out target/paper

.PHONY: agree
agree: release envoy ## Check that simulator and real mesh agree within 15%, in times and attempts (about 15 minutes)
	$(LAB) agree

.PHONY: goals
goals: release reference envoy ## Measure the performance claims of README.md and docs/measurements.md, 5 rounds each; fails if a median misses its bound (about 45 minutes)
	$(LAB) goals

.PHONY: ablation
ablation: release envoy ## Chips alone, bids alone, both, neither, at four service times (about 9 minutes)
	$(LAB) ablation

.PHONY: bench
bench: wasm reference ## What a request pays: the decisions natively, the filters on wasmtime; holds the bounds (about 3 minutes after the build)
	rm -rf target/bench/criterion
	CRITERION_HOME=$(CURDIR)/target/bench/criterion cargo bench --locked -p bloc-benches --benches
	cargo run --locked --release -p bloc-benches -- summary target/bench/criterion target/bench/summary.json

.PHONY: bench-envoy
bench-envoy: release reference envoy ## What a request pays in a real Envoy; holds the bounds (about 3 minutes)
	$(LAB) cost

.PHONY: bench-record
bench-record: bench bench-envoy ## Both, added to benches/record
	cargo run --locked --release -p bloc-benches -- record --summary target/bench/summary.json --envoy target/bench/envoy.json benches/record

.PHONY: soak
soak: wasm ## 5 million requests and 10,000 servers coming and going on wasmtime: the module's memory stays flat
	cargo run --locked --release -p bloc-testhost --example soak

.PHONY: test-kube
test-kube: wasm envoy ## The control plane at a real kube-apiserver and etcd, which Go builds once (needs Go; 2 minutes after that)
	control-plane/tests/kube/run.sh

.PHONY: test-cgroup2
test-cgroup2: ## The node agent's tests at control groups of version 2, on a kernel of Debian's in QEMU, fetched once (45 MB; no root; seconds after that; TARGETS=a,b runs only these)
	control-plane/node-agent/tests/cgroups/qemu.sh $(subst $(comma), ,$(TARGETS))

.PHONY: flood
flood: ## A minute of hostile callers at the control plane: its memory, its lists, and the response times of others
	control-plane/tests/kube/run.sh flood

.PHONY: test-istio
test-istio: wasm envoy ## The manifests as shipped, on a real istiod and API server (root, iptables, prometheus; Go for the first build; 5 minutes after that)
	istio-manifests/e2e/run.sh

.PHONY: demo-istio
demo-istio: wasm envoy ## Least request, BLOC and bids in an Istio mesh on this machine (root; Go for the first build; 3 minutes after that)
	istio-manifests/e2e/build.sh
	cargo build --locked -p bloc-control-plane -p bloc-lab -p bloc-node-agent -p bloc-e2e
	target/debug/bloc-e2e demo

.PHONY: chaos
chaos: release envoy ## Inject one fault after the other under load, into stock Envoy, tuned stock Envoy and Envoy with the filters; fails if the filters break a promise (50 minutes at most; root and nftables; ROWS=a,b runs only these faults)
	cargo build --locked --release -p bloc-clock
	$(LAB) chaos $(if $(ROWS),--only $(ROWS))

.PHONY: quota
quota: release envoy ## Compare who sets CPU quotas, limits of memory and CPU shares, and whether sidecars follow, 5 rounds: the node agent, fixed ones, a burst, an autoscaler; fails if the agent misses a bound (root and cgroups; two and a half hours)
	$(LAB) quota

.PHONY: follow
follow: release envoy ## The part of quota about sidecars that follow, alone: halve the CPU quota of a server under overload, 5 rounds (root and cgroups; 25 minutes)
	$(LAB) follow

.PHONY: soak-envoy
soak-envoy: release envoy ## 30 minutes of load, bursts and changes each second: flat memory, equal counts
	$(LAB) soak --duration 30m

.PHONY: fuzz
fuzz: ## Fuzz all that is read from others, FUZZ_SECONDS (60) each (needs a C++ compiler)
	filters/fuzz/fuzz.sh

.PHONY: deny
deny: ## Licences, duplicates, sources and known weaknesses of the dependencies
	.ci/deny

.PHONY: gates
gates: wasm ## What a request costs in host calls and instructions, beside the record that make test holds it to
	cargo run --locked -p bloc-testhost --example gates

.PHONY: page
page: ## Write the picture of the control plane's page (needs Debian's chromium and chromium-driver)
	cargo test --locked -p bloc-control-plane --test page writes_the_picture_of_the_readme -- --ignored

.PHONY: reference
reference: ## Build target/reference.wasm, the filters that the benches compare with
	filters/build-wasm.sh target/reference.wasm bloc-reference-guests

.PHONY: wasm
wasm: ## Build target/bloc.wasm, and target/crash.wasm for the tests of crashes
	filters/build-wasm.sh
	BLOC_WASM_FEATURES=crash filters/build-wasm.sh target/crash.wasm

.PHONY: last-release
last-release: ## Build the module and the control plane of the last release once, for the tests of two versions
	.ci/release

.PHONY: release
release: wasm ## Build the lab, the control plane, the node agent and the module
	cargo build --locked --release -p bloc-control-plane -p bloc-node-agent -p bloc-lab

.PHONY: envoy
envoy: ## Put Envoy into target/ (ENVOY=/path overrides it)
	@loadtest/install-envoy.sh >/dev/null

.PHONY: lint
lint: ## Import cycles, line width of prose, formatting and clippy; warnings are errors
	.ci/imports --self-test
	.ci/imports
	.ci/columns
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

.PHONY: clean
clean: ## Remove all that was built
	cargo clean
