#include <mha/diagnose/search.hpp>

#include <mha/diagnose/thresholds.hpp>

#include <algorithm>

namespace mha {

bool explains(const Agreement& before, const Agreement& after, double rounding) {
  if (after.error < rounding && after.error < thresholds::left_within_rounding * before.error)
    return true;
  if (after.agrees && after.error < thresholds::left_by_agreement * before.error) return true;
  return after.error < thresholds::small_error &&
         after.error < thresholds::left_of_small_error * before.error;
}

bool may_explain(const Agreement& before, const Agreement& after, double rounding) {
  return after.error < 2 * rounding || after.error < thresholds::left_by_likely * before.error ||
         explains(before, after, rounding);
}

EndScreen::EndScreen(const EndOfModel& end, const Tensor& unchanged)
    : end_(end),
      unchanged_(unchanged),
      part_(end.part(end.saved_tokens(thresholds::screened_tokens))),
      some_(end.of(part_)),
      before_(some_.after(token_rows(unchanged, part_.tokens))) {}

bool EndScreen::may_explain(const Tensor& rows, const Change* of_end, const Tensor& stream) const {
  const EndSample needed = of_end ? part_.needed_for({of_end}) : part_;
  if (needed == part_) return mha::may_explain(before_, some_.after(rows, of_end), end_.rounding());
  const EndOfModel end = end_.of(needed);
  const bool all = needed.tokens.empty();
  return mha::may_explain(end.after(all ? unchanged_ : token_rows(unchanged_, part_.tokens)),
                          end.after(all ? stream : rows, of_end), end_.rounding());
}

Search::Search(const StreamView& view, const Tensor& unchanged, const EndScreen* screen)
    : view_(view), screen_(screen) {
  for (std::size_t i = 0; i < view.stages(); ++i)
    before_.push_back(view.agreement(i, unchanged, nullptr));
}

/// The stages under a change if it explains them: each agrees or is explained, and at least one is
/// explained.
std::optional<std::vector<Diagnosis::Compared>> Search::explained_by(const Tensor& stream,
                                                                     const Change* of_end) const {
  std::vector<Diagnosis::Compared> stages;
  bool one_is = false;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const Agreement after = view_.agreement(i, stream, of_end);
    const bool is_explained = explains(before_[i], after, view_.rounding(i));
    if (!is_explained && !after.agrees) return std::nullopt;
    one_is = one_is || is_explained;
    stages.push_back({view_.stage(i), before_[i], after, {}});
    stages.back().after.agrees = true;
  }
  return one_is ? std::optional(std::move(stages)) : std::nullopt;
}

void Search::try_one(const StreamCandidate& candidate) {
  const auto stages = if_allowed([&]() -> std::optional<std::vector<Diagnosis::Compared>> {
    const bool of_some = screen_ && candidate.some_rows;
    Tensor stream = of_some ? Tensor() : candidate.stream();
    if (screen_) {
      const Tensor rows = of_some ? candidate.some_rows() : token_rows(stream, screen_->tokens());
      if (!screen_->may_explain(rows, candidate.of_end, stream)) return std::nullopt;
    }
    if (of_some) stream = candidate.stream();
    return explained_by(stream, candidate.of_end);
  });
  if (stages && *stages) take(candidate, **stages);
}

void Search::take(const StreamCandidate& candidate, std::vector<Diagnosis::Compared> stages) {
  const std::string& id = candidate.changes[0].id;
  const Agreement before = stages.back().before, after = stages.back().after;
  if (best_ && !(after.error < thresholds::clearly_less * best_->error_after)) {
    if (after.error < thresholds::same_numbers * best_->error_after && id != best_->changes[0].id)
      also(id);
    return;
  }
  if (best_) also(best_->changes[0].id);
  Diagnosis found;
  found.stages = std::move(stages);
  found.explained = true, found.changes = candidate.changes;
  found.error_before = before.error, found.error_after = after.error;
  if (best_ && best_->error_after < thresholds::same_numbers * after.error)
    found.same_numbers = best_->same_numbers;
  best_ = std::move(found);
}

void Search::also(const std::string& id) {
  if (std::ranges::find(best_->same_numbers, id) == best_->same_numbers.end())
    best_->same_numbers.push_back(id);
}

} // namespace mha
