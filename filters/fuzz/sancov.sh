#!/usr/bin/env bash
# RUSTC_WORKSPACE_WRAPPER of fuzz.sh: our own crates are compiled with what libFuzzer wants to see, by a stable compiler; everything else is taken as it
# was built for the tests. These are cargo-fuzz's flags without a sanitizer: the code is safe Rust, so that a panic is what there is to find.
set -euo pipefail
case " $* " in
  *" --crate-name build_script_build "* | *" --crate-name none "* | *" --print "*) exec "$@" ;;
esac
exec "$@" --cfg fuzzing -C passes=sancov-module -C codegen-units=1 -C opt-level=2 \
  -C llvm-args=-sanitizer-coverage-level=4 \
  -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
  -C llvm-args=-sanitizer-coverage-pc-table \
  -C llvm-args=-sanitizer-coverage-trace-compares
