#!/usr/bin/env bash
# Fuzzes what is read from others, with a stable compiler and without cargo-fuzz; needs a C++ compiler for libFuzzer.
#
#   fuzz.sh [TARGET...]   each target (all, unless some are named) for FUZZ_SECONDS (60), FUZZ_JOBS (as there are processors) at a time
#                         with FUZZ_RUNS set, so many inputs at most and always the same ones: what passed once passes again, as CI needs it
#   fuzz.sh build         builds the fuzzers and runs none
#   fuzz.sh merge         what target/fuzz has found since, minimized, into the committed corpus
#   fuzz.sh record        writes record.md from the runs since target/fuzz/runs.tsv began
#
# What breaks a target is left in target/fuzz/findings, and the exit code is 1; `cargo test -p bloc-fuzz -p bloc-control-plane-fuzz` replays it once it is in corpus/TARGET.txt (see corpus.py).
# Who has cargo-fuzz can use it too: cargo fuzz run --fuzz-dir filters/fuzz --features libfuzzer -s none TARGET
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# With FUZZ_RUNS it is the inputs that count, however slow the machine is; the limits are there for
# what hangs.
if [ -n "${FUZZ_RUNS:-}" ]; then seconds=600 timeout=30; else seconds=60 timeout=10; fi
readonly SECONDS_EACH=${FUZZ_SECONDS:-$seconds}
readonly OUT=target/fuzz
readonly BUILD=${CARGO_TARGET_DIR:-target}/debug
readonly RUNS=$OUT/runs.tsv
FLAGS=(-max_len=2048 -timeout=$timeout -rss_limit_mb=2048 -print_final_stats=1 -verbosity=1)
[ -z "${FUZZ_RUNS:-}" ] || FLAGS+=(-runs="$FUZZ_RUNS" -seed=1)
readonly FLAGS

targets() { for file in {filters,control-plane}/fuzz/fuzz_targets/*.rs; do basename "$file" .rs; done; }

# With the example none, so that what the tests have compiled is used again; its source says why.
build() {
  .ci/needs fuzz
  local bins=() target
  for target in $(targets); do bins+=(--bin "$target"); done
  RUSTC_WORKSPACE_WRAPPER=$PWD/filters/fuzz/sancov.sh cargo build --locked --features bloc-fuzz/libfuzzer,bloc-control-plane-fuzz/libfuzzer "${bins[@]}" --example none
}

# One target; a line of its runs into runs.tsv: seconds of CPU, executions, edges, features.
fuzz() {
  local target=$1 grown=$OUT/corpus/$1 log=$OUT/log/$1 failed=0 cpu
  mkdir -p "$grown" "$OUT/log" "$OUT/findings"
  local inputs=("$grown")
  if [ -n "${FUZZ_RUNS:-}" ]; then
    # What earlier runs have found would lead elsewhere.
    inputs=("$(mktemp -d "$OUT/repeated.XXXXXX")")
  fi
  TIMEFORMAT='%U %S'
  local seeds
  seeds=$(mktemp -d "$OUT/seeds.XXXXXX")
  filters/fuzz/corpus.py unpack "$target" "$seeds"
  { time "$BUILD/$target" "${FLAGS[@]}" -max_total_time="$SECONDS_EACH" -artifact_prefix="$OUT/findings/$target-" \
    "${inputs[@]}" "$seeds" >"$log" 2>&1 || failed=1; } 2>"$log.time"
  rm -rf "$seeds"
  cpu=$(awk '{ print int($1 + $2) }' "$log.time")
  awk -v target="$target" -v cpu="$cpu" '
    /^stat::number_of_executed_units:/ { runs = $2 }
    / cov: [0-9]+ ft: [0-9]+ / { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1) } }
    END { printf "%s\t%d\t%d\t%d\t%d\n", target, cpu, runs, cov, ft }' "$log" | tee -a "$RUNS"
  local ran
  ran=$(awk '/^stat::number_of_executed_units:/ { runs = $2 } END { print runs + 0 }' "$log")
  if [ "$failed" = 0 ] && [ "$ran" -lt "${FUZZ_RUNS:-0}" ]; then
    echo "$target: $ran inputs of FUZZ_RUNS=$FUZZ_RUNS in $SECONDS_EACH s" >&2
    return 1
  fi
  if [ "$failed" = 1 ]; then
    tail -n 30 "$log" >&2
    return 1
  fi
}

merge() {
  local target scratch
  for target in $(targets); do
    scratch=$(mktemp -d)
    mkdir -p "$scratch/merged" "$OUT/corpus/$target"
    filters/fuzz/corpus.py unpack "$target" "$scratch/seeds"
    "$BUILD/$target" -max_len=2048 -set_cover_merge=1 "$scratch/merged" "$scratch/seeds" "$OUT/corpus/$target" >/dev/null 2>&1
    filters/fuzz/corpus.py pack "$target" "$scratch/merged"
    rm -rf "$scratch"
  done
}

record() {
  awk -F '\t' -v when="$(date -u +%F)" -v rustc="$(rustc --version | cut -d ' ' -f 2)" '
    { cpu[$1] += $2; runs[$1] += $3; if ($4 > cov[$1]) cov[$1] = $4; if ($5 > ft[$1]) ft[$1] = $5 }
    END {
      printf "The longest fuzzing so far, ended %s with Rust %s; written by `filters/fuzz/fuzz.sh record`. Edges are those of our own crates.\n\n", when, rustc
      print "| target | CPU minutes | executions | edges | features |\n|---|---|---|---|---|"
      n = split("bid endpoints load_report orca plugin sync_request sync_response", names, " ")
      for (i = 1; i <= n; i++) { t = names[i]; printf "| `%s` | %.1f | %d | %d | %d |\n", t, cpu[t] / 60, runs[t], cov[t], ft[t] }
    }' "$RUNS"
}

case "${1:-}" in
  merge) merge ;;
  record) record | cat - <(sed -n '/^## Findings/,$p' filters/fuzz/record.md 2>/dev/null | sed '1s/^/\n/') >"$OUT/record.md" && cp "$OUT/record.md" filters/fuzz/record.md ;;
  one) fuzz "$2" ;;
  build) build ;;
  *)
    build
    mkdir -p "$OUT"
    if [ $# = 0 ]; then mapfile -t chosen < <(targets); else chosen=("$@"); fi
    printf '%s\n' "${chosen[@]}" | xargs -P "${FUZZ_JOBS:-$(nproc)}" -I '{}' filters/fuzz/fuzz.sh one '{}'
    ;;
esac
