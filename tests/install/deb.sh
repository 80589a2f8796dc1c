#!/bin/sh
# Builds the Debian packages, checks them with lintian, and installs, uses and removes them in a
# clean root made by debootstrap. Needs root and Debian's mirror; not part of CI.
# Arguments go to cmake. ROOT=DIR keeps the clean root there for the next run.
set -eu
cd "$(dirname "$0")/../.."
if [ "$(id -u)" -ne 0 ]; then
  echo "skipped: a clean root needs root"
  exit 0
fi
. app/packages.sh
# shellcheck disable=SC2086  # one word a package
need_packages $build_packages $python_packages debootstrap=debootstrap lintian=lintian dpkg-dev=dpkg-shlibdeps

cmake --preset package "$@" >/dev/null
cmake --build --preset package --parallel "$(nproc)" >/dev/null
rm -f build/package/*.deb
(cd build/package && cpack -G DEB >/dev/null)
packages=$(ls build/package/*.deb)
for package in $packages; do
  dpkg-deb --info "$package" | sed -n 's/^ \(Package\|Version\|Depends\|Recommends\|Section\|Installed-Size\):/&/p'
done
# shellcheck disable=SC2086
lintian --allow-root --fail-on error,warning $packages
echo "lintian: no errors, no warnings"

root=${ROOT:-$(mktemp -d)}
finish() {
  umount "$root/proc" 2>/dev/null || true
  [ -n "${ROOT:-}" ] || rm -rf "$root"
}
trap finish EXIT
[ -d "$root/etc" ] || debootstrap --variant=minbase bookworm "$root" http://deb.debian.org/debian >/dev/null
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
# Everything but what apt and dpkg remember.
listing() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./tmp -o -path ./var/cache -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./dev \) -prune -o -print | sort); }

rm -rf "${root:?}"/tmp/*
inside apt-get update -qq
# What the packages depend on stays when they go: it is there beforehand.
depends=$(for package in $packages; do dpkg-deb -f "$package" Depends; done | tr ',\n' '\n\n' | sed 's/ *([^)]*)//; s/^ *//; /mha/d' | sort -u)
# shellcheck disable=SC2086
inside apt-get install -y -qq --no-install-recommends $depends >/dev/null 2>&1
listing >"$root/tmp/before"

# shellcheck disable=SC2086
cp $packages "$root/tmp/"
inside sh -c 'dpkg -i /tmp/*.deb' >/dev/null
inside mha-inspect --version
inside mha-inspect show /usr/share/mha-inspect/data/quickstart.json --stage output
inside mha-inspect map /usr/share/mha-inspect/data/quickstart.json --head 0 -o /tmp/map.png
inside mha-inspect report /usr/share/mha-inspect/data/quickstart.json -o /tmp/report.html
test -s "$root/tmp/map.png"
test -s "$root/tmp/report.html"

# Every command has its man page, and every shell its completion of all of them.
commands=$(inside mha-inspect --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
pages=$(inside sh -c 'cd /usr/share/man/man1 && ls mha-inspect-*.1.gz' | sed 's/^mha-inspect-//; s/\.1\.gz$//')
test "$(printf '%s\n' $commands | sort)" = "$pages"
for page in mha-inspect $(printf 'mha-inspect-%s ' $commands); do
  gzip -dc "$root/usr/share/man/man1/$page.1.gz" | grep -q "^\.SH \"*EXAMPLES"
done
echo "man pages: mha-inspect and $(printf '%s\n' $commands | wc -l) commands"
offered=$(inside bash -c '. /usr/share/bash-completion/completions/mha-inspect; COMP_WORDS=(mha-inspect ""); COMP_CWORD=1; _mha_inspect; printf "%s\n" "${COMPREPLY[@]}"')
for command in $commands; do
  printf '%s\n' "$offered" | grep -qx "$command"
  grep -q "\b$command\b" "$root/usr/share/zsh/vendor-completions/_mha-inspect"
  grep -q "\b$command\b" "$root/usr/share/fish/vendor_completions.d/mha-inspect.fish"
done
echo "completions: bash, zsh and fish know them all"

# What is recommended, and not there, is named by who wants it.
recommended=$(for package in $packages; do dpkg-deb -f "$package" Recommends; done | sed 's/ *|.*//')
if ! inside dpkg -s $recommended >/dev/null 2>&1; then # NumPy, of the Python module, may have brought it
  inside mha-inspect stats /usr/share/mha-inspect/data/quickstart.json 2>&1 >/dev/null | grep -F "apt-get install $recommended"
  inside apt-get install -y -qq --no-install-recommends $recommended >/dev/null 2>&1
  test -z "$(inside mha-inspect stats /usr/share/mha-inspect/data/quickstart.json 2>&1 >/dev/null)"
  inside apt-get purge -y -qq --auto-remove $recommended >/dev/null 2>&1
fi

# The library, for a project in the clean root.
if [ -n "${WITH_LIBRARY:-}" ]; then
  inside apt-get install -y -qq --no-install-recommends g++ cmake make libxtensor-dev >/dev/null 2>&1
  for shared in OFF ON; do
    inside sh -c "cp -r /usr/share/doc/libmha-dev/examples /tmp/example$shared && cmake -S /tmp/example$shared -B /tmp/build$shared -DBUILD_SHARED_LIBS=$shared >/dev/null &&
      cmake --build /tmp/build$shared >/dev/null && cd /usr/share/mha-inspect && /tmp/build$shared/weights && /tmp/build$shared/stages data/induction 1 hidden.npz:layers.1" >/dev/null
    echo "the examples build and run, shared library: $shared"
  done
fi

# The Python module: every stage of a file, as an array; its bytecode goes with it.
inside python3 -c '
import mha, numpy
cache = mha.run("/usr/share/mha-inspect/data/quickstart.json")
assert cache["weights"].shape == (2, 3, 3) and isinstance(cache["weights"], numpy.ndarray)
cache = mha.run("/usr/share/mha-inspect/data/bard-llama", text="To be, or not", stages="weights")
print("Python:", mha.__version__, cache)'

# What the README shows and links to is there.
(cd "$root/usr/share/doc/mha-inspect" && for page in README.md docs/*.md; do
  grep -oE '\[[^]&=]+\]\([^)#: ]+' "$page" | sed 's/.*](//' | while read -r link; do
    test -e "$(dirname "$page")/$link" || { echo "$page: no $link"; exit 1; }
  done
done)

# shellcheck disable=SC2046  # one word a package
inside dpkg --purge $(for package in $packages; do dpkg-deb -f "$package" Package; done) >/dev/null
if [ -z "${WITH_LIBRARY:-}" ]; then
  listing >"$root/tmp/after"
  diff "$root/tmp/before" "$root/tmp/after"
  echo "nothing is left behind"
fi
rm -rf "$root"/tmp/*
echo "the packages install, work and go"
