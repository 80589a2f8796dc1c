#include <mha/model/predict.hpp>

#include <mha/observe/compute.hpp>
#include <mha/observe/summary.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

namespace mha {

template <class T> Prediction prediction_of(const T* logits, std::size_t vocabulary,
                                            std::size_t top, int actual,
                                            const std::vector<int>& followed) {
  // p = exp(z − max z) / Σ exp(z − max z), in double, since the vocabulary is long.
  const double largest = static_cast<double>(*std::max_element(logits, logits + vocabulary));
  double sum = 0;
  for (std::size_t i = 0; i < vocabulary; ++i)
    sum += std::exp(static_cast<double>(logits[i]) - largest);
  const auto probability = [&](std::size_t i) {
    return std::exp(static_cast<double>(logits[i]) - largest) / sum;
  };
  Prediction prediction;
  // NaN cannot be ordered, and has no probability.
  prediction.finite = std::isfinite(sum);
  if (!prediction.finite) return prediction;
  top = std::min(top, vocabulary);
  std::vector<std::size_t> order(top > 0 ? vocabulary : 0);
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  for (std::size_t i = 0; i < top; ++i)
    prediction.candidates.push_back(
        {static_cast<int>(order[i]), static_cast<double>(logits[order[i]]), probability(order[i])});
  const auto rank = [&](std::size_t id) {
    return 1 + static_cast<std::size_t>(std::count_if(logits, logits + vocabulary,
                                                      [&](T other) { return other > logits[id]; }));
  };
  for (const int one : followed) {
    const auto id = static_cast<std::size_t>(one);
    prediction.followed.push_back(
        {{one, static_cast<double>(logits[id]), probability(id)}, rank(id)});
  }
  if (actual < 0 || static_cast<std::size_t>(actual) >= vocabulary) return prediction;
  const auto id = static_cast<std::size_t>(actual);
  const double surprise = std::log(sum) + largest - static_cast<double>(logits[id]);
  prediction.actual = ActualToken{actual, probability(id), surprise, rank(id)};
  return prediction;
}

template Prediction prediction_of(const float*, std::size_t, std::size_t, int,
                                  const std::vector<int>&);
template Prediction prediction_of(const double*, std::size_t, std::size_t, int,
                                  const std::vector<int>&);

namespace {

/// Makes predictions while the logits are computed, so that no tensor of T × vocabulary is kept.
class Reader : public Observer {
public:
  Reader(const Texts& texts, const PredictRequest& request, std::size_t T)
      : texts_(texts), request_(request), asked_(T, false) {
    for (std::size_t position : request.positions)
      if (position < T) asked_[position] = true;
  }
  StageSet wants() const override { return {Stage::logits}; }
  void observe(const Slice& block) override {
    const std::size_t vocabulary = block.values.shape[1], element = size_of(block.values.dtype);
    for (std::size_t i = 0; i < block.values.shape[0]; ++i) {
      const std::size_t position = block.token + i, length = texts_.lengths()[block.batch];
      if (!asked_[position] || position >= length) continue;
      const std::byte* row =
          block.values.data + static_cast<std::size_t>(block.values.strides[0]) * i * element;
      const bool follows = texts_.model().causal() && position + 1 < length;
      const int actual = follows ? texts_.ids()[block.batch][position + 1] : -1;
      Prediction prediction = by_precision(block.values.dtype, [&]<class T>(T) {
        return prediction_of(reinterpret_cast<const T*>(row), vocabulary, request_.top, actual,
                             followed(block.batch));
      });
      prediction.batch = block.batch, prediction.position = position;
      const std::lock_guard hold(adding_);
      found[{block.batch, position}] = std::move(prediction);
    }
  }
  std::map<std::pair<std::size_t, std::size_t>, Prediction> found;

private:
  std::vector<int> followed(std::size_t batch) const {
    std::vector<int> ids;
    for (const TokenOfTexts& one : request_.followed)
      ids.push_back(*one.of(request_.first_text + batch));
    return ids;
  }

  const Texts& texts_;
  const PredictRequest& request_;
  std::vector<bool> asked_;
  std::mutex adding_;
};

/// Names the checkpoint's first tensor with NaN or infinity, or else the other possible causes.
[[noreturn]] void fail_without_numbers(const WholeModel& model, const TextPosition& at) {
  const io::Contents& file = model.file();
  const std::string place = fmt::format(
      "{}{} position {} are not numbers", at.first > 0 ? fmt::format("text {}: ", at.first) : "",
      model.head().present() ? "the logits at" : "the model's numbers at", at.second);
  for (const io::Entry& entry : file.tensors) {
    if (!is_floating(entry.dtype)) continue;
    const Summary summary = summary_of(entry.read());
    if (summary.nan + summary.infinite > 0)
      fail("{}: {}, as {} of {} in {} are NaN or infinite", file.name, place,
           summary.nan + summary.infinite, counted(summary.count, "numbers"), entry.name);
  }
  fail("{}: {}, though all weights are: a patch or a given vector is not, or something overflows "
       "in between; <dtype> f64 has a wider range, and <stages show> in which layer",
       file.name, place);
}

} // namespace

Predictions predict(OpenedModel& model, const PredictRequest& request) {
  const Texts& texts = *model.texts();
  if (!texts.model().head().present())
    fail("{}: the model has no head, so it predicts no tokens: its layers were saved alone",
         model.title());
  const std::size_t layers = texts.layers().size();
  for (const TokenOfTexts& one : request.followed)
    for (std::size_t b = 0; b < texts.lengths().size(); ++b)
      require_logits_of(texts.model(), one.of(request.first_text + b), std::nullopt);
  Predictions found;
  for (std::size_t n = request.each_layer ? 1 : layers; n <= layers; ++n) {
    LoadedLayer loaded = model.ends_after(n);
    std::ranges::move(loaded.on_the_way, std::back_inserter(found.warnings));
    Layer& ends = loaded.layer;
    Reader reader(texts, request, ends.dims.T);
    Selection selection;
    std::vector<std::size_t> places;
    for (const std::size_t position : request.positions)
      if (position < ends.dims.T) places.push_back(position);
    selection.query = IndexList::of_indices(places, message("<query>"));
    const Plan plan = make_plan(ends, reader.wants(), selection);
    compute(std::move(ends), plan, reader, request.threads);
    for (auto& [place, prediction] : reader.found) {
      if (!prediction.finite)
        fail_without_numbers(texts.model(),
                             {prediction.batch + request.first_text, prediction.position});
      if (request.each_layer) prediction.layer = n - 1;
      found.list.push_back(std::move(prediction));
    }
  }
  std::ranges::stable_sort(found.list, [](const Prediction& a, const Prediction& b) {
    return std::pair(a.batch, a.position) < std::pair(b.batch, b.position);
  });
  return found;
}

std::optional<std::size_t> next_token_at(const Texts& texts, const TextPosition& place) {
  const auto& [batch, position] = place;
  if (!texts.model().causal() || position + 1 >= texts.lengths()[batch]) return std::nullopt;
  const auto next = static_cast<std::size_t>(texts.ids()[batch][position + 1]);
  return next < texts.model().head().decoder.out() ? std::optional(next) : std::nullopt;
}

void require_logits_of(const WholeModel& model, const std::optional<int>& answer,
                       const std::optional<int>& versus) {
  if (!model.head().present()) return;
  const std::size_t count = model.head().decoder.out();
  if (answer && static_cast<std::size_t>(*answer) >= count)
    fail("<answer> is token {}: the model has logits of 0 to {}", *answer, count - 1);
  if (versus && static_cast<std::size_t>(*versus) >= count)
    fail("<versus> is token {}: the model has logits of 0 to {}", *versus, count - 1);
}

void require_finite_predictions(const WholeModel& model, const PredictionRows& rows,
                                const std::vector<TextPosition>& places, std::size_t first_text) {
  for (std::size_t i = 0; i < rows.count(); ++i)
    if (!has_softmax(rows[i].in_double()))
      fail_without_numbers(model, {places[i].first + first_text, places[i].second});
}

} // namespace mha
