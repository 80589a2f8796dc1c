// Cases as they exist: another library's layer against its own text, conventions without effect.

#include <mha/diagnose/diagnose.hpp>
#include <mha/naming/stage_names.hpp>

#include "support/library_input.hpp"
#include "support/planted.hpp"
#include "support/reference_positions.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <cmath>

using namespace mha;
using reference::Array;

namespace {

/// What GeometricMachineLearning.jl's MultiHeadAttention computes (src/layers/
/// multi_head_attention.jl): per head softmax((PQᵀ x)ᵀ (PKᵀ x) / √dim), down each column, PVᵀ x
/// times that, heads stacked, plus x. Everything (rows, tokens).
struct Geometric {
  std::vector<Array> q, k, scores, weights; ///< one a head
  Array sum;
};

Array times(const Array& P, std::size_t first, std::size_t d, const Array& x) { // Pᵀ x
  Array y({d, x.shape[1]});
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t t = 0; t < x.shape[1]; ++t)
      for (std::size_t c = 0; c < x.shape[0]; ++c) y(i, t) += P(c, first + i) * x(c, t);
  return y;
}

Geometric geometric(const Array& PQ, const Array& PK, const Array& PV, const Array& x,
                    std::size_t heads) {
  const std::size_t dim = x.shape[0], tokens = x.shape[1], d = dim / heads;
  Geometric made{{}, {}, {}, {}, x};
  for (std::size_t h = 0; h < heads; ++h) {
    const Array q = times(PQ, h * d, d, x), k = times(PK, h * d, d, x), v = times(PV, h * d, d, x);
    Array scores({tokens, tokens}), weights({tokens, tokens});
    for (std::size_t a = 0; a < tokens; ++a)
      for (std::size_t b = 0; b < tokens; ++b)
        for (std::size_t i = 0; i < d; ++i) scores(a, b) += q(i, a) * k(i, b);
    for (std::size_t b = 0; b < tokens; ++b) {
      double total = 0;
      for (std::size_t a = 0; a < tokens; ++a)
        total += std::exp(scores(a, b) / std::sqrt(reference::real(dim)));
      for (std::size_t a = 0; a < tokens; ++a)
        weights(a, b) = std::exp(scores(a, b) / std::sqrt(reference::real(dim))) / total;
    }
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t b = 0; b < tokens; ++b)
        for (std::size_t a = 0; a < tokens; ++a) made.sum(h * d + i, b) += v(i, a) * weights(a, b);
    made.q.push_back(q), made.k.push_back(k);
    made.scores.push_back(scores), made.weights.push_back(weights);
  }
  return made;
}

Tensor stacked(const std::vector<Array>& heads) {
  Array all({heads.size(), heads[0].shape[0], heads[0].shape[1]});
  std::size_t at = 0;
  for (const Array& head : heads)
    for (double value : head.values) all.values[at++] = value;
  return Tensor::of<double>(all.shape, all.values);
}

ReferenceStage known(Stage stage, const Tensor& value) {
  return {stage, value, DType::f64, "", ""};
}

std::vector<std::string> ids_of(const Diagnosis& diagnosis) {
  std::vector<std::string> ids;
  for (const Change& change : diagnosis.changes) ids.push_back(change.id);
  return ids;
}

ReferenceStage stage_of(const planted::Stages& stages, const std::string& name) {
  return known(stage_named(name), tensor_of(stages.at(name), DType::f64));
}

} // namespace

TEST_CASE("GeometricMachineLearning's layer has Q and K exchanged, and 1/√d_model", "[diagnose]") {
  // The layer as its text has it: V softmax(Kᵀ Q / √d_k), tokens as columns, the input added.
  Random random(21);
  reference::Layer text;
  text.H = text.H_kv = 3, text.d_k = text.d_v = 4;
  text.X = planted::numbers(random, {1, 7, 12}, -1.5, 1.5);
  for (Array* P : {&text.W_q, &text.W_k, &text.W_v})
    *P = planted::numbers(random, {12, 12}, -0.7, 0.7);
  text.residual = true;
  Form form;
  form.columns = true;
  const Layer layer = library_layer(text, form);
  Array x({12, 7});
  for (std::size_t t = 0; t < 7; ++t)
    for (std::size_t i = 0; i < 12; ++i) x(i, t) = text.X(std::size_t{0}, t, i);
  const Geometric code = geometric(text.W_q, text.W_k, text.W_v, x, 3);
  const ReferenceStage sum =
      known(Stage::residual, Tensor::of<double>(code.sum.shape, code.sum.values));

  const Diagnosis of_output = diagnose(layer, {sum});
  CHECK(of_output.explained);
  CHECK(ids_of(of_output) == std::vector<std::string>{"scale.d_model", "swap.qk"});
  CHECK(of_output.changes[0].reproduction.text().in_words(Wording::command_line) ==
        "--scale d_model");

  // Its q and k are those of the text: it is their product that is the other one.
  const Diagnosis of_stages =
      diagnose(layer, {known(Stage::q, stacked(code.q)), known(Stage::k, stacked(code.k)),
                       known(Stage::scores, stacked(code.scores)),
                       known(Stage::weights, stacked(code.weights)), sum});
  CHECK(of_stages.explained);
  CHECK(ids_of(of_stages) == std::vector<std::string>{"swap.qk", "scale.d_model"});
  CHECK(of_stages.changes[0].did == "computes k qᵀ instead of q kᵀ");
}

TEST_CASE("a factor in q that the scale takes back has no effect", "[diagnose]") {
  const planted::Base base = planted::bases(2, false)[0];
  planted::Stages stages = reference::compute(base.layer);
  // Whisper and PyTorch scale q first: the scores are then the scaled ones.
  for (double& value : stages["q"].values) value *= base.layer.scale;
  stages["scores"] = stages["scaled"];
  const Diagnosis d = diagnose(library_layer(base.layer, base.form),
                               {stage_of(stages, "q"), stage_of(stages, "k"),
                                stage_of(stages, "scores"), stage_of(stages, "weights")});
  CHECK(d.equal);
  CHECK(d.stages[0].harmless == "equal up to the factor 0.408248");
  CHECK(d.stages[1].harmless.empty());
  CHECK(d.stages[2].harmless == "equal up to the factor 0.408248");
  CHECK(d.stages[3].harmless.empty());
}

TEST_CASE("a factor in q that nothing takes back has an effect", "[diagnose]") {
  const planted::Base base = planted::bases(2, false)[0];
  planted::Implementation other{base.layer, {}, {}};
  for (double& value : other.layer.W_q.values) value *= 0.3;
  for (double& value : other.layer.b_q.values) value *= 0.3;
  const planted::Stages stages = other.run();
  const Diagnosis d = diagnose(library_layer(base.layer, base.form),
                               {stage_of(stages, "q"), stage_of(stages, "weights")});
  CHECK(d.explained);
  CHECK(ids_of(d) ==
        std::vector<std::string>{"scale.constant"}); // as good as a scale 0.3 times as large
}

TEST_CASE("another order of a head's dimensions in q and k has no effect", "[diagnose]") {
  const planted::Base base = planted::bases(2, false)[1];
  planted::Stages stages = reference::compute(base.layer);
  for (const char* name : {"q_rope", "k_rope"}) {
    const Array from = stages[name];
    for (std::size_t b = 0; b < from.shape[0]; ++b)
      for (std::size_t h = 0; h < from.shape[1]; ++h)
        for (std::size_t t = 0; t < from.shape[2]; ++t)
          for (std::size_t i = 0; i < 4; ++i)
            stages[name](b, h, t, i) = from(b, h, t, i % 2 * 2 + i / 2);
  }
  const Diagnosis d = diagnose(library_layer(base.layer, base.form),
                               {stage_of(stages, "q_rope"), stage_of(stages, "k_rope"),
                                stage_of(stages, "scores"), stage_of(stages, "output")});
  CHECK(d.equal);
  CHECK(d.stages[0].harmless == "equal up to the order of the dimensions in each head: 0, 2, 1, 3");
}

TEST_CASE("heads in another order have no effect where W_o has it too", "[diagnose]") {
  const planted::Base base = planted::bases(2, false)[0];
  const planted::Stages own = reference::compute(base.layer);
  planted::Stages stages = own;
  const std::size_t from[]{2, 0, 3, 1}; // head g is this layer's head from[g]
  for (auto& [name, array] : stages) {
    const Array& before = own.at(name);
    if (before.shape.size() < 3 || before.shape[1] != 4) continue; // B, H, …
    const std::size_t rest = before.values.size() / 4;
    for (std::size_t g = 0; g < 4; ++g)
      for (std::size_t i = 0; i < rest; ++i)
        array.values[g * rest + i] = before.values[from[g] * rest + i];
  }
  const Layer layer = library_layer(base.layer, base.form);
  const auto known = [&](std::initializer_list<const char*> names) {
    std::vector<ReferenceStage> list;
    for (const char* name : names) list.push_back(stage_of(stages, name));
    return list;
  };
  const Diagnosis d = diagnose(layer, known({"q", "k", "scores", "weights", "head_out", "output"}));
  CHECK(d.equal);
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(d.stages[i].harmless == "equal up to the order of the heads: 2, 0, 3, 1");
  CHECK(d.stages[5].harmless.empty());

  // Without a stage in which they are joined it is open whether W_o has that order.
  const Diagnosis open = diagnose(layer, known({"q", "k", "scores", "weights"}));
  CHECK_FALSE(open.equal);
  // And where it has not, the output differs.
  Array& output = stages["output"];
  planted::Implementation other{base.layer, {}, {}};
  other.steps.push_back({"head_out", [&](const planted::Implementation&, const planted::Stages&) {
                           return stages["head_out"];
                         }});
  output = other.run().at("output");
  CHECK_FALSE(diagnose(layer, known({"weights", "head_out", "output"})).equal);
}

TEST_CASE("a number added to each row of the scores has no effect without sinks", "[diagnose]") {
  for (const bool sinks : {false, true})
    for (const char* name : {"scores", "scaled", "masked"}) {
      planted::Base base = planted::bases(2, false)[1]; // causal: some keys are hidden
      Random random(4);
      if (sinks) base.layer.sinks = planted::numbers(random, {base.layer.H}, 0, 2);
      planted::Stages stages = reference::compute(base.layer);
      const std::size_t keys = base.layer.S();
      for (std::size_t i = 0; i < stages[name].values.size(); ++i)
        stages[name].values[i] += std::cos(static_cast<double>(i / keys));
      const Diagnosis d = diagnose(
          library_layer(base.layer, base.form),
          {stage_of(stages, name), stage_of(stages, "weights"), stage_of(stages, "output")});
      INFO(name << (sinks ? " with sinks" : ""));
      CHECK(d.equal == !sinks);
      if (sinks) continue;
      CHECK(d.stages[0].harmless ==
            "equal up to a number added to each row, which the softmax does not see");
    }
}

TEST_CASE("a wrong scale beside a wrong mask is fitted, from the output alone", "[diagnose]") {
  for (const bool causal : {false, true})
    for (const double scale : {0.137, 0.93}) {
      planted::Base base = planted::bases(6, false)[0];
      base.layer.causal = causal;
      planted::Implementation other{base.layer, {}, {}};
      other.layer.causal = !causal, other.layer.scale = scale;
      const Diagnosis d =
          diagnose(library_layer(base.layer, base.form), {stage_of(other.run(), "output")});
      INFO((causal ? "causal, " : "") << scale);
      REQUIRE(d.explained);
      REQUIRE(ids_of(d).size() == 2);
      CHECK(ids_of(d)[0] == "scale.constant");
      CHECK(ids_of(d)[1].starts_with("causal."));
      CHECK_THAT(d.changes[0].did,
                 Catch::StartsWith(fmt::format("multiplies the scores by {:g}", scale)));
    }
}

TEST_CASE("a scale and a rotary base that nobody lists are fitted", "[diagnose]") {
  const planted::Base base = planted::bases(6, true, 46)[1];
  planted::Implementation scaled{base.layer, {}, {}}, turned{base.layer, {}, {}};
  scaled.layer.scale = 1 / std::sqrt(200.0);
  turned.layer.rope_base = 2500;
  const Layer layer = library_layer(base.layer, base.form);
  const Diagnosis scale = diagnose(layer, {stage_of(scaled.run(), "output")});
  REQUIRE(ids_of(scale) == std::vector<std::string>{"scale.constant"});
  CHECK(scale.changes[0].did == "multiplies the scores by 0.0707107 (1/√200)");
  const Diagnosis rope = diagnose(layer, {stage_of(turned.run(), "output")});
  REQUIRE(ids_of(rope) == std::vector<std::string>{"rope.base"});
  CHECK(rope.changes[0].reproduction.text().in_words(Wording::command_line) == "--rope-base 2500");
}

TEST_CASE("the ε of a norm is fitted, whatever it is, and written as people write it",
          "[diagnose]") {
  for (const bool single : {false, true})
    for (const bool of_heads : {false, true})
      for (const double size : {1.0, 0.05})
        for (const auto& [own, theirs] : {std::pair(1e-6, 1e-5),
                                          {1e-5, 1e-6},
                                          {1e-6, 2e-5},
                                          {1e-5, 3.5e-4},
                                          {1e-3, 7e-6},
                                          {0.0, 4e-6}}) {
          planted::Base base = planted::bases(6, single)[0];
          Random random(8);
          reference::Layer& text = base.layer;
          if (of_heads) {
            text.q_norm_weight = planted::numbers(random, {text.d_k}, 0.4, 1.6);
            text.k_norm_weight = planted::numbers(random, {text.d_k}, 0.4, 1.6);
            text.qk_norm_eps = own;
            for (Array* W : {&text.W_q, &text.W_k})
              for (double& w : W->values) w *= size;
          } else {
            text.input_norm = reference::Norm::rms, text.input_norm_eps = own;
            text.norm_weight = planted::numbers(random, {text.X.shape[2]}, 0.4, 1.6);
            for (double& x : text.X.values) x *= size;
          }
          const Layer layer = library_layer(text, base.form);
          planted::Implementation other{text, {}, {}};
          (of_heads ? other.layer.qk_norm_eps : other.layer.input_norm_eps) = theirs;
          const planted::Stages stages = other.run();
          for (const bool all : {false, true}) {
            std::vector<ReferenceStage> known{stage_of(stages, "output")};
            if (all) known.insert(known.begin(), stage_of(stages, of_heads ? "q_norm" : "x"));
            if (single)
              for (ReferenceStage& one : known)
                one.value = convert(one.value, DType::f32), one.stored = DType::f32;
            const Diagnosis d = diagnose(layer, known);
            INFO((single ? "float32" : "float64") << (of_heads ? " q, k" : " x") << ", size "
                                                  << size << ": " << own << " -> " << theirs);
            // An ε that is lost beside numbers of usual size is rounding.
            if (single && d.equal && d.error_before < 5e-6) continue;
            REQUIRE(ids_of(d) ==
                    std::vector<std::string>{of_heads ? "norm.eps" : "input_norm.eps"});
            if (single && size == 1) continue; // its digits are lost in rounding
            CHECK_THAT(d.changes[0].did, Catch::EndsWith(fmt::format(" with ε = {:g}", theirs)));
            CHECK(d.changes[0].reproduction.text().in_words(Wording::command_line) ==
                  fmt::format("--{} {:g}", of_heads ? "qk-norm-eps" : "input-norm-eps", theirs));
          }
        }
}

TEST_CASE("dropout is told by its zeros, and its probability estimated", "[diagnose]") {
  const planted::Base base = planted::bases(6, false, 20)[0];
  planted::Stages stages = reference::compute(base.layer);
  Random random(3);
  for (double& w : stages["weights"].values) w = random.chance(0.1) ? 0 : w / 0.9;
  const Diagnosis d = diagnose(library_layer(base.layer, base.form), {stage_of(stages, "weights")});
  REQUIRE(ids_of(d) == std::vector<std::string>{"dropout.on"});
  CHECK(d.changes[0].did.find("p = 0.1") != std::string::npos);
  CHECK(d.error_after < 1e-12);
}

TEST_CASE("weights that are averaged for display only are told from those that are used",
          "[diagnose]") {
  const planted::Base base = planted::bases(6, false)[0];
  planted::Stages stages = reference::compute(base.layer);
  const Array weights = stages["weights"];
  for (std::size_t h = 0; h < 4; ++h)
    for (std::size_t t = 0; t < 7; ++t)
      for (std::size_t j = 0; j < 7; ++j) {
        double mean = 0;
        for (std::size_t other = 0; other < 4; ++other)
          mean += weights(std::size_t{0}, other, t, j) / 4;
        stages["weights"](std::size_t{0}, h, t, j) = mean;
      }
  const Diagnosis d = diagnose(library_layer(base.layer, base.form),
                               {stage_of(stages, "weights"), stage_of(stages, "output")});
  REQUIRE(ids_of(d) == std::vector<std::string>{"weights.averaged"});
  CHECK(d.changes[0].did ==
        "returns weights averaged over the heads, but computes with each head's own");
}
