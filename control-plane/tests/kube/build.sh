#!/usr/bin/env bash
# Builds kube-apiserver, etcd and kubectl from the Go module proxy into target/kube, for the tests on a real API server.
# What is there already is left alone. KUBE_BIN=/path uses the programs of another folder and builds nothing.
# Cold, it takes some minutes and fills Go's caches with about 10 GB (GOPATH and GOCACHE say where).
set -euo pipefail

kubernetes=1.36.3
root=$(cd "$(dirname "$0")/../../.." && pwd)
out=${KUBE_BIN:-$root/target/kube}
programs=(etcd kube-apiserver kubectl)

missing=()
for program in "${programs[@]}"; do
    [ -x "$out/$program" ] || missing+=("$program")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if [ -n "${KUBE_BIN:-}" ] && [ -z "${KUBE_BUILD:-}" ]; then
    echo "KUBE_BIN=$KUBE_BIN lacks ${missing[*]}" >&2
    exit 1
fi
command -v go >/dev/null || { echo "Go 1.26 or newer is needed to build ${missing[*]}" >&2; exit 1; }

export GOFLAGS="-mod=mod -buildvcs=false" CGO_ENABLED=0 GOTOOLCHAIN=local
mkdir -p "$out/module"
cd "$out/module"

# Kubernetes' own go.mod replaces its staging modules by folders of its repository, which a dependent cannot see;
# the same modules are published as v0.MINOR.PATCH.
upstream=$(go mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/^.*"GoMod": "\(.*\)",$/\1/p')
{
    echo "module bloc.dev/kube"
    sed -n '/^go /p; /^godebug /p' "$upstream" | head -n 2
    echo "require k8s.io/kubernetes v$kubernetes"
    sed -n "s|^[[:space:]]*\(k8s\.io/[a-z0-9-]*\) => \./staging.*|replace \1 => \1 v0.${kubernetes#1.}|p" "$upstream"
} > go.mod

version=k8s.io/component-base/version
IFS=. read -r major minor _ <<< "$kubernetes"
ldflags="-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor"
for program in "${missing[@]}"; do
    case $program in
        etcd) package=go.etcd.io/etcd/server/v3 ;;
        *) package=k8s.io/kubernetes/cmd/$program ;;
    esac
    echo "building $program of Kubernetes $kubernetes"
    # To a name of its own first: an interrupted build leaves nothing that looks finished.
    go build -p 2 -ldflags="$ldflags" -o "$out/$program.partial" "$package"
    mv "$out/$program.partial" "$out/$program"
done
