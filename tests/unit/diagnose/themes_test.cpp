#include <mha/diagnose/hypotheses/themes.hpp>

#include "support/library_input.hpp"
#include "support/places.hpp"
#include "support/planted_models.hpp"
#include "support/planted_more.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <set>

using namespace mha;

TEST_CASE("every identifier is in the list once, planted by a test, and in the docs",
          "[diagnose]") {
  const std::vector<std::string> ids = change_ids();
  const std::set<std::string> listed(ids.begin(), ids.end());
  CHECK(listed.size() == ids.size());
  std::set<std::string> planted_ids;
  for (const planted::Mistake& mistake : planted::mistakes()) planted_ids.insert(mistake.id);
  for (const auto& group :
       {planted::rotary_mistakes(), planted::norm_mistakes(), planted::mask_mistakes(),
        planted::other_mistakes(), planted::port_mistakes(), planted::mistakes_of_maps()})
    for (const planted::Mistake& mistake : group) planted_ids.insert(mistake.id);
  for (const planted::ModelMistake& mistake : planted::model_mistakes())
    planted_ids.insert(mistake.id);
  // No model here has a parallel block, or layers of two kinds: tests/models has them, and heads
  // counted otherwise (other_families.py).
  planted_ids.insert({"block.sequential", "window.layers", "rope.layers", "heads.count"});
  // Mixtures: tests/models/mixture_mistakes.py.
  planted_ids.insert({"experts.weights", "experts.factor", "experts.score", "experts.bias",
                      "experts.groups", "experts.number", "experts.shared", "experts.clamp",
                      "experts.plus_one", "experts.swapped", "experts.interleaved",
                      "experts.weigh_input"});
  // Gates and what else is new: tests/models/gated_mistakes.py.
  planted_ids.insert({"gate.missing", "gate.activation", "gate.place", "gate.input", "gate.rows",
                      "v.factor", "v_norm.missing", "v_norm.keys", "head_norm.missing",
                      "temperature.missing", "temperature.position", "window.chunks", "mlp.clamp",
                      "block.stream_scale"});
  CHECK(planted_ids == listed);
  std::ifstream file(mha::test::source_folder() + "/docs/diagnose.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& id : ids) {
    INFO(id);
    CHECK(page.find("`" + id + "`") != std::string::npos);
  }
}

TEST_CASE("every change says what was done and how to undo it, in a sentence that goes on",
          "[diagnose]") {
  const std::vector<std::string> ids = change_ids();
  for (const planted::Mistake& mistake : planted::mistakes())
    for (planted::Base& base : planted::bases(9, false)) {
      Random random(2);
      if (!mistake.prepare(base.layer, random)) continue;
      const Layer layer = library_layer(base.layer, base.form);
      for (const Change& change : changes_for({layer, StageSet::all(), false})) {
        INFO(change.id << ": " << change.did << " / " << change.cure);
        CHECK(std::count(ids.begin(), ids.end(), change.id) == 1);
        CHECK(change.touches.any());
        CHECK(change.edit);
        CHECK_FALSE(change.did.empty());
        CHECK_FALSE(change.cure.empty());
        CHECK_FALSE(change.did.ends_with('.'));
        CHECK_FALSE(change.cure.ends_with('.'));
        const std::string typed = change.reproduction.text().in_words(Wording::command_line);
        CHECK(typed.empty() == change.reproduction.empty());
        CHECK((typed.empty() || typed.starts_with("--") || typed.ends_with("=FILE@OI")));
      }
    }
}

TEST_CASE("a bias that one change takes away is not brought back by another", "[diagnose]") {
  for (planted::Base& base : planted::bases(9, false)) {
    const Layer layer = library_layer(base.layer, base.form);
    const std::vector<Change> changes = changes_for({layer, StageSet::all(), false});
    for (const Change& missing : changes) {
      if (missing.id != "bias.missing.o") continue;
      for (const Change& other : changes) {
        if (!other.id.starts_with("bias.times")) continue;
        Layer edited = layer;
        edited.dtype = DType::f64;
        missing.edit(edited), other.edit(edited);
        INFO(other.did);
        CHECK(edited.b_o.empty());
      }
    }
  }
}
