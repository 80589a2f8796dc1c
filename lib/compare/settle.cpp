#include <mha/compare/settle.hpp>

#include <mha/compare/choices.hpp>
#include <mha/compare/diff.hpp>
#include <mha/compare/other_readings.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <tuple>

namespace mha {

namespace {

/// An order of axes is taken if its direction is similar to ours and the others' are not.
constexpr double alike = 0.5, clearly = 0.2;
/// A reading with this cosine is the stage with rounding.
constexpr double nearly_same = 0.998;
/// Combinations of readings that are tried, each by a whole comparison, and those that are
/// returned.
constexpr std::size_t tried_at_most = 24, returned_at_most = 4;
/// In larger maps, combinations are not tried.
constexpr std::size_t small_map = std::size_t{1} << 24;

/// The layer's values, each stage computed once.
class Ours {
public:
  Ours(const Layer& layer, std::size_t threads) : layer_(layer), threads_(threads) {}

  const Layer& layer() const { return layer_; }
  const Tensor& value_of(Stage stage) {
    auto at = values_.find(stage);
    if (at == values_.end())
      at = values_.emplace(stage, trace(layer_, {stage}, {}, threads_).value(stage)).first;
    return at->second;
  }

  /// Compares one reading of a stage of the reference.
  Difference against(const ReferenceStage& reading, const Tensor& theirs) {
    const Stage stage = reading.stage;
    Tolerance tolerance = default_tolerance(coarser_of(layer_.dtype, reading.stored));
    tolerance.absolute += reading.resolution;
    return compare(layer_, stage, as_saved(reading, value_of(stage)), theirs, tolerance,
                   reading.stored);
  }

private:
  const Layer& layer_;
  std::size_t threads_;
  std::map<Stage, Tensor> values_;
};

/// One order of axes of a stage, and its comparison.
struct Order {
  std::string text;
  Tensor value;
  Difference difference;
};

void take_order(ReferenceStage& stage, const Order& order) {
  stage.value = order.value, stage.rearranged = order.text;
  stage.doubtful = false;
  stage.other_axes.clear();
}

/// The orders that a stage's shape fits, its own first.
std::vector<Order> orders_of(Ours& ours, const ReferenceStage& stage) {
  std::vector<Order> orders{{stage.rearranged, stage.value, ours.against(stage, stage.value)}};
  for (const auto& [text, value] : stage.other_axes)
    orders.push_back({text, value, ours.against(stage, value)});
  return orders;
}

/// The order that agrees, or whose direction is clearly the most similar to ours, if any.
std::optional<std::size_t> decided(const std::vector<Order>& orders) {
  std::size_t best = 0;
  double second = -1;
  for (std::size_t i = 0; i < orders.size(); ++i)
    if (orders[i].difference.within) return i;
  for (std::size_t i = 1; i < orders.size(); ++i)
    if (orders[i].difference.cosine > orders[best].difference.cosine) best = i;
  for (std::size_t i = 0; i < orders.size(); ++i)
    if (i != best) second = std::max(second, orders[i].difference.cosine);
  const double cosine = orders[best].difference.cosine;
  if (cosine > alike && cosine > second + clearly) return best;
  return std::nullopt;
}

/// Decides the axes of stages that fit several: T = H, or (B · H, T, d).
void settle_axes(Ours& ours, const std::vector<ReferenceStage*>& stages,
                 std::vector<std::string>& notes) {
  std::map<std::string, std::size_t> votes;
  std::vector<std::pair<ReferenceStage*, std::vector<Order>>> open;
  const auto take = [&](ReferenceStage& stage, const Order& order) {
    if (order.text != stage.rearranged)
      notes.push_back(fmt::format("{}: {}", order.text, stage.source));
    take_order(stage, order);
  };
  for (ReferenceStage* stage : stages) {
    if (stage->other_axes.empty()) continue;
    std::vector<Order> orders = orders_of(ours, *stage);
    if (const std::optional<std::size_t> best = decided(orders)) {
      ++votes[orders[*best].text];
      take(*stage, orders[*best]);
    } else {
      open.emplace_back(stage, std::move(orders));
    }
  }
  for (auto& [stage, orders] : open) { // in the order of the other stages
    const Order* chosen = nullptr;
    std::size_t most = 0;
    for (const Order& order : orders) {
      const auto votes_for = votes.find(order.text);
      if (votes_for != votes.end() && votes_for->second > most)
        most = votes_for->second, chosen = &order;
    }
    if (chosen)
      take(*stage, *chosen);
    else
      stage->other_axes.clear(); // stays doubtful
  }
}

/// Decides to which head a stage without an axis of heads belongs, or whether it is the mean.
void settle_heads(Ours& ours, ReferenceStage& stage, std::vector<std::string>& notes) {
  if (!stage.one_of_heads) return;
  const bool may_be_mean = stage.mean_of_heads;
  const std::optional<std::size_t> head =
      nearest_head(ours.layer(), stage, ours.value_of(stage.stage));
  stage.one_of_heads = false;
  std::string whose = "the mean over the heads", others = "any head alone";
  if (head) {
    stage.value = of_head_alone(ours.layer(), stage.stage, stage.value, *head);
    stage.mean_of_heads = false;
    whose = fmt::format("head {} alone", *head);
    others = may_be_mean ? "another alone or to their mean" : "another alone";
  }
  const bool agrees = ours.against(stage, stage.value).within;
  notes.push_back(
      fmt::format("{}: {}{}", stage.source, whose,
                  agrees ? "" : fmt::format(", to which it is nearer than to {}", others)));
}

/// A choice of readings, better the fewer steps are wrong.
struct Choice {
  Reference reference;
  std::size_t wrong = 0, outside = 0;
  double cosine = 0;

  bool better_than(const Choice& other) const {
    return std::tuple(wrong, outside, -cosine) <
           std::tuple(other.wrong, other.outside, -other.cosine);
  }
};

void put_in(Reference& reference, const AmbiguousStage& ambiguous, const ReferenceStage& chosen) {
  std::string others;
  for (const ReferenceStage& one : ambiguous.readings)
    if (one.stage != chosen.stage)
      others += fmt::format("{}{}", others.empty() ? "" : " or ", name_of(one.stage));
  reference.notes.push_back(
      fmt::format("{} is taken as {}{}", chosen.source, name_of(chosen.stage),
                  others.empty() ? "" : fmt::format(", to which it is closer than to {}", others)));
  if (!others.empty()) reference.doubts.push_back(reference.notes.back());
  if (!chosen.rearranged.empty())
    reference.notes.push_back(fmt::format("{}: {}", chosen.source, chosen.rearranged));
  reference.stages.push_back(chosen);
}

void judge(const Layer& layer, Choice& choice, std::size_t threads) {
  const Diff found = diff(layer, choice.reference, {}, threads);
  for (const StageDiff& row : found.stages) {
    choice.cosine += row.difference.cosine;
    if (row.status == DiffStatus::equal || row.status == DiffStatus::close) continue;
    ++choice.outside;
    if (row.own != false) ++choice.wrong;
  }
}

/// Leaves out a name whose stages are all taken. Nothing is lost if a taken stage has its numbers.
void leave_out(Reference& reference, const std::string& word, bool same, const char* why) {
  if (same)
    reference.skipped.push_back(fmt::format("{} ({})", word, why));
  else
    reference.not_compared.push_back({word, std::string(why) + ", with other numbers"});
}

bool has_numbers_of_any(const Reference& reference, const std::vector<ReferenceStage>& readings) {
  return std::ranges::any_of(readings, [&](const ReferenceStage& one) {
    const ReferenceStage* taken = reference.find(one.stage);
    return taken && same_numbers(taken->value, one.value);
  });
}

/// Removes readings of stages that the reference has by another name.
void narrow(Ours& ours, Reference& reference) {
  std::map<std::string, bool> same;
  for (AmbiguousStage& ambiguous : reference.ambiguous) {
    same[ambiguous.word] = has_numbers_of_any(reference, ambiguous.readings);
    std::erase_if(ambiguous.readings,
                  [&](const ReferenceStage& one) { return reference.find(one.stage); });
    std::vector<ReferenceStage*> readings;
    for (ReferenceStage& one : ambiguous.readings) readings.push_back(&one);
    std::vector<std::string> notes_when_chosen;
    settle_axes(ours, readings, notes_when_chosen);
  }
  std::erase_if(reference.ambiguous, [&](const AmbiguousStage& ambiguous) {
    if (!ambiguous.readings.empty()) return false;
    leave_out(reference, ambiguous.word, same[ambiguous.word],
              "the reference has its stages by their own names");
    return true;
  });
}

using Indices = std::vector<std::size_t>; // a reading for each ambiguous name

/// The readings of each name, the best by themselves first; only those that agree, if any do.
std::vector<Indices> candidates_of(Ours& ours, const Reference& reference) {
  std::vector<Indices> lists;
  for (const AmbiguousStage& ambiguous : reference.ambiguous) {
    std::vector<Difference> found;
    Indices order(ambiguous.readings.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const ReferenceStage& one = ambiguous.readings[i];
      order[i] = i;
      found.push_back(ours.against(one, one.value));
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      if (found[a].within != found[b].within) return found[a].within;
      return found[a].cosine > found[b].cosine;
    });
    if (found[order[0]].within) {
      Indices agreeing;
      for (std::size_t i : order)
        if (found[i].within) agreeing.push_back(i); // without a mask, masked and scaled are equal
      order = std::move(agreeing);
    } else if (order.size() > 1 && found[order[0]].cosine > nearly_same &&
               found[order[1]].cosine < nearly_same - clearly / 4) {
      // Grown rounding does not turn one stage into another.
      order.erase(order.begin() + 1, order.end());
    }
    lists.push_back(std::move(order));
  }
  return lists;
}

/// Whether an unfinished choice already has this stage.
bool has_taken(const Reference& reference, const Indices& begun, Stage stage) {
  for (std::size_t word = 0; word < begun.size(); ++word) {
    const std::vector<ReferenceStage>& readings = reference.ambiguous[word].readings;
    if (begun[word] < readings.size() && readings[begun[word]].stage == stage) return true;
  }
  return false;
}

/// Choices of one reading for each name, without a stage twice. A name whose stages are all taken
/// is left out; its index is the number of its readings.
std::vector<Indices> choices_of(const Reference& reference, const std::vector<Indices>& lists) {
  std::vector<Indices> choices{{}};
  for (std::size_t word = 0; word < lists.size(); ++word) {
    const std::vector<ReferenceStage>& readings = reference.ambiguous[word].readings;
    std::vector<Indices> longer;
    for (const Indices& begun : choices) {
      const std::size_t before = longer.size();
      for (std::size_t reading : lists[word]) {
        if (has_taken(reference, begun, readings[reading].stage)) continue;
        longer.push_back(begun);
        longer.back().push_back(reading);
      }
      if (longer.size() > before) continue;
      longer.push_back(begun);
      longer.back().push_back(readings.size());
    }
    if (longer.size() > tried_at_most) longer.resize(tried_at_most);
    choices = std::move(longer);
  }
  return choices;
}

Choice chosen(const Reference& reference, const Indices& readings) {
  Choice choice;
  choice.reference = reference;
  choice.reference.ambiguous.clear();
  std::vector<const AmbiguousStage*> left;
  for (std::size_t word = 0; word < readings.size(); ++word) {
    const AmbiguousStage& ambiguous = reference.ambiguous[word];
    if (readings[word] < ambiguous.readings.size())
      put_in(choice.reference, ambiguous, ambiguous.readings[readings[word]]);
    else
      left.push_back(&ambiguous);
  }
  std::sort(choice.reference.stages.begin(), choice.reference.stages.end(),
            [](const auto& a, const auto& b) { return comes_before(a.stage, b.stage); });
  for (const AmbiguousStage* ambiguous : left)
    leave_out(choice.reference, ambiguous->word,
              has_numbers_of_any(choice.reference, ambiguous->readings),
              "the reference has its stages by other names");
  return choice;
}

} // namespace

std::vector<Reference> settled(const Layer& layer, Reference reference, std::size_t threads) {
  Ours ours(layer, threads);
  std::vector<ReferenceStage*> stages;
  for (ReferenceStage& stage : reference.stages) stages.push_back(&stage);
  settle_axes(ours, stages, reference.notes);
  for (ReferenceStage* stage : stages) settle_heads(ours, *stage, reference.notes);
  if (is_mixture(layer) && order_experts(layer, reference))
    reference.notes.push_back(
        fmt::format("{}: the experts are not in the order of their weights, in which they are "
                    "compared",
                    reference.find(Stage::experts)->source));
  narrow(ours, reference);
  if (reference.ambiguous.empty()) return {std::move(reference)};
  std::vector<Indices> indices = choices_of(reference, candidates_of(ours, reference));
  if (layer.dims.H * layer.dims.T * layer.dims.S_all > small_map) indices.resize(1);
  std::vector<Choice> choices;
  for (const Indices& readings : indices) choices.push_back(chosen(reference, readings));
  if (choices.size() > 1)
    for (Choice& choice : choices) judge(layer, choice, threads);
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.better_than(b); });
  std::vector<Reference> best;
  for (Choice& choice : choices)
    if (choice.wrong == choices[0].wrong && best.size() < returned_at_most)
      best.push_back(std::move(choice.reference));
  return best;
}

void settle(const Layer& layer, Reference& reference, std::size_t threads) {
  reference = std::move(settled(layer, std::move(reference), threads).front());
}

} // namespace mha
