// --patch of X and of weights: the same numbers as a file in which they are changed by hand.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

/// Numbers that are all different.
json matrix(std::size_t rows, std::size_t columns, double start) {
  json list = json::array();
  for (std::size_t i = 0; i < rows; ++i) {
    list.push_back(json::array());
    for (std::size_t j = 0; j < columns; ++j)
      list.back().push_back(start + 0.25 * static_cast<double>(i) -
                            0.125 * static_cast<double>((3 * j + i * i) % 7));
  }
  return list;
}

/// 3 tokens, 4 wide; 2 heads whose keys are 3 wide, values 2; an output of 5 numbers.
json layer() {
  return {{"num_heads", 2},
          {"X", matrix(3, 4, 0.5)},
          {"W_q", matrix(4, 6, -0.25)},
          {"W_k", matrix(4, 6, 1)},
          {"W_v", matrix(4, 4, 0.75)},
          {"W_o", matrix(4, 5, -1)},
          {"b_q", matrix(1, 6, 2)[0]},
          {"b_o", matrix(1, 5, 3)[0]}};
}

/// All stages in all digits.
std::string numbers_of(const Folder& folder, const json& of, std::vector<std::string> words = {}) {
  words.insert(words.begin(), {"show", folder.write("layer.json", of.dump()), "-s", "all", "-f",
                               "json", "--quiet"});
  const Result result = run(words);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return result.out;
}

std::string refusal(const Folder& folder, const std::string& patch,
                    std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"show", folder.write("layer.json", layer().dump()), "--patch", patch});
  const Result result = run(more);
  INFO(patch << ": " << result.err);
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
  return result.err;
}

} // namespace

TEST_CASE("a patch of a tensor is the layer whose file has those numbers") {
  struct Case {
    std::string patch;
    void (*edit)(json& layer);
  };
  const Case cases[]{
      {"X[*,1,0] = 5", [](json& l) { l["X"][1][0] = 5; }},
      {"X[*,-1,-1] += 0.5", [](json& l) { l["X"][2][3] = l["X"][2][3].get<double>() + 0.5; }},
      {"X[*,0:2,2] -= 1",
       [](json& l) {
         for (const std::size_t t : {0U, 1U}) l["X"][t][2] = l["X"][t][2].get<double>() - 1;
       }},
      {"X[*,2] = zero",
       [](json& l) {
         l["X"][2] = {0, 0, 0, 0};
       }},
      {"X *= -2",
       [](json& l) {
         for (json& row : l["X"])
           for (json& x : row) x = -2 * x.get<double>();
       }},
      {"W_q[1,2,0] = 7", [](json& l) { l["W_q"][2][3] = 7; }},
      {"W_q[*,3,1] *= 2",
       [](json& l) {
         for (std::size_t c : {1U, 4U}) l["W_q"][3][c] = 2 * l["W_q"][3][c].get<double>();
       }},
      {"W_k[0] = 0",
       [](json& l) {
         for (json& row : l["W_k"])
           for (std::size_t c : {0U, 1U, 2U}) row[c] = 0;
       }},
      {"W_v[-1,*,1] = 4",
       [](json& l) {
         for (json& row : l["W_v"]) row[3] = 4;
       }},
      {"W_o[1,0,[2,4]] = 9", [](json& l) { l["W_o"][2][2] = 9, l["W_o"][2][4] = 9; }},
      {"b_q[1,2] = -3", [](json& l) { l["b_q"][5] = -3; }},
      {"b_o[*,1-3] = 1",
       [](json& l) {
         for (std::size_t c : {1U, 2U, 3U}) l["b_o"][c] = 1;
       }},
  };
  const Folder folder;
  const std::string plain = numbers_of(folder, layer());
  for (const Case& one : cases) {
    INFO(one.patch);
    json edited = layer();
    one.edit(edited);
    const std::string by_hand = numbers_of(folder, edited);
    CHECK(by_hand != plain);
    CHECK(numbers_of(folder, layer(), {"--patch", one.patch}) == by_hand);
  }
  // Several apply in their order, beside one of a stage.
  json edited = layer();
  edited["X"][1][0] = 20;
  CHECK(numbers_of(folder, layer(),
                   {"--patch", "X[*,1,0] = 5", "--patch", "X[*,1,0] *= 4", "--patch",
                    "weights[0] = 0.25"}) ==
        numbers_of(folder, edited, {"--patch", "weights[0] = 0.25"}));
}

TEST_CASE("a patch of a tensor takes numbers of a file, and one item of a batch by its text") {
  const Folder folder;
  folder.write("row.json", R"({"row": [1, 2, 3, 4]})");
  json edited = layer();
  edited["X"][1] = {1, 2, 3, 4};
  CHECK(numbers_of(folder, layer(), {"--patch", "X[*,1] = " + folder.path("row.json") + ":row"}) ==
        numbers_of(folder, edited));
  json labelled = layer();
  labelled["tokens"] = {"the", "cat", "sat"};
  json changed = labelled;
  changed["X"][1][2] = 6;
  CHECK(numbers_of(folder, labelled, {"--patch", "X[*,'cat',2] = 6"}) ==
        numbers_of(folder, changed));
  json batch = layer(), other = layer();
  batch["X"] = {matrix(3, 4, 0.5), matrix(3, 4, 2)};
  other["X"] = batch["X"];
  for (json& item : other["X"]) item[1][0] = 5;
  CHECK(numbers_of(folder, batch, {"--patch", "X[*,1,0] = 5"}) == numbers_of(folder, other));
}

TEST_CASE("a patch of a tensor that does not fit is refused, with what it has") {
  const Folder folder;
  CHECK_THAT(refusal(folder, "X[*,3,0] = 5"), Contains("X[*,3,0] = 5") && Contains("3 tokens"));
  CHECK_THAT(refusal(folder, "X[*,0,-5] = 5"), Contains("4 columns"));
  CHECK_THAT(refusal(folder, "W_q[2] = 5"), Contains("2 heads"));
  CHECK_THAT(refusal(folder, "W_q[0,4] = 5"), Contains("4 rows"));
  CHECK_THAT(refusal(folder, "W_q[0,0,3] = 5"), Contains("3 columns"));
  CHECK_THAT(refusal(folder, "X[1,0] = 5"),
             Contains("X has no heads; its first axis is *: X[*,1]"));
  CHECK_THAT(refusal(folder, "X[*,0,0,0] = 5"), Contains("X has 3 axes: [heads,rows,columns]"));
  CHECK_THAT(refusal(folder, "b_q[0,0,0] = 5"), Contains("b_q has 2 axes: [heads,columns]"));
  CHECK_THAT(refusal(folder, "b_v[0] = 5"), Contains("this layer has no b_v"));
  CHECK_THAT(refusal(folder, "mask[0] = 5"), Contains("mask is not stored as given"));
  CHECK_THAT(refusal(folder, "X = mean"), Contains("mean is of stages; a number, zero or a file"));
  CHECK_THAT(refusal(folder, "X = from 'a'"), Contains("from 'a' is of stages"));
  folder.write("row.json", R"({"row": [1, 2, 3]})");
  CHECK_THAT(refusal(folder, "X[*,1] = " + folder.path("row.json") + ":row"),
             Contains("the value is (3,), the place (1, 4)"));
  CHECK_THAT(refusal(folder, "W_o[0] = 0", {"-s", "weights", "--quiet"}),
             Contains("nothing that was computed reads W_o"));
  const Result columns = run({"show", "data/columns.json", "--patch", "X[*,1,0] = 5"});
  CHECK_THAT(columns.err, Contains("patches count tokens as rows; the layer's tokens are columns"));
  CHECK_THAT(run({"show", folder.path("layer.json"), "--patch", "X[*,1,0] = 5"}).out,
             Contains("patched: X[*,1,0] = 5"));
}

TEST_CASE("a patch of a whole model's weight changes that layer, and its stream is a stage") {
  const std::vector<std::string> model{"data/bard-gpt2", "--text", "To be", "-f",
                                       "json",           "--quiet"};
  const auto shown = [&](std::vector<std::string> more) {
    more.insert(more.begin(), model.begin(), model.end());
    more.insert(more.begin(), "show");
    return run(more);
  };
  // Without W_o and b_o a layer adds nothing.
  const Result zero = shown({"-s", "output", "--layer", "1", "--patch", "layers.1.W_o = 0",
                             "--patch", "layers.1.b_o = 0"}),
               given = shown({"-s", "output", "--layer", "1", "--patch", "layers.1.output = 0"});
  REQUIRE(zero.code == 0);
  CHECK(zero.out == given.out);
  const std::string plain = shown({"-s", "weights", "--layer", "0"}).out;
  CHECK(shown({"-s", "weights", "--layer", "0", "--patch", "layers.0.W_q[1] = 0"}).out != plain);
  CHECK_THAT(shown({"--layer", "1", "--patch", "layers.1.X = 0"}).err,
             Contains("X is the stream that enters the layer: patch resid_pre"));
  CHECK_THAT(shown({"--layer", "0", "-s", "weights", "--patch", "layers.9.W_q = 0"}).err,
             Contains("there is no layer 9"));
}
