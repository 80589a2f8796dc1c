#!/bin/sh
# Installs what is missing, builds and runs every test; the last line counts them.
# PRESET=asan runs them under AddressSanitizer and UndefinedBehaviorSanitizer; PRESET=mpi builds the
# program with MPI and runs tests/mpi; PRESET=arm64 builds for AArch64, runs the tests of what computes and reads under
# QEMU, and compares the bits of commands with those of an x86-64 program (tests/arm64).
set -eu
cd "$(dirname "$0")/.."
. app/packages.sh

# shellcheck disable=SC2086  # one word a package
need_packages $build_packages $test_packages
# The tests read results back with Debian's NumPy, whatever python3 is first in PATH.
/usr/bin/python3 -c 'import numpy' 2>/dev/null || need_packages python3-numpy=mha-no-such-command

preset=${PRESET:-dev}
build=build/$preset
if [ "$preset" = asan ]; then # with Clang, so that both compilers see every line
  need_packages clang=clang++
  ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*.a >/dev/null 2>&1 || need_packages libclang-rt-14-dev=mha-no-such-command
fi
if [ "$preset" = mpi ]; then # in the dev build, from which one file differs
  # shellcheck disable=SC2086  # one word a package
  need_packages $mpi_packages
  program() { cmake --preset dev "-DMHA_WITH_MPI=$1" >/dev/null && cmake --build --preset dev --target mha-inspect --parallel "$(nproc)"; }
  program ON
  cp build/dev/app/mha-inspect build/dev/mha-inspect-mpi
  program OFF
  exec sh tests/mpi/ranks.sh build/dev/mha-inspect-mpi
fi
programs='unit-tests cli-tests' targets='' emulator='' left_out='^$'
if [ "$preset" = arm64 ]; then
  need_packages g++-aarch64-linux-gnu=aarch64-linux-gnu-g++ qemu-user-static=qemu-aarch64-static
  sh tests/arm64/sysroot.sh build/arm64-sysroot
  programs=unit-tests targets='--target mha-inspect unit-tests'
  emulator='qemu-aarch64-static -L build/arm64-sysroot'
  # Of AMX, which is x86-64's and would be emulated twice; and one that starts itself, which the system cannot run.
  left_out='^(AMX|bf16x3|emulated AMX): |^a process ends while another thread of it is in a loop$'
fi
if [ "$preset" = dev ] && [ "${CI:-}" = true ]; then
  # shellcheck disable=SC2086  # one word a package
  need_packages $public_packages
fi
# A tree that no preset has configured yet is built once: its folders are compiled together, as the release's are.
together=''
[ -e "$build/CMakeCache.txt" ] || together=-DCMAKE_UNITY_BUILD=ON
# shellcheck disable=SC2086  # nothing is no word
cmake --preset "$preset" $together >/dev/null
# shellcheck disable=SC2086  # one word a target
cmake --build --preset "$preset" --parallel "$(nproc)" $targets

# The tests of each program in shares, as many processes at once as there are cores and one more: a share
# that waits leaves its core to another, and none of them has long to run when the others have ended.
split() { # PROGRAM SHARES
  # shellcheck disable=SC2086  # one word an argument
  $emulator "$build/tests/$1" --list-test-names-only | grep -vE "$left_out" >"$build/$1.names"
  share=0
  while [ "$share" -lt "$2" ]; do
    # A comma in a name would end it.
    awk -v share="$share" -v shares="$2" 'NR % shares == share { gsub(/,/, "\\\\,"); print }' "$build/$1.names" >"$build/$1-$share.names"
    echo "$1 $share"
    share=$((share + 1))
  done
}
run_shares() { # lines PROGRAM SHARE
  # Leaks are looked for in all tests of the library, and in each fourth share of the program's: there it takes
  # as long as the start of a process.
  # shellcheck disable=SC2016  # of the shell that xargs starts
  EMULATOR=$emulator xargs -P "$(($(nproc) + 1))" -L 1 sh -c '
    status=0
    [ "$1" = unit-tests ] || [ "$(($2 % 4))" = 0 ] || export ASAN_OPTIONS="detect_leaks=0:$ASAN_OPTIONS"
    $EMULATOR "$0/tests/$1" --min-duration 20 -f "$0/$1-$2.names" >"$0/$1-$2.log" 2>&1 || status=$?
    echo $status >"$0/$1-$2.status"' "$build"
}

# Catch2's report: a line of dashes, the test's name, its sections, a line of dashes, the failures or warnings.
failed_tests() { # LOG
  awk '/^-+$/ && length == 79 { inside = !inside; if (inside) name = ""; next }
       inside && name == "" { name = $0 }
       / FAILED:$/ { print "failed: " name }' "$1" | sort -u
}

# The reports of its processes, one after the other, added to passed and failed.
report() { # PROGRAM SHARES
  share=0 ran=$((passed + failed))
  while [ "$share" -lt "$2" ]; do
    echo "== $1 $((share + 1)) of $2"
    cat "$build/$1-$share.log"
    # Catch2's last line: "All tests passed (N assertions in N test cases)" or "test cases: N | N passed | N failed".
    counts=$(awk '/^All tests passed/ { match($0, /in [0-9]+ test/); print substr($0, RSTART + 3, RLENGTH - 8), 0 }
                  /^test cases:/ { p = f = 0
                    n = split($0, part, "|")
                    for (i = 2; i <= n; i++) { split(part[i], word, " "); if (word[2] == "passed") p = word[1]; if (word[2] == "failed") f = word[1] }
                    print p, f }' "$build/$1-$share.log" | tail -n 1)
    [ -n "$counts" ] || counts="0 1" # it ended without a summary: a crash counts as a failure
    passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
    [ "$(cat "$build/$1-$share.status")" = 0 ] || [ "${counts#* }" -gt 0 ] || failed=$((failed + 1))
    share=$((share + 1))
  done
  if [ $((passed + failed - ran)) -lt "$(grep -c . "$build/$1.names")" ]; then
    echo "some of $1 were in no share"
    failed=$((failed + 1))
  fi
}

# node_tests NAME WHAT ENVIRONMENT... -- PROGRAM...: tests/NAME with its npm packages, which need
# the programs. Where they are missing, a run by hand says so and CI fails.
node_tests() {
  name=$1 what=$2 settings='' missing=''
  shift 2
  while [ "$1" != -- ]; do
    settings="$settings $1"
    shift
  done
  shift
  folder=$build/$name
  echo "== $name-tests"
  mkdir -p "$folder"
  for program in "$@" node npm; do
    have "$program" || missing="$missing $program"
  done
  cp "tests/$name/package.json" "tests/$name/package-lock.json" "$folder/"
  if [ -z "$missing" ] && ! (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1); then
    cat "$folder/npm.log"
    missing=" npm's packages (npm ci failed)"
  fi
  if [ -z "$missing" ]; then
    # shellcheck disable=SC2086  # one word a setting
    env $settings OUT="$folder" node --test --test-reporter=tap "tests/$name"/*_test.mjs >"$build/$name-tests.log" 2>&1 ||
      sed -n '/^not ok/,$p' "$build/$name-tests.log"
    counts=$(awk '/^# pass / { p = $3 } /^# fail / { f = $3 } END { if (p + f > 0) print p, f }' "$build/$name-tests.log")
    [ -n "$counts" ] || { cat "$build/$name-tests.log"; counts="0 1"; }
    echo "$counts" | awk -v what="$what in $folder" '{ print $1 " passed, " $2 + 0 " failed; " what }'
  elif [ "${CI:-}" = true ]; then
    echo "$name tests could not run: missing$missing"
    echo "0 passed, 1 failed; $name"
  else
    echo "$name tests skipped: missing$missing (apt-get install --no-install-recommends chromium nodejs npm)"
  fi
}

# The Python module, where the dev build has it: unittest's "Ran N tests", then "OK" or "FAILED (failures=1, errors=2)".
python_tests() {
  echo "== python-tests"
  if [ -d "$build/python" ]; then
    status=0
    PYTHONPATH=$build/python MHA=$build/app/mha-inspect /usr/bin/python3 -B -m unittest discover -s tests/python >"$build/python-tests.log" 2>&1 || status=1
    counts=$(awk -v status="$status" '/^Ran [0-9]+ test/ { ran = $2 }
                  /^FAILED/ { sub(/skipped=[0-9]+/, ""); n = split($0, part, /[^0-9]+/); for (i = 1; i <= n; i++) bad += part[i] }
                  END { if (status && !bad) bad = 1; print (ran > bad) ? ran - bad : 0, bad + 0 }' "$build/python-tests.log")
    [ "$status" = 0 ] || cat "$build/python-tests.log"
    echo "$counts" | awk '{ print $1 " passed, " $2 " failed; in Python" }'
  elif [ "${CI:-}" = true ]; then
    echo "the Python module was not built"
    echo "0 passed, 1 failed; in Python"
  else
    echo "Python tests skipped: no module (apt-get install --no-install-recommends pybind11-dev python3-dev)"
  fi
}

# The commands of tests/arm64, beside an x86-64 program of the same source: X86_PROGRAM, or one that is built.
arm64_bits() {
  native=dev
  [ -e build/dev/CMakeCache.txt ] || native=release
  if [ -z "${X86_PROGRAM:-}" ] && ! { cmake --preset "$native" && cmake --build --preset "$native" --target mha-inspect --parallel "$(nproc)"; } >"$build/native.log" 2>&1; then
    cat "$build/native.log"
    echo "0 passed, 1 failed; the program for x86-64"
    return
  fi
  sh tests/arm64/bits.sh "${X86_PROGRAM:-build/$native/app/mha-inspect}" "$build/app/mha-inspect" "$build/bits"
}

# Beside the shares: Python's module, the page of `report` in a browser, tokens against other
# implementations'. Each prints "N passed, N failed; …". With the dev build only.
others() {
  python_tests
  node_tests web screenshots MHA="$build/app/mha-inspect" -- chromium
  node_tests tokenizers "how many texts differ: report-*.tsv" TOKENIZER_LINES="$build/tests/tokenizer-lines" --
}
: >"$build/others.log"
others=''
if [ "$preset" = dev ]; then
  # shellcheck disable=SC2086  # one word a package
  [ "${CI:-}" != true ] || need_packages $web_packages
  others >"$build/others.log" 2>&1 &
  others=$!
elif [ "$preset" = arm64 ]; then
  arm64_bits >"$build/others.log" 2>&1 &
  others=$!
fi
# Four frames of where memory was taken: more of them cost a quarter of a run under AddressSanitizer.
export ASAN_OPTIONS="${ASAN_OPTIONS:-malloc_context_size=4}"
# Enough of them that the last ones end together.
shares=$((8 * $(nproc)))
for program in $programs; do split "$program" $shares; done >"$build/shares"
run_shares <"$build/shares"
passed=0 failed=0
[ -z "$others" ] || wait "$others" || failed=1
for program in $programs; do report "$program" $shares; done
cat "$build/others.log"
counts=$(awk '/^[0-9]+ passed, [0-9]+ failed;/ { p += $1; f += $3 } END { print p + 0, f + 0 }' "$build/others.log")
passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
# Once more at the end, where a reader of a long log begins.
for log in "$build"/unit-tests-*.log "$build"/cli-tests-*.log; do
  failed_tests "$log"
done
sed -n '/^not ok/s/^/failed: /p' "$build/others.log"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
