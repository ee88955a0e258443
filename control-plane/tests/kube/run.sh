#!/usr/bin/env bash
# Runs the tests at a real kube-apiserver and etcd, which it builds first if they are missing. KUBE_BIN=/path takes the programs from there.
set -euo pipefail
cd "$(dirname "$0")/../../.."

control-plane/tests/kube/build.sh
cargo test --locked -p bloc-control-plane --test kube --no-run
# Kubernetes takes no loopback address for an endpoint, so the tests get a network of their own, with nothing but a loopback device that has
# one more address.
exec unshare --map-root-user --net bash -c 'ip link set lo up && ip address add 10.99.0.1/32 dev lo && exec "$@"' -- \
    cargo test --locked --offline -p bloc-control-plane --test kube -- --ignored --test-threads 1 --nocapture
