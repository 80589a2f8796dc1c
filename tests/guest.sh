#!/bin/sh
# The library under ThreadSanitizer, as a guest of other programs: docs/example and the tests of
# <mha/mha.hpp>, misuse included. Takes minutes; not part of CI, whose `asan` runs the same under
# AddressSanitizer. SANITIZE=address,undefined does so without the rest of CI's build; BUILD=DIR keeps
# the build elsewhere.
set -eu
cd "$(dirname "$0")/.."
sanitizer=${SANITIZE:-thread}
build=${BUILD:-build/guest-$sanitizer}
case $sanitizer in
thread) watched=-D__SANITIZE_THREAD__ flags="-fsanitize=thread -O1 -g1" ;;
*) watched=-DMHA_SANITIZE flags="-fsanitize=$sanitizer -fno-sanitize-recover=undefined -O1 -g1" ;;
esac
cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=None -DCMAKE_UNITY_BUILD=ON \
  -DCMAKE_CXX_FLAGS="$flags" -DMHA_RENDER=OFF -DMHA_PYTHON=OFF -DMHA_INSTALL=OFF >/dev/null
cmake --build "$build" --target mha --parallel "$(nproc)"
includes="-std=c++20 -I$build/lib/include -Itests -DFMT_SHARED"
libraries="$build/lib/libmha.a -lfmt -lz -lutf8proc -lonig -ldl -pthread"
places="-DMHA_SOURCE_DIR=\"$PWD\" -DMHA_PROGRAM=\"\" -DMHA_BUILD_DIR=\"$build\" -DMHA_FAULTS=\"\" -DMHA_STARTER=\"\""
export TSAN_OPTIONS=halt_on_error=1
for example in weights stages entropy patch; do
  # shellcheck disable=SC2086  # words
  clang++ $flags $includes "docs/example/$example.cpp" -o "$build/$example" $libraries
  arguments="data/induction 1 hidden.npz:layers.1"
  [ "$example" != weights ] || arguments=
  # shellcheck disable=SC2086
  "$build/$example" $arguments >/dev/null
  [ "$example" = weights ] || ! "$build/$example" data/induction 9 hidden.npz:layers.1 2>/dev/null
done
text='To be, or not to be'
for example in model ablate steer probe serve; do
  # shellcheck disable=SC2086  # words
  clang++ $flags $includes "docs/example/$example.cpp" -o "$build/$example" $libraries
done
"$build/model" data/bard-gpt2 "$text" >/dev/null
"$build/ablate" data/bard-gpt2 "$text" >/dev/null
"$build/steer" data/bard-gpt2 "$text" "The king is dead" >/dev/null
"$build/probe" data/bard-gpt2 "$text" "The king is dead" >/dev/null
printf 'To be\nThe king\nMy lord\nExeunt\n' | "$build/serve" data/bard-gpt2 >/dev/null
echo "examples: nothing found"
# shellcheck disable=SC2086
for source in tests/main.cpp tests/support/places.cpp tests/support/run.cpp tests/unit/api/*.cpp; do
  clang++ $flags $includes $places $watched -c "$source" -o "$build/$(basename "$source").o"
done
# shellcheck disable=SC2086
clang++ $flags "$build"/*.cpp.o -o "$build/api-tests" $libraries
"$build/api-tests"
