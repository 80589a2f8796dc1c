// Activation patching as a sweep, against runs that are patched one by one.

#include "support/places.hpp"

#include <mha/mha.hpp>
#include <mha/model/sweep.hpp>
#include <mha/naming/stage_names.hpp>

#include <catch2/catch.hpp>

#include <cmath>

using namespace mha;
using Catch::Contains;

namespace {

/// A model and pairs of texts, as the program opens them.
struct OpenedPairs {
  std::optional<Sources> sources;
  std::shared_ptr<const Weights> weights;
  std::vector<SweepPair> pairs;

  OpenedPairs(const std::string& model,
              const std::vector<std::pair<std::vector<int>, std::vector<int>>>& ids) {
    Request request;
    request.for_texts = true;
    request.sources = {test::source_folder() + "/data/" + model};
    request.dtype = DType::f64;
    sources.emplace(std::move(request));
    weights = std::make_shared<const Weights>(*sources);
    for (const auto& [here, there] : ids) pairs.push_back({layers_of(here), layers_of(there)});
  }
  std::shared_ptr<const TextLayers> layers_of(const std::vector<int>& ids) const {
    const auto text = std::make_shared<const Texts>(weights, padded({ids}, false, 0), "ids", true);
    return std::make_shared<const TextLayers>(*sources, text);
  }
};

SweepRequest request_of(const std::vector<std::string>& stages, std::vector<SweepAxis> over) {
  SweepRequest request;
  for (const std::string& stage : stages)
    request.stages.push_back(parse_place(stage, stage, stage_of_place_named));
  request.over = std::move(over);
  request.places = [](const Texts& text) {
    return std::vector<TextPosition>{{0, text.lengths()[0] - 1}};
  };
  return request;
}

double logit_difference(const Tensor& logits, int answer, int versus) {
  const std::size_t V = logits.shape().back(), last = (logits.shape()[0] - 1) * V;
  return value_at(logits, last + static_cast<std::size_t>(answer)) -
         value_at(logits, last + static_cast<std::size_t>(versus));
}

const std::vector<int> here_ids{5, 9, 3, 7, 11}, there_ids{8, 2, 3, 7, 4};

} // namespace

TEST_CASE("sweep: each place has the bits of a run patched there alone", "[model]") {
  for (const char* name : {"bard-gpt2", "bard-llama"}) {
    const Model model(test::source_folder() + "/data/" + name, {.dtype = DType::f64});
    const OpenedPairs opened(name, {{here_ids, there_ids}});
    const mha::Run here = model.run(model.tokens(here_ids)),
                   there = model.run(model.tokens(there_ids));
    SweepRequest request = request_of({}, {SweepAxis::layer, SweepAxis::query});
    request.answer = 20, request.versus = 30;
    const double m_here = logit_difference(here.logits(), 20, 30),
                 m_there = logit_difference(there.logits(), 20, 30);
    struct Case {
      const char* stage;
      Stage of;
      std::vector<SweepAxis> over;
    };
    const std::vector<SweepAxis> by_query{SweepAxis::layer, SweepAxis::query},
        by_head{SweepAxis::layer, SweepAxis::head},
        by_head_and_query{SweepAxis::layer, SweepAxis::head, SweepAxis::query};
    std::vector<Case> cases{
        {"resid_pre", Stage::resid_pre, by_query},
        {"resid_post", Stage::resid_post, by_query},
        {"hook_attn_out", Stage::output, by_query},
        {"mlp_out", Stage::mlp_out, by_query},
        {"q", Stage::q, by_head},
        {"k", Stage::k, by_head},
        {"v", Stage::v, by_head_and_query},
        {"scores", Stage::scores, by_head_and_query},
        {"weights", Stage::weights, {SweepAxis::head, SweepAxis::query, SweepAxis::key}},
        {"head_out", Stage::head_out, by_head},
        {"head_result", Stage::head_result, by_head_and_query},
        {"mlp_pre", Stage::mlp_pre, {SweepAxis::layer}}};
    if (std::string(name) == "bard-llama") cases.push_back({"q_rope", Stage::q_rope, by_head});
    for (const Case& one : cases) {
      INFO(name << " " << one.stage);
      request.stages = request_of({one.stage}, {}).stages, request.over = one.over;
      const SweepResult result = sweep(opened.pairs, request);
      CHECK(result.here == m_here);
      CHECK(result.there == m_there);
      CHECK(cost_of(opened.pairs[0], request).runs == result.points.size() + 2);
      std::size_t moved = 0;
      for (std::size_t i = 0; i < result.points.size(); i += 7) { // of each kind some
        const SweepPoint& point = result.points[i];
        std::vector<Patch> patches;
        for (std::size_t n = point.layer.value_or(0); n <= point.layer.value_or(model.layers() - 1);
             ++n) {
          At at{.stage = one.of, .layer = n};
          if (point.head) at.heads = *point.head;
          if (point.query) at.tokens = *point.query;
          if (point.key) at.columns = *point.key;
          patches.push_back(Patch::from(at, there));
        }
        const double m =
            (logit_difference(here.with(patches).logits(), 20, 30) - m_here) / (m_there - m_here);
        CHECK(point.value == m);
        moved += point.value != 0;
      }
      CHECK(moved > 0);
    }
  }
}

TEST_CASE("sweep: the whole stream brings the other run back, and nothing less than that",
          "[model]") {
  const OpenedPairs opened("bard-gpt2", {{here_ids, there_ids}});
  SweepRequest request = request_of({"resid_pre"}, {SweepAxis::layer});
  for (const SweepMetric metric : {SweepMetric::logit, SweepMetric::kl}) {
    request.metric = metric, request.answer = 20, request.versus = 30;
    const SweepResult result = sweep(opened.pairs, request);
    REQUIRE(result.points.size() == 4);
    for (const SweepPoint& point : result.points) CHECK(point.value == 1);
  }
  request.raw = true;
  CHECK(sweep(opened.pairs, request).points[2].value == sweep(opened.pairs, request).there);
}

TEST_CASE("sweep: pairs have a mean and a spread; those without a difference are counted",
          "[model]") {
  const std::vector<int> third{1, 6, 3, 2, 12};
  const OpenedPairs one("bard-gpt2", {{here_ids, there_ids}}),
      two("bard-gpt2", {{third, there_ids}}),
      all("bard-gpt2", {{here_ids, there_ids}, {third, there_ids}, {here_ids, here_ids}});
  SweepRequest request = request_of({"output"}, {SweepAxis::layer, SweepAxis::query});
  request.answer = 20, request.versus = 30;
  const SweepResult a = sweep(one.pairs, request), b = sweep(two.pairs, request),
                    both = sweep(all.pairs, request);
  CHECK(both.pairs == 2);
  CHECK(both.without_difference == std::vector<std::size_t>{2});
  for (std::size_t i = 0; i < both.points.size(); ++i) {
    const double x = a.points[i].value, y = b.points[i].value;
    CHECK(both.points[i].value == Approx((x + y) / 2).epsilon(1e-12));
    CHECK(both.points[i].spread.value() ==
          Approx(std::abs(x - y) / std::sqrt(2.0)).epsilon(1e-6).margin(1e-9));
  }
}

TEST_CASE("sweep: what it cannot do is said", "[model]") {
  const OpenedPairs same("bard-gpt2", {{here_ids, here_ids}}),
      unequal("bard-gpt2", {{here_ids, {1, 2}}}), opened("bard-gpt2", {{here_ids, there_ids}});
  const auto refused = [](const OpenedPairs& of, SweepRequest request, const char* message) {
    request.answer = 20, request.versus = 30;
    CHECK_THROWS_WITH(sweep(of.pairs, request), Contains(message));
  };
  const std::vector<SweepAxis> by_layer{SweepAxis::layer};
  refused(same, request_of({"resid_pre"}, by_layer), "both runs measure the same");
  refused(unequal, request_of({"resid_pre"}, by_layer), "have 5 tokens and 2");
  refused(opened, request_of({"resid_pre"}, {SweepAxis::head}), "resid_pre has no heads");
  refused(opened, request_of({"q"}, {SweepAxis::key}), "q has no keys");
  refused(opened, request_of({"resid_pre"}, {}), "layer, head, query or key expected");
  refused(opened, request_of({"q_rope"}, by_layer), "q_rope");
  SweepRequest loss = request_of({"resid_pre"}, by_layer);
  loss.metric = SweepMetric::loss;
  refused(opened, loss, "no chosen position has a next token");
}
