#!/bin/sh
# clang-tidy over lib/ and app/ (or the files given), by .clang-tidy; fails where it finds something.
set -eu
cd "$(dirname "$0")/.."
. app/packages.sh
# shellcheck disable=SC2086  # one word a package
need_packages $build_packages clang-tidy=clang-tidy
[ -f build/dev/compile_commands.json ] || cmake --preset dev >/dev/null
[ $# -gt 0 ] || set -- $(find lib app -name '*.cpp' | sort)
printf '%s\n' "$@" |
  xargs -P "$(nproc)" -n 4 clang-tidy -p build/dev --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null &&
  echo "clang-tidy: nothing found in $# files"
