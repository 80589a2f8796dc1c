#include <mha/render/json_text.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <limits>

using namespace mha::render;

TEST_CASE("JSON text: members, lists, numbers and words, commas in between") {
  JsonText json;
  json.object([&] {
    json.member("words", "a \"b\"\n").member("count", std::size_t{3}).member("yes", true);
    json.key("numbers").list(std::vector<double>{0.1, -2, 1e300});
    json.key("floats").list(std::vector<float>{0.1F});
    json.key("none").object([] {});
    json.key("empty").list(std::vector<std::size_t>{});
    json.key("inner").object([&] { json.member("x", std::string("y")).key("z").null(); });
    json.key("made").raw("[1,2]");
  });
  const std::string text = json.take();
  CHECK(
      text ==
      R"({"words": "a \"b\"\n", "count": 3, "yes": true, "numbers": [0.1, -2, 1e+300], )"
      R"("floats": [0.1], "none": {}, "empty": [], "inner": {"x": "y", "z": null}, "made": [1,2]})");
  CHECK(nlohmann::json::parse(text)["numbers"][2] == 1e300);
}

TEST_CASE("JSON text: what is not finite is a word, and the precision holds for every number") {
  JsonText json(3);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  json.list(std::vector<double>{infinity, -infinity, infinity - infinity, 3.14159});
  CHECK(json.take() == R"(["Infinity", "-Infinity", "NaN", 3.14])");
}

TEST_CASE("JSON text: elements on lines, also when what was written is taken meanwhile") {
  JsonText json;
  json.open_object(on_lines);
  json.member("a", std::size_t{1});
  std::string text = json.take();
  json.key("b").list(std::vector<std::size_t>{1, 2}, [&](std::size_t n) { json.value(n); },
                     {"\n  ", "\n  ", "\n"});
  json.begin_next_after("  ");
  json.member("c", false);
  json.close();
  json.end_line();
  text += json.take();
  CHECK(text == "{\n\"a\": 1,\n\"b\": [\n  1,\n  2\n],  \"c\": false\n}\n");
  json.open_object(on_lines);
  json.close();
  CHECK(json.take() == "{}");
}

TEST_CASE("JSON text: null for what is missing") {
  JsonText json;
  json.open_list();
  json.words_or_null("");
  json.words_or_null("w");
  json.value_or_null(std::optional<bool>(false));
  json.value_or_null(std::optional<std::size_t>());
  json.close();
  CHECK(json.take() == R"([null, "w", false, null])");
}
