// What `cmake --install` puts in place, and the library as another project finds it.

#include "support/places.hpp"
#include "support/sanitizers.hpp"
#include "support/tools.hpp"

#include <sstream>

using namespace mha::test;
using Catch::Contains;

namespace {

/// A prefix with everything installed.
struct Prefix : Folder {
  Prefix() {
    const Result result =
        shell("cmake --install '" + build_folder() + "' --prefix '" + path() + "' >/dev/null");
    INFO(result.err);
    REQUIRE(result.code == 0);
  }
  /// A line of the shell that runs beside what was installed.
  Result in_place(const std::string& line) const { return shell(line, {.folder = path()}); }
};

const std::string weights = "head 0\n 0.3333 0.3333 0.3333\n 0.5000 0.2500 0.2500\n"
                            " 0.1667 0.6667 0.1667\n"
                            "head 1\n 0.4000 0.2000 0.4000\n 0.2000 0.4000 0.4000\n"
                            " 0.2500 0.2500 0.5000\n";

} // namespace

TEST_CASE("install: the program, its data, pages and completions are there and work") {
  const Prefix prefix;
  const Result shown =
      prefix.in_place("bin/mha-inspect show share/mha-inspect/data/quickstart.json");
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, Contains("logsumexp"));
  for (const std::string name :
       {"share/man/man1/mha-inspect.1", "share/man/man1/mha-inspect-show.1",
        "share/bash-completion/completions/mha-inspect", "share/zsh/site-functions/_mha-inspect",
        "share/fish/vendor_completions.d/mha-inspect.fish", "share/doc/mha-inspect/LICENSE",
        "share/doc/mha-inspect/docs/stages.md", "share/doc/mha-inspect/example/main.cpp"})
    CHECK(prefix.has(name));
}

TEST_CASE("install: nothing that is installed knows where it was built") {
  const Prefix prefix;
  const Result found = prefix.in_place("grep -rlF -e '" + source_folder() + "' -e '" +
                                       build_folder() + "' -e -Werror lib/*/ include share");
  CHECK(found.out.empty());
  // Installed headers include each other by the names that they have there, and nothing else.
  const Result missing =
      prefix.in_place("grep -rhoE '#include <mha/[^>]+>' include | sort -u | sed -E 's/.*<(.*)>/\\1/' | "
                      "while read -r name; do [ -f include/\"$name\" ] || echo \"$name\"; done");
  CHECK(missing.out.empty());
  CHECK(prefix.has("include/mha/forward/attention.hpp"));
  CHECK_FALSE(prefix.has("include/mha/kernels"));
}

TEST_CASE("install: another project finds the library and prints attention weights") {
  if (sanitized) return; // the library wants its sanitizer in whoever links it
  const Prefix prefix;
  const Result built = prefix.in_place(
      "cmake -S share/doc/mha-inspect/example -B build -DCMAKE_PREFIX_PATH=\"$PWD\" "
      "-DCMAKE_BUILD_TYPE=Debug && cmake --build build");
  INFO(built.out << built.err);
  REQUIRE(built.code == 0);
  const Result result =
      prefix.in_place("build/attention-weights share/mha-inspect/data/quickstart.json");
  CHECK(result.out == weights);
  CHECK(result.code == 0);
  const Result refused = prefix.in_place("build/attention-weights nowhere.json");
  CHECK(refused.code == 1);
  CHECK(refused.err == "nowhere.json: no such file\n");
  const Result other = prefix.in_place(
      "sed -i 's/find_package(mha 0.1/find_package(mha 7.0/' "
      "share/doc/mha-inspect/example/CMakeLists.txt && cmake -S share/doc/mha-inspect/example "
      "-B other -DCMAKE_PREFIX_PATH=\"$PWD\"");
  CHECK(other.code != 0);
  CHECK_THAT(other.err, Contains("version: 0.1"));
}

TEST_CASE("install: pkg-config finds it, too") {
  if (sanitized || !have_tool("pkg-config")) return;
  const Prefix prefix;
  const Result built = prefix.in_place(
      "export PKG_CONFIG_PATH=\"$PWD/lib/pkgconfig:$(echo \"$PWD\"/lib/*/pkgconfig)\" && "
      "c++ -std=c++20 share/doc/mha-inspect/example/main.cpp -o weights "
      "$(pkg-config --cflags --libs mha) && ./weights share/mha-inspect/data/quickstart.json");
  INFO(built.err);
  CHECK(built.out == weights);
  CHECK(prefix
            .in_place(
                "pkg-config --modversion \"$(echo lib*/pkgconfig/mha.pc lib/*/pkgconfig/mha.pc | "
                "tr ' ' '\\n' | grep -v '[*]' | head -1)\"")
            .out == run({"--version"}).out.substr(12));
}
