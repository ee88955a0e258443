#!/usr/bin/env bash
# Runs the tests at a real kube-apiserver and etcd, which it builds first if they are missing.
#
#   run.sh [flood]
#
# All but the flood, or the flood alone: a minute of callers that mean harm, which takes all processors.
# KUBE_BIN=/path takes the programs from there. BLOC_SELECTION are cargo's options of what is built
# already, such as --workspace; without it only what these tests need is built.
set -euo pipefail
cd "$(dirname "$0")/../../.."

profile=${1:-kube}
case $profile in
  kube | flood) ;;
  *) echo "run.sh: $profile is not allowed; allowed: flood" >&2; exit 2 ;;
esac

if [ "$profile" = kube ]; then .ci/needs test-kube; else .ci/needs flood; fi
PATH=$PATH:${BLOC_SBIN-/usr/sbin:/sbin}
istio-manifests/e2e/build.sh kube
nextest=$(.ci/tool cargo-nextest)
# Cargo's options, several words.
read -ra selection <<<"${BLOC_SELECTION:--p bloc-control-plane}"
# Replicas are upgraded to the next version.
if [ "$profile" = kube ] && [ -z "${BLOC_BUILD_AFTER-}" ]; then
  .ci/next-build control-plane
  BLOC_BUILD_AFTER=$(realpath "${CARGO_TARGET_DIR:-target}/next/bloc-control-plane")
  export BLOC_BUILD_AFTER
fi
# Where the tests run there is no network, and so no cargo: what it knows comes along in two files.
folder=${CARGO_TARGET_DIR:-target}/kube-tests
mkdir -p "$folder"
platform=$(rustc -vV | sed -n 's/^host: //p')
cargo metadata --locked --format-version=1 --all-features --filter-platform "$platform" >"$folder/workspace.json"
"$nextest" nextest list --locked "${selection[@]}" --list-type binaries-only --message-format json >"$folder/binaries.json"
# Kubernetes takes no loopback address for an endpoint, so the tests get a network of their own, with nothing but a loopback device that has
# one more address.
code=0
unshare --map-root-user --net bash -c 'ip link set lo up && ip address add 10.99.0.1/32 dev lo && exec "$@"' -- \
  "$nextest" nextest run --cargo-metadata "$folder/workspace.json" --binaries-metadata "$folder/binaries.json" --profile "$profile" --run-ignored only || code=$?
[ $code != 0 ] || .ci/flaky "${CARGO_TARGET_DIR:-target}/nextest/$profile/junit.xml" </dev/null || code=$?
exit $code
