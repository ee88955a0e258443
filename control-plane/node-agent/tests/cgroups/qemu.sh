#!/usr/bin/env bash
# Runs tests of the node agent as root on a kernel whose control groups are of version 2: Debian's
# cloud kernel, in QEMU, which computes each instruction itself (no KVM) and so needs no root.
#
#   qemu.sh [TARGET...]         test targets of bloc-node-agent; without any: cgroups
#   qemu.sh -- PROGRAM [ARG...] something else, such as: qemu.sh -- /bin/sh -c 'cat /proc/mounts'
#
# The exit status is that of the tests. In the guest are busybox, the programs with their libraries
# at the paths that they have here, and nothing else but what BLOC_QEMU_FILES names (absolute paths,
# separated by blanks). BLOC_QEMU_SECONDS (300) bounds the whole run of the guest; BLOC_QEMU_ARGS are
# the tests' arguments, such as: --ignored --nocapture.
#
# The packages are kept in target/qemu; remove that folder to have newer ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."

readonly SECONDS_AT_MOST=${BLOC_QEMU_SECONDS:-300}
readonly KEPT=$PWD/${BLOC_QEMU_KEPT:-target/qemu}
readonly CRATE=$PWD/control-plane/node-agent
fail() {
  printf 'make test-cgroup2: nothing was run: %s\n' "$@" >&2
  exit 1
}
[ "$(uname -sm)" = "Linux x86_64" ] || fail "it takes Debian's kernel for x86-64 and so a machine of that kind; this one is $(uname -sm)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The packages, without root and without installing them: only what is in them.
fetch() {
  local packages kernel needed fresh
  for program in apt-get apt-cache dpkg; do
    command -v $program >/dev/null ||
      fail "it takes packages of Debian 12 or newer, for which $program is missing; in a container: docker run --rm -v \"$PWD:$PWD\" -w \"$PWD\" rust:bookworm make test-cgroup2"
  done
  kernel() { apt-cache depends --important linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: //p' | head -n 1; }
  packages=$(kernel)
  if [ -z "$packages" ] && [ "$(id -u)" = 0 ]; then
    apt-get update -qq
    packages=$(kernel)
  fi
  [ -n "$packages" ] || fail "apt-get does not know linux-image-cloud-amd64: sudo apt-get update"
  packages+=" busybox-static"
  if ! command -v qemu-system-x86_64 >/dev/null; then
    needed=$(apt-get install --simulate --no-install-recommends qemu-system-x86 | awk '$1 == "Inst" { print $2 }')
    packages+=" $needed"
  fi
  fresh=$work/packages
  mkdir -p "$fresh/debs" "$fresh/root"
  # Several words.
  # shellcheck disable=SC2086
  (cd "$fresh/debs" && apt-get download -qq -o APT::Sandbox::User=root $packages) ||
    fail "apt-get download failed; if its lists are old: sudo apt-get update"
  local package
  for package in "$fresh"/debs/*.deb; do dpkg -x "$package" "$fresh/root"; done
  rm -rf "$fresh/debs" "$fresh"/root/{lib,usr/lib}/modules "$fresh"/root/usr/share/{doc,man}
  rm -rf "$KEPT"
  mkdir -p "$(dirname "$KEPT")"
  mv "$fresh/root" "$KEPT"
}
[ -e "$KEPT/bin/busybox" ] || fetch
kernel=$(find "$KEPT/boot" -name 'vmlinuz-*' | head -n 1)
qemu=(qemu-system-x86_64)
if [ -x "$KEPT/usr/bin/qemu-system-x86_64" ]; then
  libraries=$KEPT/usr/lib/x86_64-linux-gnu
  qemu=(env "LD_LIBRARY_PATH=$libraries:$KEPT/lib/x86_64-linux-gnu" "QEMU_MODULE_DIR=$libraries/qemu"
    "$KEPT/usr/bin/qemu-system-x86_64" -L "$KEPT/usr/share/seabios" -L "$KEPT/usr/share/qemu")
fi
"${qemu[@]}" --version >/dev/null ||
  fail "QEMU does not start: rm -r $KEPT && sudo apt-get install -y --no-install-recommends qemu-system-x86"

# What runs: one command a line for the guest's shell, and the programs that it needs.
commands=$work/commands programs=()
if [ "${1:-}" = -- ]; then
  shift
  [ $# -gt 0 ] || fail "-- takes a program"
  { printf '%q ' "$@"; echo; } >"$commands"
  # The guest's shell is busybox.
  if [ "$1" != /bin/sh ]; then
    program=$(type -P "$1") || fail "$1 is not there"
    programs=("$program")
  fi
else
  targets=("${@:-cgroups}")
  # Cargo's options of what is built already, several words.
  read -ra selection <<<"${BLOC_SELECTION:--p bloc-node-agent}"
  cargo test --locked --no-run "${selection[@]}" --message-format json >"$work/built.json"
  python3 - "$work/built.json" "$CRATE/Cargo.toml" "${targets[@]}" >"$work/programs" <<'PYTHON'
import json, sys
built, crate, targets = sys.argv[1], sys.argv[2], sys.argv[3:]
for line in open(built):
    made = json.loads(line)
    if not (made["reason"] == "compiler-artifact" and made["manifest_path"] == crate and made["executable"]):
        continue
    kind, name = made["target"]["kind"][0], made["target"]["name"]
    if kind == "test":
        if name in targets:
            targets.remove(name)
            print("test", made["executable"])
    # The tests of a program start it.
    elif kind == "bin" and not made["profile"]["test"]:
        print("bin", made["executable"])
if targets:
    sys.exit(f"make test-cgroup2: bloc-node-agent has no test target {', '.join(targets)}")
PYTHON
  while read -r kind program; do
    programs+=("$program")
    [ "$kind" = bin ] || printf '%q --test-threads=1 %s\n' "$program" "${BLOC_QEMU_ARGS:-}" >>"$commands"
  done <"$work/programs"
fi

# The guest's files.
root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp,etc} "$root$CRATE"
cp "$KEPT/bin/busybox" "$root/bin/busybox"
put() {
  [ -e "$root$1" ] || { mkdir -p "$root$(dirname "$1")" && cp -rL "$1" "$root$1"; }
}
for program in "${programs[@]}"; do
  put "$program"
  # No libraries: a script or a program that has all in it.
  for library in $(ldd "$program" 2>/dev/null | grep -o '/[^ ]*' || true); do put "$library"; done
done
for file in ${BLOC_QEMU_FILES:-}; do put "$file"; done
cp "$commands" "$root/etc/commands"
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
export PATH=/bin HOME=/tmp BLOC_DISK=/dev/nvme0n1 RUST_BACKTRACE=${RUST_BACKTRACE:-0}
cd $(printf %q "$CRATE")
code=0
while read -r command <&3; do
  sh -c "\$command" </dev/null 3<&- || code=\$?
done 3</etc/commands
echo "test-cgroup2: exit status \$code after \$(cut -d ' ' -f 1 /proc/uptime) s"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | "$KEPT/bin/busybox" cpio -o -H newc 2>/dev/null) >"$work/initramfs"

# A disk of zeros: without one, all files are in memory, and none of it can be taken for processes.
truncate -s 64M "$work/disk"

code=0
timeout --kill-after 5 "$SECONDS_AT_MOST" "${qemu[@]}" -accel tcg -smp 2 -m 1024 -nodefaults -no-user-config -no-reboot \
  -display none -monitor none -serial stdio -drive if=none,id=disk,format=raw,file="$work/disk" -device nvme,drive=disk,serial=0 \
  -kernel "$kernel" -initrd "$work/initramfs" \
  -append 'console=ttyS0 quiet panic=-1' </dev/null | sed -u 's/\r$//' | tee "$work/console" || code=$?
# timeout's own.
if [ $code = 124 ] || [ $code = 137 ]; then
  echo "make test-cgroup2: stopped after $SECONDS_AT_MOST s; BLOC_QEMU_SECONDS=n allows more" >&2
  exit 1
fi
code=$(sed -n 's/.*test-cgroup2: exit status \([0-9]*\) after .*/\1/p' "$work/console" | tail -n 1)
[ -n "$code" ] || { echo "make test-cgroup2: the guest ended before the tests did" >&2; exit 1; }
exit "$code"
