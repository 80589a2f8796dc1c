#include <mha/diagnose/end_of_model.hpp>

#include <mha/compare/not_saved.hpp>
#include <mha/compare/streams.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/trials.hpp>

#include <algorithm>

namespace mha {

namespace {

/// The layers before round every step, of which the end shows the last only.
constexpr double rounded_steps = 3;

} // namespace

EndOfModel::EndOfModel(const Layer& ends, const ReferenceStage& known, std::size_t threads)
    : ends_(ends), stage_(known.stage), threads_(threads) {
  ends_.dims.batched = true;
  theirs_ = with_given(ends_, stage_, known.value).given[index_of(stage_)];
  tolerance_ = std::max(tolerance_of(ends_.dtype), tolerance_of(known.stored));
  if (!is_short(known.stored)) return;
  half_ = known.stored;
  rounding_ = rounded_steps * storing_error(known.stored);
}

void EndOfModel::allow_rounding(const Tensor& as_it_is, const Tensor& rounded) {
  EndOfModel own = *this;
  own.theirs_ = shown(as_it_is);
  rounding_ = std::max(rounding_, rounded_steps * own.behind(rounded).error);
}

EndOfModel EndOfModel::of(const EndSample& part) const {
  EndOfModel some = *this;
  some.ends_ = ends_of(ends_, part);
  some.theirs_ = part_of(theirs_, stage_, part);
  return some;
}

EndSample EndOfModel::part(std::vector<std::size_t> tokens) const {
  return {std::move(tokens),
          stage_ == Stage::logits ? some_logits(ends_) : std::vector<std::size_t>{}};
}

EndOfModel EndOfModel::on_threads(std::size_t threads) && {
  threads_ = threads;
  return std::move(*this);
}

Tensor EndOfModel::shown(const Tensor& stream) const {
  return value_of(with_stream(ends_, stream), stage_, threads_);
}

Agreement EndOfModel::of_shown(const Tensor& ours) const {
  return agreement_of(ours, theirs_, tolerance_);
}

double EndOfModel::steps_between(const Tensor& here, const Tensor& there) const {
  return projection(theirs_, there, here);
}

Agreement EndOfModel::behind(const Tensor& stream) const {
  return of_shown(shown(stream));
}

Agreement EndOfModel::behind(const Tensor& stream, const Change& change) const {
  return agreement_of(value_of(changed(with_stream(ends_, stream), {&change}), stage_, threads_),
                      theirs_, tolerance_);
}

std::vector<std::size_t> EndOfModel::saved_tokens(std::size_t most) const {
  std::vector<std::size_t> saved;
  for (std::size_t t = 0; t < ends_.dims.T; ++t) {
    const bool of_every_text =
        std::ranges::all_of(ends_.lengths, [t](std::size_t length) { return t < length; });
    if (of_every_text && !is_not_saved(value_at(token_rows(theirs_, {t}), 0))) saved.push_back(t);
  }
  if (saved.size() <= most) return saved;
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(saved[i * (saved.size() - 1) / (most - 1)]);
  return some;
}

bool explains_end(const Agreement& before, const Agreement& after, double rounding) {
  const bool less = after.error < 0.5 * before.error; // else it agrees by the chance of rounding
  if (after.error < rounding && after.error < 0.2 * before.error) return true;
  return (after.agrees && less) || (after.error < 1e-4 && after.error < 0.02 * before.error);
}

bool may_explain(const Agreement& before, const Agreement& after, double rounding) {
  constexpr double much_less = 0.25;
  return after.error < 2 * rounding || after.error < much_less * before.error ||
         explains_end(before, after, rounding);
}

void BestCause::take(const std::vector<Change>& changes, const Agreement& after) {
  const Change& change = changes[0];
  if (!explains_end(before_, after, end_.rounding())) return;
  if (!best_ || after.error < 0.5 * best_->error_after) {
    if (best_) also(best_->changes[0].id);
    Diagnosis found;
    found.stages.push_back({end_.stage(), before_, after, {}});
    found.stages.back().after.agrees = true;
    found.explained = true, found.changes = changes;
    found.error_before = before_.error, found.error_after = after.error;
    if (best_ && best_->error_after < 4 * after.error) found.same_numbers = best_->same_numbers;
    best_ = std::move(found);
    return;
  }
  if (after.error < 4 * best_->error_after && change.id != best_->changes[0].id) also(change.id);
}

void BestCause::also(const std::string& id) {
  if (std::ranges::find(best_->same_numbers, id) == best_->same_numbers.end())
    best_->same_numbers.push_back(id);
}

Tensor handed_on(const Layer& layer, std::size_t threads) {
  return value_of(layer, Stage::resid_post, threads);
}

Layer on_stream(const Layer& layer, const Tensor& stream) {
  return plain_form(with_stream(layer, stream));
}

std::vector<Tensor> streams_through(const std::vector<Layer>& layers, const Tensor& stream,
                                    std::size_t threads, std::optional<DType> half) {
  std::vector<Tensor> streams{stream};
  for (const Layer& layer : layers) {
    Tensor behind = handed_on(on_stream(layer, streams.back()), threads);
    streams.push_back(half ? rounded_to(behind, *half) : std::move(behind));
  }
  return streams;
}

bool is_same(const Change& a, const Change& b) {
  return a.id == b.id && a.did == b.did;
}

} // namespace mha
