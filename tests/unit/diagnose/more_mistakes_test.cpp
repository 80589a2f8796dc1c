// The mistakes of real bug reports (tests/support/planted_more.hpp), each named, in full and in
// half precision.

#include <mha/diagnose/diagnose.hpp>

#include "support/library_input.hpp"
#include "support/planted_more.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <set>

using namespace mha;

namespace {

struct MorePlanted {
  Layer layer;
  planted::Stages stages;
  std::string name, id;
};

std::vector<MorePlanted> planted_of(const std::vector<planted::Mistake>& mistakes) {
  std::vector<MorePlanted> list;
  for (const planted::Mistake& mistake : mistakes)
    for (planted::Base& base : planted::bases(3, false)) {
      Random random(5);
      if (!mistake.prepare(base.layer, random)) continue;
      planted::Implementation other{base.layer, {}, {}};
      mistake.plant(other);
      list.push_back({library_layer(base.layer, base.form), other.run(),
                      fmt::format("{} on {}", mistake.id, base.name), mistake.id});
    }
  return list;
}

std::vector<ReferenceStage> known_of(const MorePlanted& one, bool all, DType stored) {
  std::vector<ReferenceStage> known;
  const char* const last = one.stages.count("residual") ? "residual" : "output";
  for (const auto& [name, array] : one.stages)
    if (all || name == last)
      known.push_back({stage_named(name),
                       convert(convert(tensor_of(array, DType::f64), stored), DType::f64), stored,
                       "", ""});
  return known;
}

std::string told(const Diagnosis& d) {
  std::string text = d.explained ? "explained:" : "not explained:";
  for (const Change& change : d.changes) text += fmt::format(" {} ({})", change.id, change.did);
  for (const std::string& id : d.same_numbers) text += " | same: " + id;
  if (d.unexplained) text += fmt::format(" | differs at {}", name_of(*d.unexplained));
  return text + fmt::format(" {:.2g} -> {:.2g}", d.error_before, d.error_after);
}

bool names(const Diagnosis& d, const std::string& id) {
  if (!d.explained || d.changes.size() != 1) return false;
  return d.changes[0].id == id || std::ranges::count(d.same_numbers, id) > 0;
}

/// How many are named, and which are not.
struct Score {
  std::size_t right = 0, all = 0;
  std::string wrong;
  double share() const { return static_cast<double>(right) / static_cast<double>(all); }
};

Score score_of(const std::vector<planted::Mistake>& mistakes, bool all, DType stored,
               const std::set<std::string>& without = {}) {
  Score score;
  for (const MorePlanted& one : planted_of(mistakes)) {
    if (without.count(one.name)) continue;
    const Diagnosis d = diagnose(one.layer, known_of(one, all, stored), false, 1);
    ++score.all;
    if (names(d, one.id))
      ++score.right;
    else
      score.wrong += fmt::format("{}: {}\n", one.name, told(d));
  }
  return score;
}

std::vector<planted::Mistake> more_mistakes() {
  std::vector<planted::Mistake> list = planted::rotary_mistakes();
  for (const auto& group :
       {planted::norm_mistakes(), planted::mask_mistakes(), planted::other_mistakes()})
    list.insert(list.end(), group.begin(), group.end());
  return list;
}

} // namespace

TEST_CASE("each mistake of the reports is named", "[diagnose][more]") {
  const bool all = GENERATE(true, false);
  const Score score = score_of(more_mistakes(), all, DType::f64);
  INFO((all ? "all stages: " : "the output: ") << score.right << " of " << score.all << "; not:\n"
                                               << score.wrong);
  CHECK(score.all > 100);
  CHECK(score.share() >= (all ? 0.97 : 0.9));
}

TEST_CASE("each mistake of the reports is named where the reference is in half precision",
          "[diagnose][more]") {
  const auto [stored, all] = GENERATE(std::pair(DType::f16, true), std::pair(DType::bf16, true),
                                      std::pair(DType::f16, false), std::pair(DType::bf16, false));
  const Score score = score_of(more_mistakes(), all, stored);
  INFO(name_of(stored) << (all ? ", all stages: " : ", the output: ") << score.right << " of "
                       << score.all << "; not:\n"
                       << score.wrong);
  CHECK(score.share() >= (all ? 0.85 : 0.7));
}
