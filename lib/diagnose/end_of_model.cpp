#include <mha/diagnose/end_of_model.hpp>

#include <mha/compare/streams.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/diagnose/trials.hpp>
#include <mha/tensor/not_saved.hpp>

#include <algorithm>

namespace mha {

EndOfModel::EndOfModel(const Layer& ends, const ReferenceStage& known, std::size_t threads)
    : ends_(ends), stage_(known.stage), threads_(threads) {
  ends_.dims.batched = true;
  theirs_ = with_given(ends_, stage_, known.value).given[index_of(stage_)];
  tolerance_ = std::max(tolerance_of(ends_.dtype), tolerance_of(known.stored));
  if (!is_short(known.stored)) return;
  half_ = known.stored;
  rounding_ = thresholds::rounded_steps * storing_error(known.stored);
}

void EndOfModel::allow_rounding(const Tensor& unchanged, const Tensor& rounded) {
  EndOfModel own = *this;
  own.theirs_ = shown(unchanged);
  rounding_ = std::max(rounding_, thresholds::rounded_steps * own.after(rounded).error);
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

double EndOfModel::steps_between(const Tensor& from, const Tensor& to) const {
  return projection(theirs_, to, from);
}

Agreement EndOfModel::after(const Tensor& stream, const Change* of_end) const {
  const Changes made = of_end ? Changes{of_end} : Changes{};
  return of_shown(value_of(changed(with_stream(ends_, stream), made), stage_, threads_));
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

Tensor stream_after(const Layer& layer, std::size_t threads) {
  return value_of(layer, Stage::resid_post, threads);
}

Layer on_stream(const Layer& layer, const Tensor& stream) {
  return plain_form(with_stream(layer, stream));
}

std::vector<Tensor> streams_through(const std::vector<Layer>& layers, const Tensor& stream,
                                    std::size_t threads, std::optional<DType> half) {
  std::vector<Tensor> streams{stream};
  for (const Layer& layer : layers) {
    Tensor next = stream_after(on_stream(layer, streams.back()), threads);
    streams.push_back(half ? rounded_to(next, *half) : std::move(next));
  }
  return streams;
}

bool is_same(const Change& a, const Change& b) {
  return a.id == b.id && a.did == b.did;
}

} // namespace mha
