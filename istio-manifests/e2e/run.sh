#!/usr/bin/env bash
# Runs the manifests on a real istiod and API server, which it builds first if they are missing. The
# module and Envoy must be there (make wasm envoy).
#
#   run.sh [CHAPTER...]     all chapters unless some are named: `bloc-e2e test --help` lists them
#
# BLOC_SELECTION are cargo's options of what is built already, such as --workspace; without it only
# what is needed is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

.ci/needs test-istio
# Where Debian has iptables, which is not on everybody's PATH.
PATH=$PATH:${BLOC_SBIN-/usr/sbin:/sbin}
istio-manifests/e2e/build.sh
# Cargo's options, several words.
read -ra selection <<<"${BLOC_SELECTION:--p bloc-control-plane -p bloc-lab -p bloc-node-agent -p bloc-e2e}"
cargo build --locked "${selection[@]}"
# First what takes seconds: the EnvoyFilters alone, on an istiod without an API server.
[ $# -gt 0 ] || "${CARGO_TARGET_DIR:-target}/debug/bloc-e2e" files
"${CARGO_TARGET_DIR:-target}/debug/bloc-e2e" test "$@"
