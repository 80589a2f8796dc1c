// Places of patches in a batch of texts: heads, tokens, keys and columns are counted in each text,
// and a text's run has the bits that it has alone.

#include "support/compare.hpp"
#include "support/places.hpp"
#include "unit/api/layers.hpp"

#include <mha/layer/graph.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/model/patcher.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>

using namespace mha;
using Catch::Contains;

namespace {

const std::vector<std::string> texts{"5,17,200,31,8", "31,8,90", "44,7,12,9"};
const std::vector<std::string> others{"6,17,201,31,8", "30,8,90", "44,7,13,9"};

using Given = std::vector<std::pair<std::string, std::string>>;

/// The stream after the last layer: B, T, d_model.
Tensor stream_of(const std::string& model, const std::vector<std::string>& ids,
                 const std::vector<std::string>& patches, Given settings = {}) {
  const auto patcher = std::make_shared<Patcher>();
  RunRequest request;
  request.sources = {test::source_folder() + "/data/" + model};
  request.text.ids = ids, request.shows_ends = true, request.settings = std::move(settings);
  for (const std::string& patch : patches) patcher->add(patch);
  request.patches = patcher;
  OpenedModel opened(request);
  opened.threads = 1;
  const std::string last = opened.texts()->layers().back();
  const Layer layer = opened.load(last).layer;
  const Tensor value = trace(layer, {Stage::resid_post}).value(Stage::resid_post);
  patcher->require_read();
  return value;
}

/// Whether text b's rows of a batch are those of a run of it alone.
bool is_alone(const Tensor& batch, std::size_t b, const Tensor& alone) {
  const std::size_t T = batch.shape()[1], d = batch.shape()[2];
  return std::memcmp(batch.raw() + b * T * d * size_of(batch.dtype()), alone.raw(),
                     alone.bytes()) == 0;
}

void check_each_alone(const std::string& model, const std::string& patch,
                      const Given& settings = {}) {
  INFO(model << " " << patch);
  const Tensor batch = stream_of(model, texts, {patch}, settings);
  for (std::size_t b = 0; b < texts.size(); ++b) {
    INFO(b);
    CHECK(is_alone(batch, b, stream_of(model, {texts[b]}, {patch}, settings)));
  }
}

} // namespace

TEST_CASE("patches of maps count keys in each text, from its beginning and from its end",
          "[model]") {
  for (const char* model : {"bard-bert", "bard-llama"})
    for (const char* stage : {"scores", "scaled", "masked", "exp", "weights"})
      for (const char* place :
           {"[0,*,-1]", "[*,-1,0]", "[1,*,-2:]", "[*,1:,[0,-1]]", "[0,2,1-2]", "[*,*,*]"})
        check_each_alone(model, fmt::format("layers.1.{}{} *= 0.5", stage, place));
}

TEST_CASE("patches of rows of keys and queries count them in each text", "[model]") {
  for (const char* place : {"q[*,-1]", "k[*,-1]", "v[*,-2:]", "k[0,[0,-1],-3:]", "row_sum[*,-1]",
                            "output[*,-1]", "mlp_out[*,0,-1]"})
    for (const char* model : {"bard-bert", "bard-llama"})
      check_each_alone(model, fmt::format("layers.1.{} *= 0.5", place));
}

TEST_CASE("keys that stand after the padding are a text's last ones", "[model]") {
  // A key of zeros is added to each text's; where it stands changes the last bits of sums.
  for (const char* patch : {"layers.1.weights[0,*,-1] = 0.5", "layers.1.weights[*,*,-2] *= 0.5",
                            "layers.1.k_all[*,-1] = 0.25", "layers.1.k_all[*,-2] *= 0.5"}) {
    INFO(patch);
    const Given zero{{"zero_attn", "true"}};
    const Tensor batch = stream_of("bard-llama", texts, {patch}, zero);
    for (std::size_t b = 0; b < texts.size(); ++b) {
      const Tensor alone = stream_of("bard-llama", {texts[b]}, {patch}, zero);
      double largest = 0;
      for (std::size_t i = 0; i < alone.count(); ++i)
        largest = std::max(largest, std::abs(value_at(batch.at(b), i) - value_at(alone, i)));
      CHECK(largest < 1e-5 * magnitude(alone));
    }
  }
}

TEST_CASE("a key or token beyond a text's end is an error that names the text", "[model]") {
  for (const auto& [place, said] :
       {std::pair("weights[0,*,3]", "text 1: 3: there are 3 keys (0 to 2)"),
        {"weights[0,*,0-4]", "text 1: 0-4: there are 3 keys"},
        {"scores[0,*,[0,4]]", "text 1: 4: there are 3 keys"},
        {"masked[0,4,0]", "text 1: 4: there are 3 tokens"},
        {"k[0,3]", "text 1: 3: there are 3 keys"},
        {"resid_pre[*,-4]", "text 1: -4: there are 3 tokens"}}) {
    INFO(place);
    CHECK_THROWS_WITH(stream_of("bard-bert", texts, {fmt::format("layers.1.{} = 0", place)}),
                      Contains(said));
  }
  CHECK_THROWS_WITH(stream_of("bard-bert", {texts[0]}, {"layers.1.weights[0,*,5] = 0"}),
                    Contains("weights[0,*,5] = 0: 5: there are 5 keys"));
}

TEST_CASE("values of other texts, one each, are each text's own", "[model]") {
  for (const char* place :
       {"weights", "weights[0,*,-1]", "weights[*,1:]", "resid_pre[*,-1]", "v[0]"}) {
    INFO(place);
    const std::string from = fmt::format("layers.1.{} = from ids ", place);
    for (std::size_t b = 0; b < texts.size(); ++b) {
      // One other text for one: the same place needs the same number of tokens.
      CHECK_NOTHROW(stream_of("bard-bert", {texts[b]}, {from + others[b]}));
      CHECK_THROWS_WITH(stream_of("bard-bert", texts, {from + others[b]}),
                        Contains("the other text has") && Contains("the same number of tokens"));
    }
  }
}

TEST_CASE("the library's places count keys in each text, and values of a run are each text's",
          "[api][model]") {
  const Model model(test::data("bard-bert"));
  const std::vector<std::vector<int>> own{{5, 17, 200, 31, 8}, {31, 8, 90}, {44, 7, 12, 9}},
      other{{6, 17, 201, 31, 8}, {30, 8, 90}, {44, 7, 13, 9}};
  const Run run = model.run(model.batch(own)), source = model.run(model.batch(other));
  for (const At& at : {At{Stage::weights, 1, 0, {}, -1}, At{Stage::weights, 1, {}, 1, {0, -1}},
                       At{Stage::v, 1, {}, -1}})
    for (const bool from_run : {false, true}) {
      const auto patch = [&](const Run& of) {
        return from_run ? Patch::from(at, of) : Patch::multiply(at, 0.5);
      };
      const Tensor batch = run.with({patch(source)}).resid(-1);
      for (std::size_t b = 0; b < texts.size(); ++b) {
        const Run alone = model.run(model.tokens(own[b])), from = model.run(model.tokens(other[b]));
        INFO(b << (from_run ? " from a run" : ""));
        CHECK(is_alone(batch, b, alone.with({patch(from)}).resid(-1)));
      }
    }
  CHECK_THROWS_WITH(run.with({Patch::zero(At{Stage::weights, 1, 0, {}, 3})}),
                    Contains("text 1") && Contains("there are 3 keys"));
}
