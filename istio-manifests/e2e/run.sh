#!/usr/bin/env bash
# Runs the manifests on a real istiod and API server, which it builds first if they are missing. The
# module and Envoy must be there (make wasm envoy). Where something is missing it says what to type,
# and fails.
#
#   run.sh [CHAPTER...]     all chapters unless some are named: `bloc-e2e test --help` lists them
#
# BLOC_SELECTION are cargo's options of what is built already, such as --workspace; without it only
# what is needed is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Where Debian has iptables, which is not on everybody's PATH.
PATH=$PATH:/usr/sbin:/sbin
lacks=()
[ "$(id -u)" = 0 ] || lacks+=("root: sudo -E env \"PATH=\$PATH\" make test-istio")
packages=()
for pair in unshare:util-linux nsenter:util-linux setpriv:util-linux ip:iproute2 iptables:iptables openssl:openssl sha256sum:coreutils prometheus:prometheus; do
  command -v "${pair%:*}" >/dev/null || packages+=("${pair#*:}")
done
[ ${#packages[@]} -eq 0 ] ||
  lacks+=("packages: sudo apt-get update && sudo apt-get install -y --no-install-recommends $(printf '%s\n' "${packages[@]}" | sort -u | xargs)")
# Not when what Go would build is there already.
command -v go >/dev/null || istio-manifests/e2e/build.sh --check ||
  lacks+=("Go 1.26 or newer: curl -L https://go.dev/dl/go1.26.8.linux-amd64.tar.gz | sudo tar -C /usr/local -xz")
if [ ${#lacks[@]} -gt 0 ]; then
  printf 'make test-istio: nothing was run, for want of %s\n' "${lacks[@]}" >&2
  exit 1
fi

istio-manifests/e2e/build.sh
# Cargo's options, several words.
read -ra selection <<<"${BLOC_SELECTION:--p bloc-control-plane -p bloc-lab -p bloc-node-agent -p bloc-e2e}"
cargo build --locked "${selection[@]}"
# First what takes seconds: the EnvoyFilters alone, on an istiod without an API server.
[ $# -gt 0 ] || "${CARGO_TARGET_DIR:-target}/debug/bloc-e2e" files
"${CARGO_TARGET_DIR:-target}/debug/bloc-e2e" test "$@"
