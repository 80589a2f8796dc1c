#!/bin/sh
# Installs missing packages, builds a release and shows a small trained layer.
set -eu
cd "$(dirname "$0")/.."
. app/packages.sh

# shellcheck disable=SC2086  # one word for each package
need_packages $build_packages
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)"

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}
PATH="$PWD/build/release/app:$PATH"
run mha-inspect show data/induction --layer 1 X=data/induction/hidden.npz:layers.1
run mha-inspect explain data/induction --layer 1 X=data/induction/hidden.npz:layers.1 \
  --tokens data/induction/tokens.json --head 0 --query 17
printf '\nThe program is build/release/app/mha-inspect; see `mha-inspect --help`.\n'
