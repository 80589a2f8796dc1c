# Installs missing packages (Debian and derivatives), or lists them and exits. Sourced by app/demo.sh
# and tests/run.sh: `need_packages NAME=PROBE ...`, where PROBE is a command, a file, a header in <>,
# or a library that is loaded at run time (lib*.so.N).

have() {
  case $1 in
    "<"*) printf '#include %s\n' "$1" | c++ -std=c++20 -x c++ -E - >/dev/null 2>&1 ;;
    /*) [ -e "$1" ] ;;
    lib*.so.*)
      for library in /usr/lib/*/"$1" /usr/lib/"$1" /usr/lib64/"$1" /lib/*/"$1"; do
        [ ! -e "$library" ] || return 0
      done
      return 1
      ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

need_packages() {
  missing=
  for entry in "$@"; do
    have "${entry#*=}" || missing="$missing ${entry%%=*}"
  done
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing:$missing (Debian's names). Install them and run this again." >&2
    exit 1
  fi
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "missing:$missing. Install them as root: apt-get install$missing" >&2; exit 1; }
    as_root=sudo
  fi
  echo "installing:$missing" >&2
  # shellcheck disable=SC2086  # one word for each package
  { $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing; } >&2 ||
    { echo "could not install:$missing" >&2; exit 1; }
}

build_packages="g++=c++ cmake=cmake ninja-build=ninja libcli11-dev=<CLI/CLI.hpp> libxtensor-dev=<xtensor/xarray.hpp>
  nlohmann-json3-dev=<nlohmann/json.hpp> libfmt-dev=<fmt/format.h> zlib1g-dev=<zlib.h>
  libutf8proc-dev=<utf8proc.h> libfribidi-dev=<fribidi/fribidi.h> libonig-dev=<oniguruma.h> libpng-dev=<png.h> libstb-dev=<stb/stb_truetype.h>
  fonts-dejavu-core=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf liblapack3=liblapack.so.3"
test_packages="catch2=<catch2/catch.hpp> jq=jq groff-base=groff zsh=zsh fish=fish pkg-config=pkg-config poppler-utils=pdftotext"
mpi_packages="libopenmpi-dev=mpicxx openmpi-bin=mpirun"
# For tests of the Python module, the man pages and the API page: installed in CI; elsewhere skipped without them.
python_packages="pybind11-dev=/usr/lib/cmake/pybind11/pybind11Config.cmake python3-dev=/usr/bin/python3-config"
public_packages="$python_packages mandoc=mandoc doxygen=doxygen"
# For tests of the page in a browser: installed only in CI; elsewhere skipped without them.
web_packages="chromium=chromium nodejs=node npm=npm"
