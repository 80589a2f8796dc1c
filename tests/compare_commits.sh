#!/bin/sh
# Whether two commits compute the same bits: random layers of every kind, dumped by both programs
# under every instruction set that this machine has, on 1, 2 and 5 threads, whole, by stages, by rows
# and in parts; every array is compared byte by byte.
#
#   sh tests/compare_commits.sh OLD [NEW]          builds two commits; without NEW, the working tree
#   sh tests/compare_commits.sh --old PROGRAM --new PROGRAM    or one of them, and a commit
#   sh tests/compare_commits.sh --old PROGRAM --self-test      whether it would notice
#
# --layers N (200), --seed S (1), --only I, --keep FOLDER, --jobs N: see tests/bits/compare.py.
# --models N: N whole models of every family instead of layers (tests/bits/models.py).
# Exit code: 0 the same; 1 something differs; 2 the call or a build failed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

old='' new='' commits='' self_test='' options='' compare=compare.py
usage() {
  sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --old | --new | --models | --layers | --seed | --only | --keep | --jobs)
      [ $# -gt 1 ] || { echo "$1 needs a value" >&2; exit 2; } ;;
  esac
  case $1 in
    --old) old=$2; shift ;;
    --new) new=$2; shift ;;
    --models) compare=models.py options="$options $1 $2"; shift ;;
    --self-test) self_test=yes options="$options $1" ;;
    --layers | --seed | --only | --keep | --jobs) options="$options $1 $2"; shift ;;
    -*) usage ;;
    *) commits="$commits $1" ;;
  esac
  shift
done
# Commits are for the sides that no program was given for.
# shellcheck disable=SC2086  # one word a commit
set -- $commits
[ -n "$old" ] || { [ $# -gt 0 ] && old_commit=$1 && shift; } || usage
[ $# -eq 0 ] || { [ -z "$new" ] && new_commit=$1 && shift; } || usage
[ $# -eq 0 ] || usage
/usr/bin/python3 -c 'import numpy' 2>/dev/null || { echo "needs Debian's python3-numpy" >&2; exit 2; }

trees=$(mktemp -d)
clean() {
  for tree in old new; do
    [ ! -d "$trees/$tree" ] || git -C "$root" worktree remove --force "$trees/$tree"
  done
  rm -rf "$trees"
}
trap clean EXIT
trap 'exit 2' HUP INT TERM

# build COMMIT NAME: prints the program's path.
build() {
  git -C "$root" worktree add --quiet --detach "$trees/$2" "$1" >&2 || exit 2
  build_in "$trees/$2"
}
build_in() {
  (cd "$1" && cmake --preset release >"$trees/log" 2>&1 &&
    cmake --build --preset release --parallel "$(nproc)" --target mha-inspect >"$trees/log" 2>&1) || { tail -n 20 "$trees/log" >&2; exit 2; }
  echo "$1/build/release/app/mha-inspect"
}

[ -n "$old" ] || old=$(build "$old_commit" old)
if [ -z "$new" ]; then
  if [ -n "$self_test" ]; then new=$old
  elif [ -n "${new_commit:-}" ]; then new=$(build "$new_commit" new)
  else new=$(build_in "$root"); fi
fi
for program in "$old" "$new"; do
  "$program" --version >/dev/null || { echo "$program does not run" >&2; exit 2; }
done
# shellcheck disable=SC2086  # one word an option
/usr/bin/python3 "$here/bits/$compare" --old "$old" --new "$new" $options
