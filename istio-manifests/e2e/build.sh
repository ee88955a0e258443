#!/usr/bin/env bash
# Builds what the tests on Kubernetes and Istio are made of from the Go module proxy: etcd,
# kube-apiserver, kube-controller-manager and kubectl into target/kube, pilot-discovery, pilot-agent
# and istioctl into target/istio, and beside them the Prometheus operator's definition of PodMonitors.
# What is there already is left alone; KUBE_BIN and ISTIO_BIN name other folders. Both are links into
# BLOC_CACHE (~/.cache/bloc), which a second clone finds; where that cannot be written, they are
# folders. Cold, it takes a quarter of an hour on two cores and fills Go's caches with about 10 GB
# (GOPATH and GOCACHE say where).
#
#   build.sh [--check] [kube] [istio]
#
# Both, unless one is named. With --check it builds nothing, and fails if something is missing.
set -euo pipefail

kubernetes=1.36.3
# Istio 1.29.1: its tagged versions are no Go versions, but every commit is one.
istio=v0.0.0-20260306174214-6991a379e1fc
# The version that Istio asks for has no entry in the checksum database.
openshift=v0.0.0-20260501191448-a49973eaef53
# Of it only the definition of PodMonitors.
operator=v0.85.0

root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
kube=${KUBE_BIN:-$target/kube}
mesh=${ISTIO_BIN:-$target/istio}
cache=${BLOC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bloc}
export GOFLAGS="-mod=mod -buildvcs=false" CGO_ENABLED=0
# The compiler collects garbage less often than by default: a fifth less CPU.
export GOGC=${GOGC:-400}

kube_programs=(etcd kube-apiserver kube-controller-manager kubectl)
istio_programs=(pilot-discovery pilot-agent istioctl envoy_bootstrap.json podmonitors.yaml)
missing() {
  local folder=$1 program
  shift
  for program; do [ -e "$folder/$program" ] || return 0; done
  return 1
}
check=false parts=()
for argument; do
  case $argument in
    --check) check=true ;;
    kube | istio) parts+=("$argument") ;;
    *) echo "build.sh: $argument is not allowed; allowed: --check, kube or istio" >&2; exit 2 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(kube istio)
wants() { [[ " ${parts[*]} " == *" $1 "* ]]; }

# folder FOLDER NAME: a link to NAME in the cache. A link to another version is replaced; where the
# cache cannot be written it is a folder.
folder() {
  if [ -d "$1" ] && [ ! -L "$1" ]; then return; fi
  if mkdir -p "$cache/go/$2" 2>/dev/null && [ -w "$cache/go/$2" ]; then
    mkdir -p "$(dirname "$1")"
    ln -sfn "$cache/go/$2" "$1"
  else
    rm -f "$1"
    mkdir -p "$1"
  fi
}
# given VARIABLE FOLDER PROGRAM...: nothing is built into a folder of the user's.
given() {
  local variable=$1 folder=$2 program
  shift 2
  for program; do
    [ -e "$folder/$program" ] || { echo "$variable=$folder lacks $program" >&2; exit 1; }
  done
}
# The tests at an API server alone start no controllers.
wants istio || kube_programs=(etcd kube-apiserver kubectl)
if wants kube; then
  if [ -n "${KUBE_BIN:-}" ]; then given KUBE_BIN "$kube" "${kube_programs[@]}"
  else folder "$kube" "kubernetes-$kubernetes-$(uname -m)"; fi
fi
if wants istio; then
  if [ -n "${ISTIO_BIN:-}" ]; then given ISTIO_BIN "$mesh" "${istio_programs[@]}"
  else folder "$mesh" "istio-${istio##*-}-${openshift##*-}-$(uname -m)"; fi
fi
if $check; then
  if wants kube && missing "$kube" "${kube_programs[@]}"; then exit 1; fi
  if wants istio && missing "$mesh" "${istio_programs[@]}"; then exit 1; fi
  exit 0
fi

need_go() {
  local version
  version=$(go env GOVERSION 2>/dev/null || true)
  if ! printf '%s\n' go1.26 "$version" | sort -V -C; then
    echo "$1 need Go 1.26 or newer, not ${version:-none}; type:" >&2
    echo "  curl -L https://go.dev/dl/go1.26.8.linux-amd64.tar.gz | sudo tar -C /usr/local -xz" >&2
    echo '  export PATH=/usr/local/go/bin:$PATH' >&2
    exit 1
  fi
}
# again COMMAND...: three times at most, as the module proxy may be late once among hundreds of
# downloads. What has been downloaded and compiled is kept in between.
again() {
  local try
  for try in 1 2; do
    "$@" && return
    echo "build.sh: try $try of 3 failed: $*" >&2
    sleep $((try * 10))
  done
  "$@"
}
# build FOLDER MODULE PROGRAM PACKAGE [LDFLAGS]: unless it is there. To another name first: an
# interrupted build leaves nothing that looks finished.
build() {
  [ -x "$1/$3" ] && return
  echo "building $3"
  (cd "$2" && again go build -p "$(nproc)" -ldflags="-s -w ${5:-}" -o "$1/$3.$$" "$4" && mv "$1/$3.$$" "$1/$3")
}

if wants kube && missing "$kube" "${kube_programs[@]}"; then
  need_go "The programs of Kubernetes"
  module=$target/go/kube
  mkdir -p "$module"
  # Kubernetes' own go.mod replaces its staging modules by folders of its repository; the same
  # modules are published as v0.MINOR.PATCH.
  answer=$(cd "$module" && again go mod download -json "k8s.io/kubernetes@v$kubernetes") || { echo "$answer" >&2; exit 1; }
  upstream=$(sed -n 's/^.*"GoMod": "\(.*\)",$/\1/p' <<<"$answer")
  {
    echo "module bloc.dev/kube"
    sed -n '/^go /p; /^godebug /p' "$upstream" | head -n 2
    echo "require k8s.io/kubernetes v$kubernetes"
    sed -n "s|^[[:space:]]*\(k8s\.io/[a-z0-9-]*\) => \./staging.*|replace \1 => \1 v0.${kubernetes#1.}|p" "$upstream"
  } >"$module/go.mod"
  version=k8s.io/component-base/version
  IFS=. read -r major minor _ <<<"$kubernetes"
  stamp="-X $version.gitVersion=v$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor"
  build "$kube" "$module" etcd go.etcd.io/etcd/server/v3
  for program in "${kube_programs[@]}"; do
    [ "$program" = etcd ] || build "$kube" "$module" "$program" "k8s.io/kubernetes/cmd/$program" "$stamp"
  done
fi

if wants istio && missing "$mesh" "${istio_programs[@]}"; then
  need_go "The programs of Istio"
  module=$target/go/istio
  mkdir -p "$module"
  printf 'module bloc.dev/istio\ngo 1.25.0\nrequire istio.io/istio %s\n' "$istio" >"$module/go.mod"
  cat >"$module/tools.go" <<'EOF'
//go:build tools

package tools

import (
	_ "istio.io/istio/istioctl/cmd/istioctl"
	_ "istio.io/istio/pilot/cmd/pilot-agent"
	_ "istio.io/istio/pilot/cmd/pilot-discovery"
)
EOF
  (cd "$module" && again go get "github.com/openshift/api@$openshift")
  build "$mesh" "$module" pilot-discovery istio.io/istio/pilot/cmd/pilot-discovery
  build "$mesh" "$module" pilot-agent istio.io/istio/pilot/cmd/pilot-agent
  build "$mesh" "$module" istioctl istio.io/istio/istioctl/cmd/istioctl
  source=$(cd "$module" && go list -m -f '{{.Dir}}' istio.io/istio)
  install -m 644 "$source/tools/packaging/common/envoy_bootstrap.json" "$mesh/envoy_bootstrap.json"
  answer=$(cd "$module" && again go mod download -json "github.com/prometheus-operator/prometheus-operator@$operator") ||
    { echo "$answer" >&2; exit 1; }
  source=$(sed -n 's/^.*"Dir": "\(.*\)",$/\1/p' <<<"$answer")
  install -m 644 "$source/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml" "$mesh/podmonitors.yaml"
fi
