// Every mistake of the list, planted into the reference (tests/support/planted.cpp), must be named;
// what is no mistake must not.

#include <mha/compare/diff.hpp>
#include <mha/diagnose/diagnose.hpp>
#include <mha/naming/stage_names.hpp>

#include "support/library_input.hpp"
#include "support/planted.hpp"
#include "support/share.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

using namespace mha;

namespace {

/// What of an implementation is known: every stage, or the last alone.
enum class Ref { all, output };

std::string last_of(const planted::Stages& stages) {
  return stages.count("residual") ? "residual" : "output";
}

std::vector<ReferenceStage> reference_of(const planted::Stages& stages, Ref ref,
                                         DType stored = DType::f64) {
  std::vector<ReferenceStage> known;
  for (const auto& [name, array] : stages)
    if (ref == Ref::all || name == last_of(stages))
      known.push_back(
          {stage_named(name), convert(tensor_of(array, DType::f64), stored), stored, "", ""});
  return known;
}

std::vector<std::string> ids_of(const Diagnosis& diagnosis) {
  std::vector<std::string> ids;
  for (const Change& change : diagnosis.changes) ids.push_back(change.id);
  return ids;
}

bool holds(const std::vector<std::string>& list, const std::string& id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

std::string text_of(const Diagnosis& d) {
  std::string text = d.equal ? "equal" : d.explained ? "explained:" : "not explained:";
  for (const Change& change : d.changes) text += " " + change.id + " (" + change.did + ")";
  if (!d.same_numbers.empty()) text += " | same:";
  for (const std::string& id : d.same_numbers) text += " " + id;
  if (d.unexplained) text += fmt::format(" | differs at {}", name_of(*d.unexplained));
  text += fmt::format(" | {:.2g} -> {:.2g} | next:", d.error_before, d.error_after);
  for (const auto& runner : d.runners_up)
    text += fmt::format(" {}{}({:.2g})", runner.ids[0],
                        runner.ids.size() > 1 ? "+" + runner.ids[1] : "", runner.error);
  return text;
}

/// A base layer with a mistake, as the library and as the other implementation have it.
struct Case {
  Layer layer;
  NamedTensors parts; ///< what the layer was made of
  Settings settings;
  planted::Stages stages;
  std::string name;
};

/// The mistakes on a base layer; nothing if it cannot have one of them.
std::optional<Case> planted_case(planted::Base base,
                                 const std::vector<const planted::Mistake*>& mistakes) {
  Random random(5);
  std::string name;
  for (const planted::Mistake* mistake : mistakes) {
    if (!mistake->prepare(base.layer, random)) return std::nullopt;
    name += fmt::format("{}{}", name.empty() ? "" : " and ", mistake->id);
  }
  planted::Implementation other{base.layer, {}, {}};
  for (const planted::Mistake* mistake : mistakes) mistake->plant(other);
  return Case{library_layer(base.layer, base.form), parts_of(base.layer, base.form),
              settings_of(base.layer, base.form), other.run(),
              fmt::format("{} on {}", name, base.name)};
}

/// The settings of a change make the layer give what the reference has.
void check_settings(const Case& one, const Change& change) {
  // What is called residual here then is the reference's output.
  if (change.reproduction.of<SettingEdit>().empty() || change.id.starts_with("residual")) return;
  Settings settings = one.settings;
  for (const SettingEdit& value : change.reproduction.of<SettingEdit>())
    set(settings, value.name, value.shown, "test");
  const Layer layer = make_layer(one.parts, settings);
  std::vector<ReferenceStage> known;
  for (ReferenceStage& stage : reference_of(one.stages, Ref::output)) known.push_back(stage);
  INFO(one.name << ": " << change.reproduction.text().in_words(Wording::program));
  CHECK(diagnose(layer, known, false, 1).equal);
}

/// Mistakes that leave no trace in the output, and why.
const std::map<std::string, std::string> without_trace{
    {"bias.missing.k on plain", "q · b_k is the same for every key: the softmax does not see it"},
    {"bias.missing.k on cross", "the same"},
    {"rope.offset on plain", "only differences of positions count"},
    {"rope.offset on grouped", "the same"},
    {"rope.offset on cross", "the same"},
    {"dropout.on on plain", "what was dropped at random cannot be read from the output"},
    {"dropout.on on grouped", "the same"},
    {"dropout.on on cross", "the same"},
};

/// Mistakes that give the same numbers: each is named, or reported beside the other.
const std::vector<std::set<std::string>> twins{
    {"swap.kv", "weight.order.QVK"}, // the second and the last part exchanged
    {"swap.qk", "weight.order.KQV"}, // where H = H_kv
    {"scale.twice", "scale.d_k"},    // of 1/√d_k
    {"weight.transposed.o", "output.transposed"},
};

bool are_twins(const std::string& a, const std::string& b) {
  return std::any_of(twins.begin(), twins.end(),
                     [&](const auto& pair) { return pair.count(a) && pair.count(b); });
}

} // namespace

TEST_CASE("each planted mistake is named", "[diagnose]") {
  struct Setting {
    Ref ref;
    bool single;
    std::size_t more; ///< tokens: of many, a few queries are screened
  };
  const auto [ref, single, more] =
      GENERATE(Setting{Ref::all, false, 0}, Setting{Ref::output, false, 0},
               Setting{Ref::all, true, 0}, Setting{Ref::output, true, 44});
  Share share;
  std::size_t right = 0, all = 0;
  std::string wrong;
  for (const planted::Mistake& mistake : planted::mistakes())
    for (const planted::Base& base : planted::bases(3, single, more)) {
      const std::optional<Case> one = planted_case(base, {&mistake});
      if (!one || !share.takes()) continue;
      const Diagnosis d = diagnose(one->layer, reference_of(one->stages, ref), false, 1);
      INFO(one->name << ": " << text_of(d));
      if (ref == Ref::output && without_trace.count(one->name)) {
        CHECK(d.changes.empty());
        CHECK(d.equal != (std::string(mistake.id) == "dropout.on"));
        continue;
      }
      ++all;
      const std::vector<std::string> ids = ids_of(d);
      if (d.explained && ids.size() == 1 &&
          (ids[0] == mistake.id ||
           (holds(d.same_numbers, mistake.id) && are_twins(ids[0], mistake.id)))) {
        ++right;
        check_settings(*one, d.changes[0]);
      } else {
        wrong += fmt::format("{}: {}\n", one->name, text_of(d));
      }
    }
  INFO(right << " of " << all << "; not:\n" << wrong);
  CHECK(all > 150 / one_of);
  CHECK(static_cast<double>(right) >= 0.95 * static_cast<double>(all));
}

TEST_CASE("diff names the first stage that a planted mistake makes wrong", "[diagnose][diff]") {
  for (const planted::Mistake& mistake : planted::mistakes())
    for (const planted::Base& base : planted::bases(3, false)) {
      const std::optional<Case> one = planted_case(base, {&mistake});
      if (!one || *mistake.stage == '\0') continue;
      Reference reference;
      reference.stages = reference_of(one->stages, Ref::all);
      std::sort(reference.stages.begin(), reference.stages.end(),
                [](const auto& a, const auto& b) { return a.stage < b.stage; });
      const Diff found = diff(one->layer, reference);
      INFO(one->name);
      REQUIRE(found.first);
      // Without norms the next step that is there, too, shows it first.
      const bool rotates = one->layer.settings.rope != mha::Rope::none;
      const bool norms = std::string(mistake.id) == "norm.missing";
      CHECK(name_of(*found.first) == (norms && rotates ? "q_rope" : mistake.stage));
    }
}

TEST_CASE("two mistakes at different stages are found where every stage is known", "[diagnose]") {
  std::size_t right = 0, all = 0;
  std::string wrong;
  Random random(11);
  const std::vector<planted::Mistake>& list = planted::mistakes();
  const std::vector<planted::Base> bases = planted::bases(4, false);
  while (all < 150 / one_of) {
    const planted::Mistake& a = list[random.count(0, list.size() - 1)];
    const planted::Mistake& b = list[random.count(0, list.size() - 1)];
    const planted::Base& base = bases[random.count(0, 2)];
    const bool steps = *a.stage != '\0' && *b.stage != '\0';
    if (!steps || stage_named(a.stage) >= stage_named(b.stage)) continue;
    const std::optional<Case> one = planted_case(base, {&a, &b});
    if (!one) continue;
    ++all;
    const Diagnosis d = diagnose(one->layer, reference_of(one->stages, Ref::all), false, 1);
    std::vector<std::string> told = ids_of(d);
    told.insert(told.end(), d.same_numbers.begin(), d.same_numbers.end());
    if (d.explained && d.changes.size() == 2 && holds(told, a.id) && holds(told, b.id))
      ++right;
    else
      wrong += fmt::format("{}: {}\n", one->name, text_of(d));
  }
  INFO(right << " of " << all << "; not:\n" << wrong);
  CHECK(static_cast<double>(right) >= 0.8 * static_cast<double>(all));
}

namespace {

/// The reference's stages of a random layer, in the form that its files have.
std::vector<ReferenceStage> in_the_form_of(const Layer& layer, std::vector<ReferenceStage> known) {
  for (ReferenceStage& one : known) {
    if (layer.settings.columns && info_of(one.stage).kind != Kind::row)
      one.value = transposed(one.value);
    one.value = one.value.reshaped(layer.shape_of(one.stage));
  }
  return known;
}

} // namespace

TEST_CASE("rounding is no cause", "[diagnose]") {
  for (std::uint64_t seed = 0; seed < 200 / one_of; ++seed) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 0, 4), seed % 2 == 1);
    const Layer layer = library_layer(random.layer, random.form);
    const DType stored = std::array{DType::f32, DType::f16, DType::bf16, DType::f64}[seed / 2 % 4];
    const Ref ref = seed % 3 == 0 ? Ref::output : Ref::all;
    const Diagnosis d = diagnose(
        layer, in_the_form_of(layer, reference_of(reference::compute(random.layer), ref, stored)),
        false, 1);
    INFO("seed " << seed << ": " << random.description << " as " << name_of(stored) << "\n"
                 << text_of(d));
    CHECK(d.explained);
    for (const Change& change : d.changes) CHECK(change.id.starts_with("precision."));
  }
}

TEST_CASE("any layer can be compared with noise", "[diagnose]") {
  for (std::uint64_t seed = 0; seed < (sanitized ? 2 : 40); ++seed) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 2, 8), seed % 2 == 1);
    const Layer layer = library_layer(random.layer, random.form);
    planted::Stages stages = reference::compute(random.layer);
    Random numbers(seed);
    for (auto& [name, array] : stages)
      for (double& value : array.values) value += numbers.uniform(-1, 1);
    const auto is_number = [](double value) { return std::isfinite(value); };
    if (std::ranges::none_of(stages.at("output").values, is_number)) continue; // NaN stays NaN
    const Diagnosis d = diagnose(
        layer, in_the_form_of(layer, reference_of(stages, seed % 3 == 0 ? Ref::all : Ref::output)),
        false, 1);
    INFO("seed " << seed << ": " << random.description << "\n" << text_of(d));
    CHECK_FALSE(d.explained);
  }
}

TEST_CASE("noise has no explanation", "[diagnose]") {
  Share share;
  for (const Ref ref : {Ref::all, Ref::output})
    for (const planted::Base& base : planted::bases(8, false)) {
      if (!share.takes()) continue;
      planted::Stages stages = reference::compute(base.layer);
      Random random(13);
      for (auto& [name, array] : stages)
        for (double& value : array.values)
          if (std::isfinite(value)) value = random.uniform(-1, 1);
      const Diagnosis d =
          diagnose(library_layer(base.layer, base.form), reference_of(stages, ref), false, 1);
      INFO(base.name << ": " << text_of(d));
      CHECK_FALSE(d.explained);
      CHECK(d.changes.empty());
    }
}
