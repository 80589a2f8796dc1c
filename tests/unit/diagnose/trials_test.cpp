#include <mha/diagnose/trials.hpp>

#include "support/library_input.hpp"
#include "support/planted.hpp"
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/graph.hpp>

#include <catch2/catch.hpp>

using namespace mha;

namespace {

bool mixes(const Change& change) {
  return change.id.starts_with("swap") || change.id.starts_with("weight.order") ||
         change.id.starts_with("bias.swapped");
}

/// X is read in another form: what is added to the output or normalised is not the same then.
bool turns_input(const Change& change) {
  return change.id.starts_with("layout.columns");
}

bool reads_input(const Change& change) {
  return change.id.starts_with("residual") || change.id.starts_with("input_norm");
}

/// Heads are split otherwise: stages are given, which hides what is changed before them later.
bool splits_heads(const Change& change) {
  return change.id.starts_with("heads.interleaved") || change.id.starts_with("heads.reshape");
}

/// A step's memory holds another step's numbers: those that it was given are a matter of order.
bool reads_other_steps(const Change& change) {
  return change.id.starts_with("buffer.");
}

/// Weights are given that another step makes: of two such changes the later hides the earlier.
bool replaces_weights(const Change& change) {
  return change.id == "softmax.axis" || change.id == "softmax.missing";
}

bool of_projections(const Change& change) {
  return (change.touches & StageSet{Stage::q, Stage::k, Stage::v}).any();
}

} // namespace

TEST_CASE("changes tried together, on some queries and with kept stages, are those made one by one",
          "[diagnose]") {
  std::vector<planted::Base> bases = planted::bases(5, false, 44);
  Random random(17);
  planted::Base whole = bases[1]; // norms over the whole projection
  whole.layer.q_norm_weight = planted::numbers(random, {24}, 0.4, 1.6);
  whole.layer.k_norm_weight = planted::numbers(random, {8}, 0.4, 1.6);
  bases.push_back(whole);
  std::size_t compared = 0;
  for (const planted::Base& base : bases) {
    Layer layer = library_layer(base.layer, base.form);
    layer.dims.batched = true;
    const std::vector<Change> list = changes_for({layer, {}, false});
    for (int i = 0; i < 50; ++i) {
      const Change& a = list[random.count(0, list.size() - 1)];
      const Change& b = list[random.count(0, list.size() - 1)];
      if (a.id == b.id) continue;
      // What is exchanged after another change of the same weights is a matter of order.
      if ((mixes(a) && of_projections(b)) || (mixes(b) && of_projections(a))) continue;
      if ((turns_input(a) && reads_input(b)) || (turns_input(b) && reads_input(a))) continue;
      if (splits_heads(a) && splits_heads(b)) continue; // they contradict each other
      if (splits_heads(a) && of_projections(b)) continue; // gives what the second would change
      if (reads_other_steps(a) || reads_other_steps(b)) continue;
      if (replaces_weights(a) && replaces_weights(b)) continue;
      INFO(base.name << ": " << a.id << " (" << a.did << ") and " << b.id << " (" << b.did << ")");
      const Tensor theirs = value_of(changed(layer, {&a, &b}), Stage::output);
      const Target target{Stage::output, theirs, 1e-9, DType::f64, 0, std::nullopt};
      Trials trials(layer, {}, target, {}, 1);
      CHECK(trials.screen(std::vector<Changes>{{&a}, {&b}, {&a, &b}})[2].error < 1e-10);
      CHECK(trials.whole({&a, &b}).error == 0);
      ++compared;
      if (splits_heads(a)) continue; // diagnose finds these two in the other order
      Trials after(layer, {}, target, {&a}, 1);
      CHECK(after.screen(std::vector<Changes>{{&b}})[0].error < 1e-10);
    }
  }
  CHECK(compared > 120);
}
