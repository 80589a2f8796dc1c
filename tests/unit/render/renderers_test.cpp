#include <mha/render/renderers.hpp>

#include <catch2/catch.hpp>

#include <limits>

using namespace mha;
using namespace mha::render;

namespace {

/// Weights of 2 heads, 2 queries, 3 keys.
Value weights() {
  Value value;
  value.layer = std::string("1");
  value.stage = "weights", value.formula = "exp / row_sum";
  const std::vector<float> numbers{1, 0, 0, 0.25f, 0.75f, 0, 0.5f, 0.5f, 0, 0.125f, 0.125f, 0.75f};
  value.numbers = Tensor::of<float>({2, 2, 3}, numbers);
  value.head = {Axis::head, {0, 1}, false, {}};
  value.row = {Axis::query, {4, 5}, false, {"the", "cat"}};
  value.col = {Axis::key, {0, 1, 2}, false, {"a", "日本語", "long label here"}};
  return value;
}

Value row_max() {
  Value value;
  value.stage = "row_max", value.formula = "max(masked)";
  const std::vector<double> numbers{1.5, -std::numeric_limits<double>::infinity(), 3, 4};
  value.numbers = Tensor::of<double>({2, 2}, numbers);
  value.head = {Axis::head, {0, 3}, false, {}};
  value.row = {Axis::query, {7, 8}, false, {}};
  return value;
}

std::string rendered(std::string_view form, const std::vector<Value>& values,
                     render::Options options = {}) {
  std::string out;
  for (const render::Form& candidate : forms()) {
    if (candidate.name != form) continue;
    const auto renderer = candidate.make(options, [&](std::string_view text) { out += text; });
    for (const Value& value : values) renderer->add(value);
    renderer->finish();
  }
  return out;
}

} // namespace

TEST_CASE("a table has a title, headed matrices, positions and labels") {
  CHECK(rendered("table", {weights()}) == R"(weights · 2 × 2 × 3 · exp / row_sum

head 0
                   0           1           2
                 'a'    '日本語'  'long lab…
4  'the'      1.0000           0           0
5  'cat'      0.2500      0.7500           0

head 1
                   0           1           2
                 'a'    '日本語'  'long lab…
4  'the'      0.5000      0.5000           0
5  'cat'      0.1250      0.1250      0.7500
)");
}

TEST_CASE("the heads of row values stand side by side in a table") {
  CHECK(rendered("table", {row_max()}) == R"(row_max · 2 × 2 · max(masked)

head      0      3
7     1.500  3.000
8      -inf  4.000
)");
}

TEST_CASE("a table wraps its columns into groups that fit") {
  Value value = weights();
  value.row.labels.clear();
  value.col.labels.clear();
  value.head = {Axis::head, {1}, true, {}};
  const std::vector<float> numbers{0.5f, 0.5f, 0, 0.125f, 0.125f, 0.75f};
  value.numbers = Tensor::of<float>({2, 3}, numbers);
  render::Options options;
  options.text_style.width = 20;
  CHECK(rendered("table", {value}, options) == R"(weights · head 1
  · 2 × 3
  · exp / row_sum

        0       1
4  0.5000  0.5000
5  0.1250  0.1250

        2
4       0
5  0.7500
)");
}

TEST_CASE("with colour, zeros and −inf are dim") {
  render::Options options;
  options.text_style.color = true;
  CHECK(rendered("table", {row_max()}, options).find("\x1b[2m   -inf\x1b[0m  4.000") !=
        std::string::npos);
}

TEST_CASE("csv") {
  CHECK(rendered("csv", {row_max()}) == "layer,stage,batch,head,row,col,value\n"
                                        ",row_max,,0,7,,1.5\n,row_max,,0,8,,-inf\n"
                                        ",row_max,,3,7,,3\n,row_max,,3,8,,4\n");
  render::Options options;
  options.labelled = true;
  const std::string text = rendered("csv", {weights()}, options);
  CHECK(text.substr(0, text.find('\n')) ==
        "layer,stage,batch,head,row,col,value,row_token,col_token");
  CHECK(text.find("\n1,weights,,0,5,1,0.75,cat,日本語\n") != std::string::npos);
  options.matrix = true;
  CHECK(rendered("tsv", {row_max(), row_max()}, options) == "1.5\t-inf\n3\t4\n\n1.5\t-inf\n3\t4\n");
}

TEST_CASE("json") {
  CHECK(rendered("json", {row_max()}) ==
        "{\n\"row_max\": {\"shape\": [2, 2], \"dtype\": \"float64\", \"data\": [[1.5, "
        "\"-Infinity\"],\n  [3, 4]]}\n}\n");
  render::Options options;
  options.several_layers = true;
  CHECK(rendered("json", {weights()}, options).substr(0, 25) == "{\n\"layers.1.weights\": {\"s");
  CHECK(rendered("json", {}) == "{}\n");
}

TEST_CASE("ndjson") {
  CHECK(rendered("ndjson", {row_max()}) ==
        "{\"layer\": null, \"stage\": \"row_max\", \"head\": 0, \"values\": [1.5, \"-Infinity\"]}\n"
        "{\"layer\": null, \"stage\": \"row_max\", \"head\": 3, \"values\": [3, 4]}\n");
  const std::string text = rendered("ndjson", {weights()});
  CHECK(
      text.substr(0, text.find('\n')) ==
      R"({"layer": 1, "stage": "weights", "head": 0, "row": 4, "row_token": "the", "values": [1, 0, 0]})");
}
