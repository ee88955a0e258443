#!/usr/bin/env bash
# Runs the manifests on a real istiod and API server, which it builds first if they are missing. The module and Envoy must be there (make wasm envoy).
# Where root, Go or a program is missing it says so and passes; with BLOC_REQUIRE_TOOLS=1 it fails, as in CI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

lacks=()
[ "$(id -u)" = 0 ] || lacks+=(root)
for program in unshare nsenter setpriv ip iptables openssl sha256sum; do
  command -v "$program" >/dev/null || lacks+=("$program")
done
# Not when what Go would build is there already.
command -v go >/dev/null || istio-manifests/e2e/build.sh --check || lacks+=(Go)
if [ ${#lacks[@]} -gt 0 ]; then
  echo "NOT RUN: the mesh tests lack ${lacks[*]}" >&2
  [ -z "${BLOC_REQUIRE_TOOLS:-}" ]
  exit
fi

istio-manifests/e2e/build.sh
cargo build --locked -p bloc-control-plane -p bloc-lab -p bloc-e2e
# First what takes seconds: the EnvoyFilters alone, on an istiod without an API server.
"${CARGO_TARGET_DIR:-target}/debug/bloc-e2e" files
"${CARGO_TARGET_DIR:-target}/debug/bloc-e2e" test
