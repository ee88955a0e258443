#!/usr/bin/env bash
# Builds a module, target/bloc.wasm unless told otherwise, with whichever way to a wasm32 standard library this machine offers:
#   1. the toolchain's own wasm32-unknown-unknown, added through rustup if it is missing;
#   2. Debian's rustc-web, cargo-web, rust-web-src and lld, which bring the library's source.
# When none works it prints the exact line to type.
#
#   filters/build-wasm.sh [FILE [PACKAGE]]      such as: filters/build-wasm.sh target/reference.wasm bloc-reference-guests
#   filters/build-wasm.sh --check               whether one of them is there, or can be tried; builds nothing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=wasm32-unknown-unknown
packages="rustc-web cargo-web rust-web-src lld"
features=${BLOC_WASM_FEATURES:-}
out=${1:-target/bloc.wasm}
package=${2:-bloc-filters}
# BLOC_WASM_PROFILE: another profile of Cargo.toml, for modules that nobody ships.
profile=${BLOC_WASM_PROFILE:-wasm}
args=(build --profile "$profile" --target $target -p "$package")
# A module with other features has a target directory of its own: cargo writes every variant to the
# same file, so each would be built anew whenever the other one had been.
variant=
[ -n "$features" ] && args+=(--features "$features") && variant=features

has_std() { [ -d "$("$1" --print sysroot 2>/dev/null)/lib/rustlib/$target/lib" ]; }
has_debian() {
  [ -x /usr/bin/cargo ] && [ -x /usr/bin/rustc ] && command -v wasm-ld >/dev/null &&
    [ -f "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]
}
linker=$PWD/filters/linker/wasm-ld
with_toolchain() {
  local lld
  lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
  if [ -x "$lld" ]; then lld="$lld -flavor wasm"; else lld=wasm-ld; fi
  BLOC_WASM_LD=$lld CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker CARGO_TARGET_DIR=$folder cargo "${args[@]}"
}
with_debian() {
  # A target directory of its own: the two compilers would throw away each other's work.
  RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 BLOC_WASM_LD=wasm-ld CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker \
    CARGO_TARGET_DIR=$folder /usr/bin/cargo "${args[@]}" -Zbuild-std=std,panic_abort
}
try_rustup() {
  command -v rustup >/dev/null || return 1
  echo "wasm: asking rustup for $target" >&2
  timeout 300 rustup target add $target >&2 || return 1
}
try_debian() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
  echo "wasm: installing $packages" >&2
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages; } >&2 || return 1
}

if [ "${1:-}" = --check ]; then
  has_std rustc || has_debian || command -v rustup >/dev/null || { command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; }
  exit
fi

if has_std rustc; then way=toolchain
elif has_debian; then way=debian
elif try_rustup && has_std rustc; then way=toolchain
elif try_debian && has_debian; then way=debian
else
  cat >&2 <<MSG
wasm: this machine has no standard library for $target. Type one of:
  rustup target add $target
  sudo apt-get update && sudo apt-get install -y $packages
MSG
  exit 1
fi

# One at a time: the file is copied from where cargo writes it.
mkdir -p "$(dirname "$out")"
exec 9>"$(dirname "$out")/.build-wasm.lock"
if command -v flock >/dev/null; then flock 9; fi
folder=${CARGO_TARGET_DIR:-target}
[ $way = toolchain ] || folder=target/debian
[ -z "$variant" ] || folder=$folder/$variant
with_$way
built=$folder/$target/$profile/${package//-/_}.wasm

cp "$built" "$out.new" && mv "$out.new" "$out"
size=$(wc -c <"$out")
# A ConfigMap holds 1 MiB, names and labels included.
limit=$((900 * 1024))
echo "$out: $size bytes (limit $limit), built with the $way's library"
[ "$size" -le $limit ] || [ "$profile" != wasm ] || { echo "wasm: $out is larger than $limit bytes" >&2; exit 1; }
