#!/usr/bin/env bash
# What a change of the filters has made of a request's cost: builds the module of a commit and that of the commit before it, counts instructions and host calls of the same requests
# with both on today's host, and adds the result to a directory's changes.csv.
#
#   benches/before-after.sh COMMIT [DIRECTORY]      DIRECTORY: benches/record unless told otherwise
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=$(git rev-parse --short --verify "${1:?which commit?}^{commit}")
before=$(git rev-parse --short --verify "$commit^")
directory=${2:-benches/record}
work=$PWD/target/before-after
mkdir -p "$work"

# Each module once, in a work tree of its own; all share what they have built of the dependencies.
module() {
  local out=$work/$1.wasm tree=$work/tree
  [ -f "$out" ] && return
  git worktree remove --force "$tree" 2>/dev/null || true
  git worktree add --quiet --detach "$tree" "$1"
  # A commit whose module exceeded its limit of that day has one all the same.
  (cd "$tree" && CARGO_TARGET_DIR=$work/build BLOC_WASM_FEATURES='' filters/build-wasm.sh) || true
  cp "$work/build/wasm32-unknown-unknown/wasm/bloc_filters.wasm" "$out" 2>/dev/null ||
    cp "$tree/target/debian/wasm32-unknown-unknown/wasm/bloc_filters.wasm" "$out"
  rm -f "$work/build/wasm32-unknown-unknown/wasm/bloc_filters.wasm"
  git worktree remove --force "$tree"
}
module "$before"
module "$commit"
cargo run --locked --release -p bloc-benches -- change --change "$commit" --what "$(git show -s --format=%s "$commit")" \
  "$work/$before.wasm" "$work/$commit.wasm" "$directory"
