#include <mha/compare/verdict.hpp>

#include <mha/compare/names.hpp>
#include <mha/layer/graph.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace mha {

namespace {

/// Whether two origins, "FILE: TENSOR", are one tensor, even by different paths of its file.
bool same_place(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const std::size_t at = a.rfind(": "), other = b.rfind(": ");
  if (at == std::string::npos || other == std::string::npos || a.substr(at) != b.substr(other))
    return false;
  std::error_code none; // standard input and a program's memory are not files
  return std::filesystem::equivalent(a.substr(0, at), b.substr(0, other), none);
}

/// The tensor of the layer that is this stage; "" if the stage is computed.
std::string origin_of(const LoadedLayer& loaded, Stage stage) {
  const Layer& layer = loaded.layer;
  const bool is_X = !layer.has_given(stage) &&
                    (stage == Stage::resid_pre ||
                     (stage == Stage::x && layer.settings.input_norm == InputNorm::none));
  if (!is_X && !layer.has_given(stage)) return "";
  for (const Origin& origin : loaded.origins) {
    const bool packed = origin.name == "Q" || origin.name == "K" || origin.name == "V";
    const Stage of_packed = origin.name == "Q"   ? Stage::q
                            : origin.name == "K" ? Stage::k
                                                 : Stage::v;
    if (is_X ? origin.name == "X" : packed ? of_packed == stage : find_stage(origin.name) == stage)
      return origin.source;
  }
  return "";
}

/// Whether a stage is an input of the computation.
bool is_input(const Layer& layer, Stage stage) {
  if (layer.has_given(stage)) return comes_before(stage, Stage::scores);
  return stage == Stage::resid_pre ||
         (stage == Stage::x && layer.settings.input_norm == InputNorm::none);
}

/// Keys and values that were tiled for the query heads agree head by head in any order of the
/// heads; only stages computed from them show which head a query reads.
void add_tiled(const Layer& layer, const Diff& found, Outcome& outcome) {
  const bool shown = std::ranges::any_of(
      outcome.compared, [](Stage stage) { return !comes_before(stage, Stage::scores); });
  for (const StageDiff& row : found.stages)
    if (row.reference->tiled && !shown)
      outcome.not_compared.push_back(
          {fmt::format("the order of {}'s heads", name_of(row.stage)),
           fmt::format("query head h has h mod {} there and h / {}, rounded down, here: save the "
                       "scores or the output",
                       layer.dims.H_kv, layer.dims.group())});
}

} // namespace

std::string_view name_of(DiffStatus status) {
  constexpr std::array<std::string_view, 5> names{"equal", "close", "first", "inherited",
                                                  "same tensor"};
  return names[static_cast<std::size_t>(status)];
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
  case Verdict::equal:
    return "equal";
  case Verdict::differs:
    return "differs";
  default:
    return "incomplete";
  }
}

int exit_code_of(Verdict verdict) {
  return verdict == Verdict::equal ? 0 : verdict == Verdict::differs ? 1 : 2;
}

Verdict worse_of(Verdict a, Verdict b) {
  return std::max(a, b); // in the order of the enum
}

void mark_same_tensors(const LoadedLayer& loaded, Diff& found) {
  for (StageDiff& row : found.stages) {
    if (!row.difference.within) continue; // e.g. read in other axes
    const std::string ours = origin_of(loaded, row.stage);
    if (!ours.empty() && same_place(ours, row.reference->origin)) row.status = DiffStatus::same;
  }
}

Outcome outcome_of(const Layer& layer, const Reference& reference, const Diff& found,
                   const Demand& demand) {
  Outcome outcome;
  outcome.not_compared = reference.not_compared;
  for (const std::string& name : found.not_compared)
    outcome.not_compared.push_back({name, "its settings are not known here"});
  outcome.only_inputs = !demand.whole && demand.stages.empty();
  for (const StageDiff& row : found.stages) {
    if (row.status == DiffStatus::same) continue;
    outcome.compared.push_back(row.stage);
    outcome.only_inputs = outcome.only_inputs && is_input(layer, row.stage);
  }
  add_tiled(layer, found, outcome);
  if (!found.equal() || reference.has_misshapen())
    outcome.verdict = Verdict::differs;
  else if (outcome.compared.empty() || outcome.only_inputs || !outcome.not_compared.empty())
    outcome.verdict = Verdict::incomplete;
  return outcome;
}

std::vector<Stage> choose(Reference& reference, const std::vector<Stage>& stages) {
  const auto chosen = [&](Stage stage) { return std::ranges::count(stages, stage) > 0; };
  std::vector<Stage> missing;
  for (Stage stage : stages) {
    const bool has = reference.find(stage) ||
                     std::ranges::any_of(reference.ambiguous,
                                         [&](const AmbiguousStage& word) {
                                           return std::ranges::count(word.readings, stage,
                                                                     &ReferenceStage::stage) > 0;
                                         }) ||
                     std::ranges::any_of(reference.not_compared, [&](const NotCompared& one) {
                       return one.misshapen == stage;
                     });
    if (!has) missing.push_back(stage);
  }
  std::erase_if(reference.stages, [&](const ReferenceStage& one) { return !chosen(one.stage); });
  for (AmbiguousStage& one : reference.ambiguous)
    std::erase_if(one.readings,
                  [&](const ReferenceStage& reading) { return !chosen(reading.stage); });
  std::erase_if(reference.ambiguous,
                [](const AmbiguousStage& one) { return one.readings.empty(); });
  std::erase_if(reference.not_compared,
                [&](const NotCompared& one) { return !one.misshapen || !chosen(*one.misshapen); });
  return missing;
}

} // namespace mha
