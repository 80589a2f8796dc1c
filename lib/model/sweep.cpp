#include <mha/model/sweep.hpp>

#include <mha/layer/graph.hpp>
#include <mha/model/independent_passes.hpp>
#include <mha/model/predict.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <mutex>

#include <fmt/ranges.h>

namespace mha {

namespace {

constexpr std::array<std::string_view, 4> axis_names{"layer", "head", "query", "key"};

bool is_over(const SweepRequest& request, SweepAxis axis) {
  return is_one_of(axis, request.over);
}

/// The number of places of a stage along each axis; 1 along axes that are patched whole.
struct PlaceCounts {
  std::size_t heads = 1, queries = 1, keys = 1;
};

PlaceCounts place_counts(const StagePlace& place, const Layer& layer, const SweepRequest& request) {
  const StageInfo& info = info_of(stage_of_place(place, layer));
  const bool with_heads = info.letters.size() == 3 || info.kind == Kind::row;
  const bool of_keys = axis_of(info.letters.back()) == Axis::key && info.kind != Kind::row;
  PlaceCounts counts;
  if (is_over(request, SweepAxis::head)) {
    if (!with_heads) fail("<over> head: {} has no heads", info.name);
    counts.heads = layer.dims.size_of(info.letters[0]);
  }
  if (is_over(request, SweepAxis::query))
    counts.queries = layer.dims.size_of(info.letters[with_heads ? 1 : 0]);
  if (is_over(request, SweepAxis::key)) {
    if (!of_keys) fail("<over> key: {} has no keys", info.name);
    counts.keys = layer.dims.size_of(info.letters.back());
  }
  return counts;
}

/// A point, and the edit that patches its place in some layers.
struct SweepPlace {
  SweepPoint point;
  StageEdit edit;
  std::size_t first_layer = 0, last_layer = 0;
};

/// One pair of runs: their streams, and the metric of this run with places patched.
class PatchedPair {
public:
  PatchedPair(const SweepPair& pair, std::size_t number, const SweepRequest& request)
      : here_(pair.here, request.threads), there_(pair.there, request.threads), request_(request) {
    require_same_lengths();
    const std::size_t last = pair.here->count();
    const Layer ends = here_.layer(last);
    if (!ends.ends->head.present())
      fail("a sweep measures predictions, and the model has no head: its layers were saved alone");
    places_ = request.places(pair.here->texts());
    clean_ = PredictionRows(ends, places_, request.threads);
    const PredictionRows other(there_.layer(last), request.places(pair.there->texts()),
                               request.threads);
    require_finite_predictions(pair.here->texts().model(), clean_, places_);
    require_finite_predictions(pair.there->texts().model(), other,
                               request.places(pair.there->texts()));
    take_tokens(other, request.answer.of(number), request.versus.of(number));
    for (std::size_t i = 0; request.metric == SweepMetric::kl && i < clean_.count(); ++i)
      predicted_.emplace_back(clean_[i]);
    const auto of_rows = [&](const PredictionRows& rows) {
      Metrics metrics;
      for (std::size_t i = 0; i < rows.count(); ++i) metrics.push_back(metric_of(i, rows[i]));
      return mean_of(metrics);
    };
    here = of_rows(clean_), there = of_rows(other);
  }

  double here = 0, there = 0; ///< M of both runs
  Message same_answer;        ///< why M is 0 whatever is patched; "" where it is not

  /// Whether M differs by more than rounding.
  bool differ() const {
    const double eps = here_.layers().texts().weights()->dtype() == DType::f64
                           ? std::numeric_limits<double>::epsilon()
                           : double{std::numeric_limits<float>::epsilon()};
    double size = 1;
    for (std::size_t i = 0; i < clean_.count(); ++i)
      for (const double z : clean_[i].in_double()) size = std::max(size, std::abs(z));
    return std::abs(there - here) > 64 * eps * size;
  }

  /// M with each place patched in turn, and whether a step has read the patch.
  std::vector<std::pair<double, bool>> patched(const std::vector<SweepPlace>& places) {
    std::vector<char> read(places.size()); // bytes: threads write side by side
    std::vector<Metrics> metrics(places.size(), Metrics(places_.size()));
    const auto stream = [&](std::size_t r, std::size_t threads) {
      bool is_read = false;
      Tensor last_stream = patched_stream(places[r], threads, is_read);
      read[r] = is_read;
      return last_stream;
    };
    visit_passes(here_.layers(), {places.size(), stream, places_, request_.threads},
                 [&](std::size_t r, std::size_t i, const PredictionRow& row) {
                   metrics[r][i] = metric_of(i, row);
                 });
    std::vector<std::pair<double, bool>> found;
    for (std::size_t r = 0; r < places.size(); ++r)
      found.emplace_back(mean_of(metrics[r]), read[r] != 0);
    return found;
  }

private:
  using Metrics = std::vector<std::optional<double>>;

  /// The last stream with a place patched, and whether a step has read the patch.
  Tensor patched_stream(const SweepPlace& at, std::size_t threads, bool& read) {
    Advance pass;
    std::vector<IsRead> is_read;
    pass.threads = threads;
    pass.patch = [&](Layer& layer, std::size_t n) {
      if (n < at.first_layer || n > at.last_layer) return;
      ResolvedEdit patch = patch_of(at.edit, layer, n, [&](Stage stage, const std::string&) {
        return other_stage(n, stage);
      });
      is_read.push_back(patch.is_read);
      layer.patches.add(std::move(patch));
    };
    const TextLayers& layers = here_.layers();
    const Residual end = advance(layers, here_.before(at.first_layer), layers.count(), pass);
    read = is_any_read(is_read);
    return end.x;
  }

  void require_same_lengths() const {
    const auto &a = here_.layers().texts().lengths(), &b = there_.layers().texts().lengths();
    if (a != b)
      fail("<patch_from>: the texts of a pair have {} and {}: the same place needs the same number "
           "of tokens; <pieces show> both",
           counted(a[0], "tokens"), b[0]);
  }

  /// A whole stage of the other run, batch axis first; kept for the places that follow.
  Tensor other_stage(std::size_t n, Stage stage) {
    const std::lock_guard hold(others_lock_);
    const std::pair key{n, stage};
    const auto kept = std::ranges::find(others_, key, &OtherStage::first);
    if (kept != others_.end()) return kept->second;
    // A sweep over layers needs the stages of at most two layers at a time. Otherwise every place
    // needs those of all layers.
    if (is_over(request_, SweepAxis::layer) && others_.size() == 2) others_.pop_front();
    return others_.emplace_back(key, there_.stage(n, stage)).second;
  }

  /// The answer and the token that it is measured against, at each place.
  void take_tokens(const PredictionRows& other, std::optional<int> answer,
                   std::optional<int> versus) {
    const Texts& text = here_.layers().texts();
    require_logits_of(text.model(), answer, versus);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const auto given = [&](const std::optional<int>& id, const PredictionRows& otherwise) {
        return id ? static_cast<std::size_t>(*id) : otherwise[i].top();
      };
      answer_.push_back(given(answer, other));
      versus_.push_back(given(versus, clean_));
      if (request_.metric == SweepMetric::logit && answer_[i] == versus_[i] && same_answer.empty())
        same_answer = message(
            "position {}: {} '{}', so the difference of two logits is always 0; give <answer> and "
            "<versus> that differ, or another <metric>",
            places_[i].second,
            answer && versus ? message("<answer> and <versus> are both")
            : answer         ? message("<answer> is what this run predicts,")
            : versus         ? message("<versus> is what the other run predicts,")
                             : "both runs predict",
            text.plain(static_cast<int>(answer_[i])));
      next_.push_back(next_token_at(text, places_[i]));
    }
    if (request_.metric == SweepMetric::loss &&
        std::ranges::none_of(next_, [](const auto& id) { return id.has_value(); }))
      fail("<metric> loss: no chosen position has a next token; choose others with <query>");
  }

  /// M at one place, if it has one there.
  std::optional<double> metric_of(std::size_t i, const PredictionRow& row) const {
    switch (request_.metric) {
    case SweepMetric::logit:
      return row.at(answer_[i]) - row.at(versus_[i]);
    case SweepMetric::kl:
      return predicted_[i].to(row).divergence;
    case SweepMetric::loss:
      if (next_[i]) return -log_probability(row, *next_[i]);
    }
    return std::nullopt;
  }

  /// The mean over the places that have it.
  static double mean_of(const Metrics& metrics) {
    double sum = 0;
    std::size_t count = 0;
    for (const std::optional<double>& one : metrics)
      if (one) sum += *one, ++count;
    return sum / static_cast<double>(count);
  }

  Streams here_, there_;
  const SweepRequest& request_;
  std::vector<TextPosition> places_;
  PredictionRows clean_;
  std::vector<Distribution> predicted_; ///< of the clean rows, for SweepMetric::kl
  std::vector<std::size_t> answer_, versus_;
  std::vector<std::optional<std::size_t>> next_;
  using OtherStage = std::pair<std::pair<std::size_t, Stage>, Tensor>;
  std::mutex others_lock_;
  std::deque<OtherStage> others_; ///< in the order in which they were asked for
};

/// Every place of the sweep, in order.
std::vector<SweepPlace> places_of(const SweepPair& pair, const SweepRequest& request) {
  std::vector<SweepPlace> list;
  const std::size_t layers = pair.here->count();
  const bool by_layer = is_over(request, SweepAxis::layer);
  for (std::size_t s = 0; s < request.stages.size(); ++s)
    for (std::size_t n = 0; n < (by_layer ? layers : 1); ++n) {
      const PlaceCounts counts = place_counts(request.stages[s], pair.here->sized(n), request);
      for (std::size_t h = 0; h < counts.heads; ++h)
        for (std::size_t t = 0; t < counts.queries; ++t)
          for (std::size_t j = 0; j < counts.keys; ++j) {
            SweepPlace& at = list.emplace_back();
            SweepPoint& point = at.point;
            point.stage = s;
            StagePlace place = request.stages[s];
            std::vector<AxisPositions> axes(3);
            const auto along = [&](SweepAxis axis, std::size_t index, std::size_t number,
                                   std::optional<std::size_t>& of) {
              if (!is_over(request, axis)) return;
              of = number;
              axes[index] = AxisPositions(number);
            };
            along(SweepAxis::head, 0, h, point.head);
            along(SweepAxis::query, 1, t, point.query);
            along(SweepAxis::key, 2, j, point.key);
            place.set_axes(std::move(axes));
            if (by_layer) point.layer = n;
            at.edit = StageEdit::of(std::move(place), PatchOp::set,
                                    EditValue::of_run("from the other run"));
            at.first_layer = by_layer ? n : 0, at.last_layer = by_layer ? n : layers - 1;
          }
    }
  return list;
}

void require_same_points(const std::vector<SweepPlace>& places,
                         const std::vector<SweepPoint>& points) {
  if (!std::ranges::equal(places, points, [](const SweepPlace& at, const SweepPoint& point) {
        return at.point.query == point.query && at.point.head == point.head &&
               at.point.layer == point.layer;
      }))
    fail("the pairs have texts of different lengths: their places cannot be averaged; give texts "
         "of equal lengths, or sweep over layer and head");
}

/// Adds the metrics of a pair, with each place patched in turn, and their squares.
void add_pair(PatchedPair& runs, const std::vector<SweepPlace>& places, const SweepRequest& request,
              std::vector<SweepPoint>& points, std::vector<double>& squares) {
  const std::vector<std::pair<double, bool>> patched = runs.patched(places);
  std::vector<bool> is_read(request.stages.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& [M, read] = patched[i];
    const double m = request.raw ? M : (M - runs.here) / (runs.there - runs.here);
    points[i].value += m, squares[i] += m * m;
    if (read) is_read[points[i].stage] = true;
  }
  for (std::size_t stage = 0; stage < is_read.size(); ++stage)
    if (!is_read[stage])
      fail("<sweep> {}: nothing that follows reads it; choose a stage that another is computed "
           "from",
           request.stages[stage].name);
}

} // namespace

std::string_view name_of(SweepAxis axis) {
  return axis_names[static_cast<std::size_t>(axis)];
}

std::optional<std::size_t> index_along(const SweepPoint& point, SweepAxis axis) {
  switch (axis) {
  case SweepAxis::layer:
    return point.layer;
  case SweepAxis::head:
    return point.head;
  case SweepAxis::query:
    return point.query;
  case SweepAxis::key:
    return point.key;
  }
  return std::nullopt;
}

SweepCost cost_of(const SweepPair& pair, const SweepRequest& request) {
  SweepCost cost{2, 2};
  const auto layers = static_cast<double>(pair.here->count());
  for (const SweepPlace& at : places_of(pair, request)) {
    ++cost.runs;
    cost.passes += (layers - static_cast<double>(at.first_layer)) / layers;
  }
  return cost;
}

SweepResult sweep(const std::vector<SweepPair>& pairs, const SweepRequest& request) {
  if (request.stages.empty()) fail("<sweep>: no stage is named");
  if (request.over.empty()) fail("<over>: layer, head, query or key expected");
  SweepResult result;
  std::vector<double> squares;
  for (std::size_t number = 0; number < pairs.size(); ++number) {
    const SweepPair& pair = pairs[number];
    PatchedPair runs(pair, number, request);
    if (pairs.size() == 1 && !runs.same_answer.empty()) fail("{}", runs.same_answer);
    if (!runs.same_answer.empty() || (!request.raw && !runs.differ())) {
      result.without_difference.push_back(number);
      continue;
    }
    ++result.pairs;
    result.here += runs.here, result.there += runs.there;
    const std::vector<SweepPlace> places = places_of(pair, request);
    if (result.points.empty())
      for (const SweepPlace& at : places) result.points.push_back(at.point), squares.push_back(0);
    require_same_points(places, result.points);
    add_pair(runs, places, request, result.points, squares);
  }
  if (result.pairs == 0)
    fail("both runs measure the same: no place can bring anything back; choose another answer, "
         "position (<query>) or text, or see M itself with <raw>");
  const auto n = static_cast<double>(result.pairs);
  result.here /= n, result.there /= n;
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    SweepPoint& point = result.points[i];
    point.value /= n;
    if (result.pairs > 1)
      point.spread =
          std::sqrt(std::max(0.0, squares[i] / n - point.value * point.value) * n / (n - 1));
  }
  return result;
}

} // namespace mha
