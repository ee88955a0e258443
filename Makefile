# `make` alone lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

LAB := target/release/bloc-lab

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: release envoy ## Run the main job: a mesh of real Envoys under load, a table and a report (about 5 minutes)
	$(LAB) demo

.PHONY: test
test: wasm envoy ## Unit and property tests, then the filters in real Envoys (about 10 minutes)
	cargo test --locked

.PHONY: paper
paper: release envoy ## The paper's experiment at full scale (250 ms, 5 minutes a case; about 35 minutes)
	$(LAB) demo --scale 1 --duration 5m --out target/paper

.PHONY: wasm
wasm: ## Build target/bloc.wasm
	filters/build-wasm.sh

.PHONY: release
release: wasm ## Build the lab, the control plane and the module
	cargo build --locked --release -p bloc-control-plane -p bloc-lab

.PHONY: envoy
envoy: ## Put Envoy into target/ (ENVOY=/path overrides it)
	@loadtest/install-envoy.sh >/dev/null

.PHONY: lint
lint: ## Formatting and clippy, warnings are errors
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

.PHONY: clean
clean: ## Remove all that was built
	cargo clean
