#!/bin/sh
# Installs what is missing, builds and runs every test; the last line counts them.
# PRESET=asan runs them under AddressSanitizer and UndefinedBehaviorSanitizer; PRESET=mpi builds the
# program with MPI and runs tests/mpi.
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
if [ "$preset" = mpi ]; then
  need_packages $mpi_packages
fi
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" --parallel "$(nproc)"

if [ "$preset" = mpi ]; then
  exec sh tests/mpi/ranks.sh "$build/app/mha-inspect"
fi

# Both programs at once; their reports one after the other.
for program in unit-tests cli-tests; do
  ("$build/tests/$program" >"$build/$program.log" 2>&1; echo $? >"$build/$program.status") &
done
wait
passed=0 failed=0
for program in unit-tests cli-tests; do
  echo "== $program"
  cat "$build/$program.log"
  # Catch2's last line: "All tests passed (N assertions in N test cases)" or "test cases: N | N passed | N failed".
  counts=$(awk '/^All tests passed/ { match($0, /in [0-9]+ test/); print substr($0, RSTART + 3, RLENGTH - 8), 0 }
                /^test cases:/ { p = f = 0
                  n = split($0, part, "|")
                  for (i = 2; i <= n; i++) { split(part[i], word, " "); if (word[2] == "passed") p = word[1]; if (word[2] == "failed") f = word[1] }
                  print p, f }' "$build/$program.log" | tail -n 1)
  [ -n "$counts" ] || counts="0 1" # it ended without a summary: a crash counts as a failure
  passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
  [ "$(cat "$build/$program.status")" = 0 ] || [ "${counts#* }" -gt 0 ] || failed=$((failed + 1))
done

# The page of `report` in a browser: once, with the dev build.
if [ "$preset" = dev ]; then
  echo "== web-tests"
  web=$build/web skipped=
  mkdir -p "$web"
  # shellcheck disable=SC2086  # one word a package
  [ "${CI:-}" != true ] || need_packages $web_packages
  for program in chromium node npm; do
    have "$program" || skipped="$skipped $program"
  done
  cp tests/web/package.json tests/web/package-lock.json "$web/"
  if [ -z "$skipped" ] && ! (cd "$web" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1); then
    cat "$web/npm.log"
    skipped=" playwright-core (npm ci failed)"
  fi
  if [ -z "$skipped" ]; then
    MHA=$build/app/mha-inspect OUT=$web node --test --test-reporter=tap tests/web/report_test.mjs >"$build/web-tests.log" 2>&1 ||
      sed -n '/^not ok/,$p' "$build/web-tests.log"
    counts=$(awk '/^# pass / { p = $3 } /^# fail / { f = $3 } END { if (p + f > 0) print p, f }' "$build/web-tests.log")
    [ -n "$counts" ] || { cat "$build/web-tests.log"; counts="0 1"; }
    echo "$counts" | awk '{ print $1 " passed, " $2 + 0 " failed; screenshots in '"$web"'" }'
    passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
  elif [ "${CI:-}" = true ]; then
    echo "web tests could not run: missing$skipped"
    failed=$((failed + 1))
  else
    echo "web tests skipped: missing$skipped (apt-get install --no-install-recommends chromium nodejs npm)"
  fi
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
