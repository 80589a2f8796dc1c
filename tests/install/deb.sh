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
need_packages $build_packages debootstrap=debootstrap lintian=lintian dpkg-dev=dpkg-shlibdeps

cmake --preset package "$@" >/dev/null
cmake --build --preset package --parallel "$(nproc)" >/dev/null
rm -f build/package/*.deb
(cd build/package && cpack -G DEB >/dev/null)
packages=$(ls build/package/*.deb)
for package in $packages; do
  dpkg-deb --info "$package" | sed -n 's/^ \(Package\|Version\|Depends\|Section\|Installed-Size\):/&/p'
done
# shellcheck disable=SC2086
lintian --allow-root --fail-on error $packages

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
depends=$(for package in $packages; do dpkg-deb -f "$package" Depends; done | tr ',\n' '\n\n' | sed 's/ *([^)]*)//; s/^ *//; /^mha-inspect$/d' | sort -u)
# shellcheck disable=SC2086
inside apt-get install -y -qq --no-install-recommends $depends >/dev/null 2>&1
listing >"$root/tmp/before"

# shellcheck disable=SC2086
cp $packages "$root/tmp/"
inside sh -c 'dpkg -i /tmp/*.deb' >/dev/null
inside mha-inspect --version
inside mha-inspect show /usr/share/mha-inspect/data/quickstart.json --stage output
for file in /usr/share/man/man1/mha-inspect.1.gz /usr/share/man/man1/mha-inspect-show.1.gz \
  /usr/share/bash-completion/completions/mha-inspect /usr/share/zsh/vendor-completions/_mha-inspect \
  /usr/share/fish/vendor_completions.d/mha-inspect.fish; do
  # minbase keeps man pages out unless told otherwise: then dpkg's list is what there is
  inside test -s "$file" || inside dpkg -L mha-inspect | grep -qx "$file"
done
inside bash -c '. /usr/share/bash-completion/completions/mha-inspect; COMP_WORDS=(mha-inspect expl); COMP_CWORD=1; _mha_inspect; echo "completed: $COMPREPLY"'

# The library, for a project in the clean root.
if [ -n "${WITH_LIBRARY:-}" ]; then
  inside apt-get install -y -qq --no-install-recommends g++ cmake make >/dev/null 2>&1
  inside sh -c 'cp -r /usr/share/doc/libmha-dev/examples /tmp/example; cmake -S /tmp/example -B /tmp/build >/dev/null && cmake --build /tmp/build >/dev/null && /tmp/build/attention-weights /usr/share/mha-inspect/data/quickstart.json'
fi

inside dpkg --purge mha-inspect libmha-dev >/dev/null
if [ -z "${WITH_LIBRARY:-}" ]; then
  listing >"$root/tmp/after"
  diff "$root/tmp/before" "$root/tmp/after" && echo "nothing is left behind"
fi
rm -rf "$root"/tmp/*
echo "the packages install, work and go"
