// Which files are compiled together (lib/together.cmake): those that hide no name twice.

#include "support/places.hpp"
#include "support/tools.hpp"

#include <fmt/format.h>

using namespace mha::test;

namespace {

/// Whether two files that hide these are compiled together.
bool are_together(const std::string& one, const std::string& other) {
  Folder folder;
  const auto file = [](const std::string& hidden) {
    return "namespace mha {\n\nint shown() {\n  return 1;\n}\n\nnamespace {\n\n" + hidden +
           "\n\n} // namespace\n\nint shown_too() {\n  return 2;\n}\n\n} // namespace mha\n";
  };
  folder.write("a.cpp", file(one));
  folder.write("b.cpp", file(other));
  folder.write(
      "batches.cmake",
      fmt::format("cmake_minimum_required(VERSION 3.25)\ninclude(\"{}/lib/together.cmake\")\n"
                  "mha_batches(batches 2 a.cpp b.cpp)\n"
                  "message(\"${{batches}}\")\n",
                  source_folder()));
  const Result result = shell("cmake -P batches.cmake", {.folder = folder.path()});
  INFO(result.err);
  CHECK((result.err == "0;0\n" || result.err == "0;1\n"));
  return result.err == "0;0\n";
}

} // namespace

TEST_CASE("files that hide a name twice are compiled apart") {
  struct Pair {
    std::string one, other;
    bool together;
  };
  const std::string function = "std::vector<int> x(const A& a, B* b = nullptr) {\n  return {};\n}";
  for (const Pair& pair : {
           Pair{function, "int y() {\n  const int x = 3;\n  return x;\n}", true},
           Pair{function, "int x(const A& one, B* two) {\n  return 3;\n}", false},
           Pair{function, "int x(const B& a) {\n  return 3;\n}", false}, // an overload
           Pair{"struct X final : A {\n};", "struct [[nodiscard]] X {\n};", false},
           Pair{"bool operator<(A, B) {\n}", "bool operator<(A, B b) {\n}", false},
           Pair{"static_assert(sizeof(int) == 4);", "static_assert(sizeof(int) == 4);", true},
           Pair{function, "template <class T>\nstd::map<A, std::pair<T, T>>\nx(const A&, B*) {\n}",
                false},
           Pair{function, "int x(const A& a,\n      B* b) {\n  return 3;\n}", false},
           Pair{function, "constexpr int x = 3;", false},
           Pair{"constexpr int x[3]{1, 2, 3};", function, false},
           Pair{"constexpr int x[3]{1, 2, 3};", "constexpr int y = 1, x = 2; // two", false},
           Pair{"std::vector<int> x; // filled later", "const std::map<int, int> x{{1, 2}};",
                false},
           Pair{"int one = 1;", "int other = 1;", true},
           Pair{"using X = std::vector<int>;", "struct X {\n  int x = 0;\n};", false},
           Pair{"enum class X : std::uint8_t { one };", "class X : public A {\n};", false},
           Pair{"enum class X : std::uint8_t { one };", "enum class Y : std::uint8_t { one };",
                true},
           Pair{"using N::f;", "using N::f;", true},
           Pair{"", "", true},
       }) {
    INFO(pair.one + "\n\n" + pair.other);
    CHECK(are_together(pair.one, pair.other) == pair.together);
  }
}
