#!/bin/sh
# Runs the commands of tests/arm64/commands.txt by an x86-64 program with AVX2 and by one for AArch64 under QEMU: what
# they print, their exit codes and the files that they write must be the same in every bit. The last line counts them.
# usage: tests/arm64/bits.sh X86_PROGRAM ARM64_PROGRAM FOLDER
set -eu
[ $# -eq 3 ] || { echo "usage: tests/arm64/bits.sh X86_PROGRAM ARM64_PROGRAM FOLDER" >&2; exit 2; }
x86=$1 arm64=$2 folder=$3
tests=$(dirname "$0")
sysroot=$tests/../../build/arm64-sysroot

# run NAME PROGRAM...: the command in $line; FOLDER/NAME has what it wrote, and its exit code.
run() {
  out=$folder/$1
  shift
  rm -rf "$out"
  mkdir -p "$out/files"
  status=0
  # The line is quoted as for a shell. Both write below one name, which messages have.
  rm -f "$folder/OUT"
  ln -s "$(basename "$out")/files" "$folder/OUT"
  eval "set -- \"\$@\" $(echo "$line" | sed "s|OUT/|$folder/OUT/|g")"
  "$@" >"$out/output" 2>"$out/errors" || status=$?
  echo "$status" >"$out/status"
}

passed=0 failed=0
while IFS= read -r line; do
  run x86 env MHA_CPU=avx2 "$x86" </dev/null
  run arm64 qemu-aarch64-static -L "$sysroot" "$arm64" </dev/null
  if [ "$(cat "$folder/x86/status")" -le 1 ] && diff -r "$folder/x86" "$folder/arm64" >"$folder/difference" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "not ok: $line"
    head -n 20 "$folder/difference" "$folder/x86/errors"
  fi
done <"$tests/commands.txt"
echo "$passed passed, $failed failed; commands of AArch64 with the bits of AVX2"
