// What `cmake --install` puts in place, and the library as another project finds it.

#include "support/places.hpp"
#include "support/sanitizers.hpp"
#include "support/tools.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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
  /// Some of the examples, configured with these options of CMake and built as another project.
  Result build(const std::string& examples, const std::string& options) const {
    return in_place(
        "cp -r share/doc/mha-inspect/example . && sed -i 's/^foreach.*/foreach(example " +
        examples + ")/' example/CMakeLists.txt && cmake -S example -B build " +
        "-DCMAKE_PREFIX_PATH=\"$PWD\" " + options + " && cmake --build build -j 2");
  }
  /// A line of the shell that runs beside what was installed.
  Result in_place(const std::string& line) const { return shell(line, {.folder = path()}); }
};

} // namespace

TEST_CASE("install: the program, its data, pages and completions are there and work") {
  const Prefix prefix;
  const Result shown =
      prefix.in_place("bin/mha-inspect show share/mha-inspect/data/quickstart.json");
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, Contains("logsumexp"));
  for (const std::string name :
       {"share/man/man1/mha-inspect.1", "share/man/man1/mha-inspect-show.1",
        "share/man/man5/mha-inspect-formats.5", "share/man/man7/mha-inspect-stages.7",
        "share/bash-completion/completions/mha-inspect", "share/zsh/site-functions/_mha-inspect",
        "share/fish/vendor_completions.d/mha-inspect.fish", "share/doc/mha-inspect/LICENSE",
        "share/doc/mha-inspect/docs/stages.md", "share/doc/mha-inspect/example/weights.cpp"})
    CHECK(prefix.has(name));
}

TEST_CASE("install: the README and the pages find their pictures and each other") {
  const Prefix prefix;
  const Result links = prefix.in_place(
      "cd share/doc/mha-inspect && for page in README.md docs/*.md; do "
      "grep -oE '[^&]\\]\\([^)#: ]+' \"$page\" | sed 's/...//' | while read -r link; do "
      "echo \"$link\"; [ -e \"$(dirname \"$page\")/$link\" ] || echo \"$page: $link\" >&2; "
      "done; done");
  CHECK(links.err.empty());
  CHECK_THAT(links.out,
             Contains("docs/pictures/induction-heads.png") && Contains("pictures/growth.svg"));
}

TEST_CASE("install: nothing that is installed knows where it was built") {
  const Prefix prefix;
  const Result found = prefix.in_place("grep -rlF -e '" + source_folder() + "' -e '" +
                                       build_folder() + "' -e -Werror lib/*/ include share");
  CHECK(found.out.empty());
  // Installed headers include each other by the names that they have there, and nothing else.
  const Result missing = prefix.in_place(
      "grep -rhoE '#include <mha/[^>]+>' include | sort -u | sed -E 's/.*<(.*)>/\\1/' | "
      "while read -r name; do [ -f include/\"$name\" ] || echo \"$name\"; done");
  CHECK(missing.out.empty());
  CHECK(prefix.has("include/mha/mha.hpp"));
  CHECK_FALSE(prefix.has("include/mha/kernels"));
}

TEST_CASE("install: another project finds the library, and its programs work") {
  if (sanitized) return; // the library wants its sanitizer in whoever links it
  const Prefix prefix;
  const Result built =
      prefix.build("weights stages",
                   "-DCMAKE_CXX_FLAGS='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'");
  INFO(built.out << built.err);
  REQUIRE(built.code == 0);
  CHECK_THAT(prefix.in_place("build/weights").out, Contains("head 1\n"));
  const std::string induction = source_folder() + "/data/induction";
  const Result stages = prefix.in_place("build/stages '" + induction + "' 1 hidden.npz:layers.1");
  CHECK_THAT(stages.out, Contains("logsumexp"));
  CHECK(stages.code == 0);
  const Result refused = prefix.in_place("build/stages nowhere.json 0 X.npy");
  CHECK(refused.code == 1);
  CHECK(refused.err == "nowhere.json: no such file\n");

  // Another version is refused, and so is a component that there is none of.
  const Result other = prefix.in_place(
      "sed -i 's/find_package(mha 0.3/find_package(mha 7.0/' example/CMakeLists.txt && "
      "cmake -S example -B other -DCMAKE_PREFIX_PATH=\"$PWD\"");
  CHECK(other.code != 0);
  CHECK_THAT(other.err, Contains("version: 0.3"));
  const Result component = prefix.in_place(
      "sed -i 's/find_package(mha 7.0 REQUIRED/find_package(mha REQUIRED COMPONENTS cuda/' "
      "example/CMakeLists.txt && cmake -S example -B other -DCMAKE_PREFIX_PATH=\"$PWD\"");
  CHECK(component.code != 0);
  CHECK_THAT(component.err, Contains("cuda"));
}

TEST_CASE("install: the stable headers, in any company, with both compilers") {
  if (sanitized) return;
  const Prefix prefix;
  const std::string flags = " -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "
                            "-Iinclude ";
  // All together, in either order, and each as the first of a file: those that need xtensor, which
  // takes most of the time, at the head of all, the others alone.
  const Result headers = prefix.in_place("cd include && find mha -name '*.hpp' | sort");
  CHECK_THAT(headers.out, Contains("mha/mha.hpp") && !Contains("kernels"));
  const Result made = prefix.in_place(
      "(echo mha/textbook.hpp; cd include && find mha -name '*.hpp' ! -name textbook.hpp | sort) | "
      "sed 's/.*/#include <&>/' >all.cpp; tac all.cpp >reversed.cpp; head -n 1 -q *.cpp; "
      "for header in $(cd include && find mha -name '*.hpp' ! -name xtensor.hpp ! -name "
      "textbook.hpp ! -path '*/textbook/*'); do echo \"#include <$header>\" >$(echo $header | "
      "tr / _).cpp; done");
  CHECK(made.out == "#include <mha/textbook.hpp>\n#include <mha/xtensor.hpp>\n");
  const Result both = prefix.in_place("c++" + flags + "-fsyntax-only *.cpp");
  INFO(both.err);
  CHECK(both.code == 0);
  if (!have_tool("clang++")) return;
  // Read once, for all examples.
  const Result clang =
      prefix.in_place("clang++" + flags + "-x c++-header all.cpp -o all.pch && clang++" + flags +
                      "-fsyntax-only -include-pch all.pch share/doc/mha-inspect/example/*.cpp");
  INFO(clang.err);
  CHECK(clang.code == 0);
}

TEST_CASE("install: the shared library shows what is declared stable, and is found by name") {
  if (sanitized) return;
  const Prefix prefix;
  const Result found = prefix.in_place("ls lib/libmha.so lib/*/libmha.so 2>/dev/null");
  if (found.out.empty()) {
    WARN("skipped: built without MHA_SHARED");
    return;
  }
  const std::string library = found.out.substr(0, found.out.size() - 1);
  const Result symbols = prefix.in_place("nm -DC --defined-only " + library);
  CHECK_THAT(symbols.out, Contains("mha::run(mha::Layer const&)") && Contains("mha::Layer::with("));
  for (const char* inner : {"mha::io::", "mha::naming::", "mha::render::", "mha::make_plan(",
                            "mha::CauseSearch", "PackedMatrix"})
    CHECK_THAT(symbols.out, !Contains(inner));
  const Result built = prefix.build("stages", "-DBUILD_SHARED_LIBS=ON");
  INFO(built.err);
  REQUIRE(built.code == 0);
  CHECK_THAT(prefix.in_place("ldd build/stages").out, Contains("libmha.so.0.3"));
  // Errors cross the border.
  CHECK(prefix.in_place("build/stages nowhere.json 0 X.npy").err == "nowhere.json: no such file\n");
}

TEST_CASE("install: FetchContent and add_subdirectory give mha::mha and nothing else") {
  if (sanitized) return;
  const Folder project;
  project.write("main.cpp",
                "#include <mha/mha.hpp>\nint main() { return mha::stages().empty(); }\n");
  project.write("CMakeLists.txt",
                "cmake_minimum_required(VERSION 3.25)\nproject(host CXX)\ninclude(FetchContent)\n"
                "FetchContent_Declare(mha SOURCE_DIR \"" +
                    source_folder() +
                    "\")\nFetchContent_MakeAvailable(mha)\nadd_executable(host main.cpp)\n"
                    "target_link_libraries(host PRIVATE mha::mha)\n"
                    "if(TARGET unit-tests OR TARGET mha-inspect OR CPACK_PACKAGE_NAME)\n"
                    "  message(FATAL_ERROR \"more than the library\")\nendif()\n");
  const Result configured = shell("cmake -S . -B build -G Ninja --log-level=WARNING && ninja -C "
                                  "build CMakeFiles/host.dir/main.cpp.o "
                                  "&& ninja -C build -t targets all | grep -c 'install' || true",
                                  {.folder = project.path()});
  INFO(configured.out << configured.err);
  CHECK(configured.code == 0);
  CHECK(configured.err.empty());
  CHECK(project.has("build/CMakeFiles/host.dir/main.cpp.o"));
}

TEST_CASE("install: below another project numbers alone are built, whatever it compiles with") {
  if (sanitized) return;
  const Folder project;
  // A host with targets of the same kind as ours, and flags that would change bits.
  project.write("CMakeLists.txt", "set(mha \"" + source_folder() + "\")" + R"cmake(
cmake_minimum_required(VERSION 3.25)
project(host CXX)
set(CMAKE_CXX_FLAGS "-Ofast -ffast-math -Werror")
add_compile_options(-funsafe-math-optimizations)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_DISABLE_FIND_PACKAGE_PNG ON)
foreach(name numbers words options maps reports studies share faults unit-tests objects)
  add_custom_target(${name})
endforeach()
add_subdirectory(${mha} mha)
foreach(folder ${mha} ${mha}/lib)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    if(NOT target MATCHES "^mha(-|$)")
      message(FATAL_ERROR "${target} has no prefix")
    endif()
  endforeach()
endforeach()
get_property(variables DIRECTORY PROPERTY CACHE_VARIABLES)
foreach(variable IN LISTS variables)
  message(STATUS "cache ${variable}")
endforeach()
)cmake");
  const Result configured = shell("cmake -S . -B build -G Ninja", {.folder = project.path()});
  INFO(configured.err);
  REQUIRE(configured.code == 0);
  for (const char* variable :
       {"cache STB", "cache UNITY", "cache BUILD_SHARED_LIBS", "cache BUILD_TESTING"})
    CHECK_THAT(configured.out, !Contains(variable));
  const nlohmann::json commands =
      nlohmann::json::parse(project.read("build/compile_commands.json"));
  std::size_t objects = 0;
  for (const nlohmann::json& entry : commands) {
    const std::string command = entry.at("command"), file = entry.at("file");
    if (command.find("fno-fast-math") == std::string::npos) continue;
    ++objects;
    INFO(command);
    CHECK(command.rfind(" -fno-fast-math") > command.rfind(" -ffast-math"));
    CHECK(command.rfind(" -fno-unsafe-math-optimizations") >
          command.rfind(" -funsafe-math-optimizations"));
    CHECK(command.rfind(" -ffp-contract=off") > command.rfind(" -ffast-math"));
    for (const char* folder : {"render", "report", "explain", "lint"})
      CHECK_THAT(file, !Contains(fmt::format("lib/{}/", folder)) &&
                           !Contains(fmt::format("unity_{}", folder)));
  }
  CHECK((objects > 20 && objects < 90)); // folders are compiled together
}

TEST_CASE("install: without MHA_RENDER neither libpng nor a font nor the program is asked for") {
  if (sanitized) return;
  const Folder build;
  const Result configured =
      shell("cmake -S '" + source_folder() +
                "' -B . -G Ninja -DMHA_RENDER=OFF -DCMAKE_DISABLE_FIND_PACKAGE_PNG=ON && "
                "ninja -t commands mha && ninja -t targets all",
            {.folder = build.path()});
  INFO(configured.err);
  CHECK(configured.code == 0);
  CHECK_THAT(configured.out, Contains("libmha.a") && !Contains("mha-inspect.dir") &&
                                 !Contains("libpng") && !Contains("font_data") &&
                                 !Contains("fribidi"));
}

TEST_CASE("install: an older C++ is named where the headers are read") {
  if (sanitized) return;
  for (const char* compiler : {"c++", "clang++"}) {
    if (!have_tool(compiler)) continue;
    const Result result =
        shell(fmt::format("echo '#include <mha/mha.hpp>' | {} -std=c++17 -I'{}/lib/include' "
                          "-fsyntax-only -x c++ - 2>&1 | grep -m1 error",
                          compiler, build_folder()));
    INFO(compiler);
    CHECK_THAT(result.out, Contains("mha is written in C++20"));
  }
}

TEST_CASE("install: pkg-config finds it, too") {
  if (sanitized || !have_tool("pkg-config")) return;
  const Prefix prefix;
  const Result built = prefix.in_place(
      "export PKG_CONFIG_PATH=\"$PWD/lib/pkgconfig:$(echo \"$PWD\"/lib/*/pkgconfig)\" && "
      "printf '#include <mha/mha.hpp>\\nint main(int, char** words) { return "
      "mha::run(mha::load(words[1])).stages().empty(); }' >main.cpp && "
      "c++ -std=c++20 main.cpp -o main $(pkg-config --static --cflags --libs mha) && "
      "LD_LIBRARY_PATH=$(dirname $(ls lib/libmha.a lib/*/libmha.a 2>/dev/null)) "
      "./main share/mha-inspect/data/quickstart.json");
  INFO(built.err);
  CHECK(built.code == 0);
  CHECK(prefix
            .in_place(
                "pkg-config --modversion \"$(echo lib*/pkgconfig/mha.pc lib/*/pkgconfig/mha.pc | "
                "tr ' ' '\\n' | grep -v '[*]' | head -1)\"")
            .out == run({"--version"}).out.substr(12));
}
