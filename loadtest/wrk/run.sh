#!/bin/sh
# Runs wrk with one of the scripts against the mesh of `bloc-lab up`, then prints what only the sidecars know: attempts, and the sheds
# by reason.
#
#   loadtest/wrk/run.sh URL SCRIPT [WRK OPTION...]      such as: loadtest/wrk/run.sh http://127.0.0.1:1234/ closed -c100 -d30s
set -eu

if [ $# -lt 2 ]; then
    sed -n '5s/^# *//p' "$0" >&2
    exit 2
fi
url=$1 script=$2
shift 2
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
lab=${BLOC_LAB:-$target/release/bloc-lab}
if [ ! -x "$lab" ]; then
    echo "run.sh: $lab is missing: cargo build --release -p bloc-lab" >&2
    exit 1
fi
if [ ! -f "$here/$script.lua" ]; then
    echo "run.sh: no script $script; there are closed, paced and mixed" >&2
    exit 2
fi

before=$(mktemp)
trap 'rm -f "$before"' EXIT
"$lab" stats --json >"$before"
# One thread: the lab's machine has better things to do. Options given later win.
wrk -t1 -c100 -d30s --timeout 20s -s "$here/$script.lua" "$@" "$url"
"$lab" stats --since "$before"
