#!/usr/bin/env bash
# Builds what the test mesh is made of from the Go module proxy: etcd, kube-apiserver, kube-controller-manager and kubectl into target/kube,
# pilot-discovery, pilot-agent and istioctl into target/istio. What is there already is left alone; KUBE_BIN and ISTIO_BIN name other folders.
# Cold, it takes a quarter of an hour on two cores and fills Go's caches with about 10 GB (GOPATH and GOCACHE say where).
# With --check it builds nothing, and fails if something would have to be built.
set -euo pipefail

kubernetes=1.36.3
# Istio 1.29.1: its tagged versions are no Go versions, but every commit is one.
istio=v0.0.0-20260306174214-6991a379e1fc
# The version that Istio asks for has no entry in the checksum database.
openshift=v0.0.0-20260501191448-a49973eaef53

root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
kube=${KUBE_BIN:-$target/kube}
mesh=${ISTIO_BIN:-$target/istio}
export GOFLAGS="-mod=mod -buildvcs=false" CGO_ENABLED=0

# build FOLDER PROGRAM PACKAGE [LDFLAGS]: unless it is there. To another name first: an interrupted build leaves nothing that looks finished.
build() {
  [ -x "$1/$2" ] && return
  echo "building $2"
  (cd "$1/module" && go build -p "$(nproc)" -ldflags="-s -w ${4:-}" -o "$1/$2.partial" "$3" && mv "$1/$2.partial" "$1/$2")
}
missing() {
  local folder=$1 program
  shift
  for program; do [ -e "$folder/$program" ] || return 0; done
  return 1
}
kubernetes_programs=(etcd kube-apiserver kube-controller-manager kubectl)
istio_programs=(pilot-discovery pilot-agent istioctl envoy_bootstrap.json)
if [ "${1:-}" = --check ]; then
  ! missing "$kube" "${kubernetes_programs[@]}" && ! missing "$mesh" "${istio_programs[@]}"
  exit
fi
need_go() { command -v go >/dev/null || { echo "Go 1.26 or newer is needed to build the test mesh" >&2; exit 1; }; }

if missing "$kube" "${kubernetes_programs[@]}"; then
  need_go
  mkdir -p "$kube/module"
  if [ ! -e "$kube/module/go.mod" ]; then
    # Kubernetes' own go.mod replaces its staging modules by folders of its repository; the same modules are published as v0.MINOR.PATCH.
    upstream=$(cd "$kube/module" && go mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/^.*"GoMod": "\(.*\)",$/\1/p')
    {
      echo "module bloc.dev/kube"
      sed -n '/^go /p; /^godebug /p' "$upstream" | head -n 2
      echo "require k8s.io/kubernetes v$kubernetes"
      sed -n "s|^[[:space:]]*\(k8s\.io/[a-z0-9-]*\) => \./staging.*|replace \1 => \1 v0.${kubernetes#1.}|p" "$upstream"
    } >"$kube/module/go.mod"
  fi
  version=k8s.io/component-base/version
  IFS=. read -r major minor _ <<<"$kubernetes"
  stamp="-X $version.gitVersion=v$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor"
  build "$kube" etcd go.etcd.io/etcd/server/v3
  for program in kube-apiserver kube-controller-manager kubectl; do
    build "$kube" "$program" "k8s.io/kubernetes/cmd/$program" "$stamp"
  done
fi

if missing "$mesh" "${istio_programs[@]}"; then
  need_go
  mkdir -p "$mesh/module"
  if [ ! -e "$mesh/module/go.sum" ]; then
    printf 'module bloc.dev/istio\ngo 1.25.0\nrequire istio.io/istio %s\n' "$istio" >"$mesh/module/go.mod"
    cat >"$mesh/module/tools.go" <<'EOF'
//go:build tools

package tools

import (
	_ "istio.io/istio/istioctl/cmd/istioctl"
	_ "istio.io/istio/pilot/cmd/pilot-agent"
	_ "istio.io/istio/pilot/cmd/pilot-discovery"
)
EOF
    (cd "$mesh/module" && go get "github.com/openshift/api@$openshift")
  fi
  build "$mesh" pilot-discovery istio.io/istio/pilot/cmd/pilot-discovery
  build "$mesh" pilot-agent istio.io/istio/pilot/cmd/pilot-agent
  build "$mesh" istioctl istio.io/istio/istioctl/cmd/istioctl
  source=$(cd "$mesh/module" && go list -m -f '{{.Dir}}' istio.io/istio)
  install -m 644 "$source/tools/packaging/common/envoy_bootstrap.json" "$mesh/envoy_bootstrap.json"
fi
