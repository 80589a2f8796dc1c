#!/bin/sh
# Whether two programs do the same on every command line of tests/cli, of tests/matrix, of the README
# and of the docs: exit code, output, errors and written files, byte by byte. What may differ is a row
# of tests/replay/changes.tsv: command, stream, line that was, line that is, reason; texts that were reworded
# are rows of words.tsv.
#
#   sh tests/replay.sh --make-record FOLDER      runs the test programs of build/dev once, records their
#                                                lines, and lists those that differ from run to run
#   sh tests/replay.sh --old PROGRAM --new PROGRAM --record FOLDER
#
# --make-record: --build FOLDER (build/dev), --tests PATTERN (of cases), --jobs N.
# Else: --only PATTERN (found in a line, or its name), --share I/N, --jobs N, --keep FOLDER (what both
# did where they differ), --show N differences (40); see tests/replay/replay.py.
# Exit code: 0 the same, or as rows say; 1 something differs, or no line needs a row; 2 the call failed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in
  --make-record)
    [ $# -gt 1 ] || { echo "$1 needs a folder" >&2; exit 2; }
    shift
    exec /usr/bin/python3 -B "$here/replay/record.py" "$@" ;;
  --?*) exec /usr/bin/python3 -B "$here/replay/replay.py" "$@" ;;
  *)
    sed -n '2,16s/^# \{0,1\}//p' "$0" >&2
    exit 2 ;;
esac
