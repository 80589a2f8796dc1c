#!/bin/sh
# One run of each command under valgrind, on a whole model where it takes one: sh tests/valgrind.sh [PROGRAM]
# Slow, and not run by CI, whose sanitizers see more; valgrind sees what libraries do, too, and memory
# that was never written. It knows no newer instructions than AVX2.
set -eu
cd "$(dirname "$0")/.."
. app/packages.sh
need_packages valgrind=valgrind
/usr/bin/python3 -c 'import numpy' 2>/dev/null || need_packages python3-numpy=mha-no-such-command

program=${1:-build/dev/app/mha-inspect}
MHA_CPU=avx2 exec /usr/bin/python3 tests/matrix/run.py "$program" --once \
  --under "valgrind -q --suppressions=$PWD/tests/valgrind.supp --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite"
