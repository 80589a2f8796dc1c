// Queries, keys and values whose files do not say their axes: which order is read, and what is
// reported.

#include "support/run.hpp"
#include <mha/load/load.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace mha;
using Catch::Contains;

namespace {

/// A tensor of a file: its name and shape.
struct Saved {
  std::string name;
  Shape shape;
};

std::string json_of(const std::vector<Saved>& tensors) {
  std::string text;
  for (const auto& [name, shape] : tensors) {
    std::string numbers;
    const bool mask = name == "attention_mask";
    for (std::size_t i = 0; i < count_of(shape); ++i)
      numbers += fmt::format("{}{}", i == 0 ? "" : ",",
                             mask ? 1.0 : static_cast<double>(i * 37 % 101) / 101);
    text += fmt::format(R"({}"{}": {{"shape": [{}], "dtype": "float32", "data": [{}]}})",
                        text.empty() ? "" : ", ", name, fmt::join(shape, ","), numbers);
  }
  return "{" + text + "}";
}

struct Read {
  LoadedLayer layer;
  std::string notes;
};

/// The layer of a file, by plain name or by bindings without axes.
Read read(const std::vector<Saved>& tensors, bool bound,
          std::vector<std::pair<std::string, std::string>> settings = {}) {
  const test::Folder folder;
  const std::string path = folder.write("q.json", json_of(tensors));
  Request request;
  if (bound)
    for (const Saved& one : tensors) request.sources.push_back(one.name + "=" + path);
  else
    request.sources = {path};
  request.settings = std::move(settings);
  Read result{Sources(std::move(request)).load(""), ""};
  for (const Note& note : result.layer.notes) result.notes += note.text + "\n";
  return result;
}

/// What a file holds, how it is read, and what is reported.
struct Case {
  const char* what;
  std::vector<Saved> tensors;
  std::size_t H, H_kv, T, S;
  const char* note;  ///< "" = none about the order
  bool open = false; ///< the other order is offered
  std::vector<std::pair<std::string, std::string>> settings{};
};

const std::vector<Case>& cases() {
  static const std::vector<Case> table{
      {"heads first, more tokens",
       {{"q", {2, 3, 7, 5}}, {"k", {2, 3, 7, 5}}, {"v", {2, 3, 7, 4}}},
       3,
       3,
       7,
       7,
       "",
       true},
      {"heads first, grouped",
       {{"q", {2, 6, 7, 5}}, {"k", {2, 3, 7, 5}}, {"v", {2, 3, 7, 4}}},
       6,
       3,
       7,
       7,
       "",
       true},
      {"heads first, cross attention of more keys",
       {{"q", {2, 3, 5, 8}}, {"k", {2, 3, 11, 8}}, {"v", {2, 3, 11, 4}}},
       3,
       3,
       5,
       11,
       ""},
      {"tokens first by log-sum-exps",
       {{"q", {2, 7, 3, 5}}, {"k", {2, 7, 3, 5}}, {"v", {2, 7, 3, 4}}, {"lse", {2, 3, 7}}},
       3,
       3,
       7,
       7,
       "read tokens first, @BTHD"},
      {"tokens first by weights",
       {{"q", {2, 7, 3, 5}}, {"k", {2, 9, 3, 5}}, {"v", {2, 9, 3, 4}}, {"weights", {2, 3, 7, 9}}},
       3,
       3,
       7,
       9,
       "read tokens first"},
      {"tokens first by a mask",
       {{"q", {2, 7, 3, 5}}, {"k", {2, 9, 3, 5}}, {"v", {2, 9, 3, 4}}, {"mask", {7, 9}}},
       3,
       3,
       7,
       9,
       "read tokens first"},
      {"tokens first by a padding mask",
       {{"q", {2, 7, 3, 5}}, {"k", {2, 7, 3, 5}}, {"v", {2, 7, 3, 4}}, {"attention_mask", {2, 7}}},
       3,
       3,
       7,
       7,
       "read tokens first"},
      {"tokens first by learned sinks",
       {{"q", {2, 7, 3, 5}}, {"k", {2, 7, 3, 5}}, {"v", {2, 7, 3, 4}}, {"sinks", {3}}},
       3,
       3,
       7,
       7,
       "read tokens first"},
      {"tokens first by the number of heads",
       {{"q", {2, 7, 3, 5}}, {"k", {2, 7, 3, 5}}, {"v", {2, 7, 3, 4}}},
       3,
       3,
       7,
       7,
       "read tokens first",
       false,
       {{"num_heads", "3"}}},
      {"tokens first by key/value heads",
       {{"q", {2, 9, 6, 5}}, {"k", {2, 9, 2, 5}}, {"v", {2, 9, 2, 4}}},
       6,
       2,
       9,
       9,
       "6 heads share 2 key/value heads",
       true},
      {"tokens first, as heads do not divide",
       {{"q", {2, 9, 6, 5}}, {"k", {2, 7, 2, 5}}, {"v", {2, 7, 2, 4}}},
       6,
       2,
       9,
       7,
       "9 heads on 7 key/value heads"},
      {"tokens first, causal, with fewer tokens than heads",
       {{"q", {2, 4, 6, 5}}, {"k", {2, 4, 2, 5}}, {"v", {2, 4, 2, 4}}},
       6,
       2,
       4,
       4,
       "read tokens first",
       true,
       {{"causal", "true"}}},
      {"without a batch",
       {{"q", {9, 6, 5}}, {"k", {9, 2, 5}}, {"v", {9, 2, 4}}},
       6,
       2,
       9,
       9,
       "read tokens first",
       true},
      {"as many heads as key/value heads, more than tokens",
       {{"q", {2, 9, 4, 5}}, {"k", {2, 9, 4, 5}}, {"v", {2, 9, 4, 4}}},
       9,
       9,
       4,
       4,
       "is read heads first: 9 heads, 4 tokens; if tokens come first, write q=",
       true},
      {"as many heads as tokens",
       {{"q", {2, 4, 4, 5}}, {"k", {2, 4, 4, 5}}, {"v", {2, 4, 4, 4}}},
       4,
       4,
       4,
       4,
       "is read heads first: 4 heads, 4 tokens",
       true},
      {"few tokens of many heads that share, or cross attention",
       {{"q", {2, 4, 6, 5}}, {"k", {2, 4, 2, 5}}, {"v", {2, 4, 2, 4}}},
       4,
       4,
       6,
       2,
       "is read heads first: 4 heads, 6 tokens",
       true},
  };
  return table;
}

} // namespace

TEST_CASE("the order of heads and tokens is told by all that a layer's files hold") {
  for (const Case& one : cases())
    for (const bool bound : {false, true}) {
      INFO(one.what << (bound ? ", bound" : ", in a file"));
      const Read found = read(one.tensors, bound, one.settings);
      const Dims& dims = found.layer.layer.dims;
      CHECK(std::vector{dims.H, dims.H_kv, dims.T, dims.S} ==
            std::vector{one.H, one.H_kv, one.T, one.S});
      if (std::string(one.note).empty())
        CHECK_THAT(found.notes, !Contains("tokens"));
      else
        CHECK_THAT(found.notes, Contains(one.note));
      CHECK(found.layer.other_order.empty() != one.open);
    }
}

TEST_CASE("tokens first gives the numbers that the axes give when they are said") {
  const test::Folder folder;
  const std::string path = folder.write(
      "q.json", json_of({{"q", {2, 9, 6, 5}}, {"k", {2, 9, 2, 5}}, {"v", {2, 9, 2, 4}}}));
  const auto layer_of = [&](const std::string& axes) {
    Request request;
    for (const char* name : {"q", "k", "v"})
      request.sources.push_back(fmt::format("{}={}{}", name, path, axes));
    return Sources(std::move(request)).load("");
  };
  const LoadedLayer found = layer_of(""), said = layer_of("@BTHD");
  for (const Stage stage : {Stage::q, Stage::k, Stage::v}) {
    const Tensor &a = found.layer.given[index_of(stage)], &b = said.layer.given[index_of(stage)];
    REQUIRE(a.shape() == b.shape());
    for (std::size_t i = 0; i < a.count(); ++i) REQUIRE(value_at(a, i) == value_at(b, i));
  }
  CHECK(said.other_order.empty());
  CHECK(said.notes.empty());
  CHECK(found.other_order == std::vector<std::string>{fmt::format("q={}@BHTD", path),
                                                      fmt::format("k={}@BHTD", path),
                                                      fmt::format("v={}@BHTD", path)});
}

TEST_CASE("an output of head width beside q, k and v is what the heads give") {
  for (const bool tokens_first : {false, true}) {
    const Shape out = tokens_first ? Shape{2, 9, 6, 4} : Shape{2, 6, 9, 4};
    const Read found =
        read({{"q", {2, 9, 6, 5}}, {"k", {2, 9, 2, 5}}, {"v", {2, 9, 2, 4}}, {"out", out}}, false);
    CHECK(found.layer.layer.dims.H == 6);
    CHECK_THAT(found.notes, Contains("head_out in the files: results, computed again"));
  }
}
