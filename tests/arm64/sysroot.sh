#!/bin/sh
# Downloads Debian's arm64 packages that the program is built from, and unpacks them below FOLDER: headers and
# libraries for tests/arm64/toolchain.cmake. Nothing is installed, and dpkg gets no second architecture. A folder
# that is there is left as it is.
# usage: tests/arm64/sysroot.sh FOLDER
set -eu
[ $# -eq 1 ] || { echo "usage: tests/arm64/sysroot.sh FOLDER" >&2; exit 2; }
folder=$1
[ ! -e "$folder" ] || exit 0

# liblapack3 is loaded at run time. The C++ library's own headers bring those of C along.
packages="libstdc++-12-dev libcli11-dev libxtensor-dev nlohmann-json3-dev libfmt-dev zlib1g-dev libutf8proc-dev
  libfribidi-dev libonig-dev libpng-dev libstb-dev fonts-dejavu-core liblapack3 catch2"

private=$(mktemp -d) # what apt knows of arm64
trap 'rm -rf "$private"' EXIT
mkdir -p "$private/state/lists/partial" "$private/cache/archives/partial" "$private/root"
: >"$private/state/status"
arm64_apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User="$(id -un)" \
    -o Dir::State="$private/state" -o Dir::State::status="$private/state/status" -o Dir::Cache="$private/cache" \
    -o Debug::NoLocking=1 "$@"
}
arm64_apt update
# No package is installed in the private state, so those that the packages need are downloaded as well.
# shellcheck disable=SC2086  # one word a package
arm64_apt -y --no-install-recommends --download-only install $packages
for package in "$private"/cache/archives/*.deb; do
  dpkg-deb -x "$package" "$private/root"
done
for library in blas lapack; do # the links that an installation makes
  ln -s "$library/lib$library.so.3" "$private/root/usr/lib/aarch64-linux-gnu/lib$library.so.3"
done
mkdir -p "$(dirname "$folder")"
mv "$private/root" "$folder"
