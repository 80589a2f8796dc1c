#include <mha/explain/explain.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

std::size_t count_if_seen(const HeadExplanation& head, Stage stage, bool (*test)(double)) {
  const std::vector<double>& values = head.values.at(stage);
  std::size_t count = 0;
  for (std::size_t j = 0; j < values.size(); ++j)
    if (!head.is_masked(j) && test(values[j])) ++count;
  return count;
}

bool is_infinite(double value) {
  return std::isinf(value);
}
bool is_not_finite(double value) {
  return !std::isfinite(value);
}

/// "3 exponentials are", "1 exponential is".
std::string exponentials_are(std::size_t count) {
  return count == 1 ? std::string("1 exponential is") : fmt::format("{} exponentials are", count);
}

/// Notes a failure of the softmax that does not subtract the maximum.
void note_naive(const Explanation& explanation, const HeadExplanation& head,
                std::vector<Message>& notes) {
  if (!head.has(Stage::exp) || !head.has(Stage::row_sum)) return;
  const bool f64 = explanation.dtype == DType::f64;
  const std::size_t infinite = count_if_seen(head, Stage::exp, is_infinite);
  const double sum = head.value(Stage::row_sum);
  if (infinite > 0)
    notes.push_back(
        message("overflow: {} infinite, since {} ends at e^{} and naive subtracts no maximum; "
                "α = inf / inf = nan. <softmax> stable gives the weights",
                exponentials_are(infinite), name_of(explanation.dtype), f64 ? "709.8" : "88.7"));
  else if (std::isinf(sum))
    notes.emplace_back(
        "overflow: the exponentials are finite but their sum is not, so every α is 0");
  else if (sum == 0)
    notes.push_back(
        message("underflow: every exponential is 0, since {} ends at e^{} and naive subtracts no "
                "maximum; α = 0 / 0 = nan. <softmax> stable gives the weights",
                name_of(explanation.dtype), f64 ? "-745.1" : "-103.9"));
}

/// Notes the result of `masked_rows` in a row without keys to attend to.
void note_masked_row(const Explanation& explanation, const HeadExplanation& head,
                     std::vector<Message>& notes) {
  if (head.sink) {
    notes.emplace_back("every key is masked: the sink takes everything, and head_out is 0");
    return;
  }
  switch (explanation.settings.masked_rows) {
  case MaskedRows::zero:
    notes.emplace_back("every key is masked: masked_rows zero makes every α 0, so head_out is 0");
    break;
  case MaskedRows::nan:
    notes.emplace_back("every key is masked: masked_rows nan makes every α nan (0 / 0)");
    break;
  case MaskedRows::uniform:
    notes.emplace_back(fmt::format(
        "every key is masked: masked_rows uniform makes every α 1/{}, so head_out is the "
        "mean of the values",
        explanation.dims.S_all));
    break;
  }
}

/// The first stage with NaN or infinity that is not a mask's: among the head's stages and those
/// before heads are joined, or (`joined`) among the joined ones.
const StageInfo* first_not_finite(const Explanation& explanation, const HeadExplanation& head,
                                  bool joined) {
  const auto bad = [](const std::vector<double>& values) {
    return std::any_of(values.begin(), values.end(), is_not_finite);
  };
  const bool all_masked = !head.masked.empty() && head.masked_count() == head.masked.size();
  for (const StageInfo& info : stages()) {
    // A key that is not finite shows in its score.
    bool found = false;
    if (explanation.has(info.stage))
      found = joined == !comes_before(info.stage, Stage::concat) &&
              bad(explanation.values.at(info.stage));
    else if (joined)
      continue;
    else if (head.has(info.stage) && info.kind == Kind::map)
      found = count_if_seen(head, info.stage, is_not_finite) > 0;
    else if (head.has(info.stage) && !(all_masked && info.kind == Kind::row))
      found = bad(head.values.at(info.stage));
    if (found) return &info;
  }
  return nullptr;
}

/// The first stage of a head that is not finite. Joined stages count for every head, unless one of
/// the heads is the cause.
const StageInfo* first_not_finite(const Explanation& explanation, const HeadExplanation& head) {
  if (const StageInfo* own = first_not_finite(explanation, head, false)) return own;
  for (const HeadExplanation& other : explanation.heads)
    if (first_not_finite(explanation, other, false)) return nullptr;
  return first_not_finite(explanation, head, true);
}

void note_first_not_finite(const Explanation& explanation, const HeadExplanation& head,
                           std::vector<Message>& notes) {
  if (const StageInfo* info = first_not_finite(explanation, head))
    notes.emplace_back(fmt::format("nan or infinity comes in at {}", info->name));
}

} // namespace

bool has_not_finite(const Explanation& explanation, const HeadExplanation& head) {
  return first_not_finite(explanation, head) != nullptr;
}

std::vector<Message> notes_on(const Explanation& explanation, const HeadExplanation& head,
                              const Message& overflow) {
  std::vector<Message> notes;
  const bool computed = head.has(Stage::weights) && !contains(explanation.given, Stage::weights);
  const bool nothing_allowed = !head.masked.empty() && head.masked_count() == head.masked.size();
  if (computed && nothing_allowed) {
    note_masked_row(explanation, head, notes);
    return notes;
  }
  if (computed && explanation.settings.softmax == Softmax::naive)
    note_naive(explanation, head, notes);
  if (notes.empty() && !overflow.empty()) notes.push_back(overflow);
  if (notes.empty()) note_first_not_finite(explanation, head, notes);
  if (contains(explanation.given, Stage::weights)) {
    double sum = 0;
    for (double weight : head.values.at(Stage::weights)) sum += weight;
    if (std::isfinite(sum) && std::abs(sum - 1) > 1e-2)
      notes.emplace_back(fmt::format(
          "the weights are given and sum to {:.4g}: a sink, dropout, or no softmax over "
          "these keys",
          sum));
  }
  return notes;
}

} // namespace mha
