// The ε of each norm of a whole model's layer, and of its last norm, is fitted, whatever it is.

#include "support/places.hpp"
#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/layer/graph.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace mha;
using Catch::Contains;

namespace {

/// A norm of a model, the stages that may have been saved of it, and what names it.
struct NormRow {
  const char *model, *layer;
  void (*set)(Layer&, double eps);
  std::vector<Stage> saved; ///< the last one alone, and all
  const char *id, *name;
};

void set_pre_mlp(Layer& layer, double eps) {
  own_block(layer).pre_mlp_norm.eps = eps;
}
void set_post_block(Layer& layer, double eps) {
  own_block(layer).post_block_norm.eps = eps;
}
void set_final(Layer& layer, double eps) {
  own_ends(layer).final.eps = eps;
}
void set_all(Layer& layer, double eps) {
  layer.settings.input_norm_eps = eps, set_pre_mlp(layer, eps);
}

const NormRow norm_rows[]{
    {"bard-llama",
     "1",
     set_pre_mlp,
     {Stage::mlp_x, Stage::resid_post},
     "block_norm.eps",
     "in the norm before the feed-forward"},
    {"bard-gpt2",
     "2",
     set_pre_mlp,
     {Stage::mlp_x, Stage::resid_post},
     "block_norm.eps",
     "in the norm before the feed-forward"},
    {"bard-bert",
     "1",
     set_post_block,
     {Stage::residual, Stage::resid_post},
     "block_norm.eps",
     "in the norm at the block's end"},
    {"bard-llama",
     "1",
     set_all,
     {Stage::resid_post},
     "block_norm.eps",
     "in every norm of the layer"},
    {"bard-llama",
     "",
     set_final,
     {Stage::final, Stage::logits},
     "last_norm.form",
     "in the last norm"},
};

Layer layer_of(const NormRow& row, std::size_t tokens) {
  RunRequest request;
  request.sources = {test::source_folder() + "/data/" + row.model};
  std::string ids;
  for (std::size_t i = 0; i < tokens; ++i) ids += fmt::format("{}{}", i > 0 ? "," : "", 5 + 7 * i);
  request.text.ids = {ids}, request.shows_ends = true;
  OpenedModel opened(request);
  opened.threads = 1;
  return opened.load(row.layer).layer;
}

} // namespace

TEST_CASE("the ε of a norm around attention, or of the last one, is fitted", "[diagnose]") {
  for (const NormRow& row : norm_rows)
    for (const std::size_t tokens :
         {std::size_t(9), std::size_t(60)}) // of more than 48 some are looked at
      for (const double eps : {3.5e-4, 0.02}) {
        const Layer layer = layer_of(row, tokens);
        Layer other = layer;
        row.set(other, eps);
        const Trace theirs = trace(other, row.saved);
        std::vector<ReferenceStage> all;
        for (const Stage stage : row.saved)
          all.push_back({stage, theirs.value(stage), DType::f32, "theirs", ""});
        for (const auto& known : {std::vector{all.back()}, all}) {
          if (tokens > 9 && known.size() > 1) continue; // that takes long
          const Diagnosis d = diagnose(layer, known);
          INFO(row.model << ", " << row.name << ", " << tokens << " tokens, " << known.size()
                         << " stages, " << eps);
          REQUIRE(d.explained);
          REQUIRE(d.changes.size() == 1);
          CHECK(d.changes[0].id == row.id);
          CHECK_THAT(d.changes[0].did, Contains(fmt::format("ε = {:g} {}", eps, row.name)));
        }
      }
}
