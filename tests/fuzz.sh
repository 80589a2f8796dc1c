#!/bin/sh
# Fuzzes what reads files and what assembles layers: sh tests/fuzz.sh SECONDS [TARGET...]
# TARGETs are npy npz safetensors pytorch gguf onnx json text lists layer model tokenizer checkpoint description; all of them without names, as many at a
# time as there are cores. Inputs that reach new code are kept in build/PRESET/corpus for the next
# run; what fails lies in build/PRESET/finds, and is run again by giving the file to the program
# build/PRESET/tests/fuzz/fuzz-TARGET. PRESET is fuzz, or asan, whose tests it shares a build with.
set -eu
cd "$(dirname "$0")/.."
. app/packages.sh

seconds=${1:?"sh tests/fuzz.sh SECONDS [TARGET...]"}
shift
[ $# -gt 0 ] || set -- npy npz safetensors pytorch gguf onnx json text lists layer model tokenizer checkpoint description
preset=${PRESET:-fuzz}
build=build/$preset
seeds=$build/seeds

run() {
  name=$1
  dictionary=tests/fuzz/$name.dict
  longest=8192
  [ "$name" != onnx ] || longest=32768 # a graph with its weights
  [ "$name" != model ] && [ "$name" != checkpoint ] && [ "$name" != description ] || dictionary=tests/fuzz/json.dict
  [ ! -f "$dictionary" ] || set -- "$@" -dict="$dictionary"
  shift
  mkdir -p "$build/corpus/$name"
  # A single request for more than 64 MiB is a find (with sanitizers all memory comes from malloc),
  # and so is an input that takes five seconds, which without sanitizers is less than one.
  "$build/tests/fuzz/fuzz-$name" -max_total_time="$seconds" -timeout=5 -malloc_limit_mb=64 -max_len="$longest" \
    -print_final_stats=1 -artifact_prefix="$build/finds/$name-" "$@" \
    "$build/corpus/$name" "$seeds/$name" >"$build/finds/$name.log" 2>&1
}
# One target, for the xargs below.
if [ "${FUZZ_ONE:-}" ]; then
  run "$FUZZ_ONE"
  exit
fi

# shellcheck disable=SC2086  # one word a package
need_packages $build_packages catch2="<catch2/catch.hpp>" clang=clang++
ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 || need_packages libclang-rt-14-dev=mha-no-such-command

cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" --parallel "$(nproc)" --target fuzz mha-inspect >/dev/null

# What there is of each format begins it; a changed list of seeds changes nothing that was found.
mkdir -p "$build/finds" "$seeds/npy" "$seeds/npz" "$seeds/safetensors" "$seeds/pytorch" "$seeds/gguf" "$seeds/onnx" "$seeds/json" "$seeds/text" "$seeds/lists" "$seeds/layer" "$seeds/model" "$seeds/tokenizer" "$seeds/description"
for format in npy npz safetensors gguf onnx json; do
  cp tests/broken/*."$format" tests/data/fuzz/*."$format" "$seeds/$format/" 2>/dev/null || true
done
cp tests/broken/*.pt tests/broken/*.pkl tests/data/pytorch/*.pt tests/data/pytorch/*.pkl "$seeds/pytorch/"
cp data/*.json tests/broken/layers/*.json "$seeds/json/"
cp tests/broken/text-* "$seeds/text/"
for layer in data/quickstart.json data/columns.json data/qkv.json; do
  name=$(basename "$layer" .json)
  for format in npz safetensors; do
    "$build/app/mha-inspect" convert "$layer" -o "$seeds/$format/$name.$format" --quiet
  done
  "$build/app/mha-inspect" dump "$layer" -s output -o "$seeds/npy/$name.npy" --quiet
done
cp "$seeds"/json/* "$seeds"/npz/* "$seeds"/safetensors/* "$seeds/model/"
cp tests/data/published/*.json "$seeds/description/"
cp data/wheel/naming.json "$seeds/description/wheel.json"
cp tests/broken/tokenizers/*.json tests/fuzz/tokenizers/*.json "$seeds/tokenizer/"
python3 tests/fuzz/checkpoints.py "$seeds/checkpoint"
printf '\011\001%s' '0-3,7,::2' >"$seeds/lists/indices"
printf '\003\002%s' 'q=q.bin:bf16[2,512,12,64]@BTHD' >"$seeds/lists/source"
printf '%s' 'a layer of some tensors, drawn from bytes: any bytes will do for a beginning' >"$seeds/layer/any"

for name in "$@"; do echo "$name"; done |
  xargs -P "$(nproc)" -I '{}' env FUZZ_ONE='{}' PRESET="$preset" sh tests/fuzz.sh "$seconds" '{}' || true
failed=0
for name in "$@"; do
  awk -v name="$name" '/^stat::number_of_executed_units/ { runs = $2 } /^stat::peak_rss_mb/ { rss = $2 } /cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
    /SUMMARY/ { find = $0 } END { printf "%-12s %9d runs, %5d places reached, %4d MiB%s\n", name, runs, cov, rss, find == "" ? "" : "  FAILED: " find }' "$build/finds/$name.log"
  # A target that ends well says so; one that fails leaves its input.
  grep -q '^Done ' "$build/finds/$name.log" || failed=$((failed + 1))
done
[ "$failed" -eq 0 ] || echo "what failed lies in $build/finds"
echo "$(($# - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
