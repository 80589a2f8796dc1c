#include <mha/compare/choices.hpp>

#include <mha/compare/spread_steps.hpp>
#include <mha/layer/block.hpp>
#include <mha/observe/trace.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

namespace mha {

namespace {

/// Scores differ by less than so many roundings of the larger one, where errors of a layer's steps
/// may exchange them.
constexpr double roundings_of_scores = 24;

/// The layer with so many experts a token.
Layer choosing(const Layer& layer, std::size_t number) {
  Layer edited = layer;
  auto block = std::make_shared<TransformerBlock>(*layer.block);
  auto mixture = std::make_shared<Mixture>(*block->mixture);
  mixture->routing.chosen = number;
  block->mixture = std::move(mixture);
  edited.block = std::move(block);
  edited.dims.n = number, edited.dims.d_ff = number * edited.dims.I;
  return edited;
}

/// The layer with a stage's value, as users see it.
Layer giving(Layer layer, Stage stage, const Tensor& value) {
  layer.given[index_of(stage)] = with_batch_axis(layer, value);
  layer.given_set.add(stage);
  return layer;
}

/// Whether a row of n numbers has this one.
bool has(const Tensor& rows, std::size_t row, std::size_t n, double number) {
  for (std::size_t i = row * n; i < (row + 1) * n; ++i)
    if (value_at(rows, i) == number) return true;
  return false;
}

/// The first of a row of n numbers that is not in the same row of `other`, which has `others`.
std::optional<double> added(const Tensor& of, std::size_t n, const Tensor& other,
                            std::size_t others, std::size_t row) {
  for (std::size_t i = row * n; i < (row + 1) * n; ++i)
    if (!has(other, row, others, value_at(of, i))) return value_at(of, i);
  return std::nullopt;
}

double distance(const Tensor& a, const Tensor& b, std::size_t first, std::size_t count) {
  double squares = 0;
  for (std::size_t i = first; i < first + count; ++i)
    squares += std::pow(value_at(a, i) - value_at(b, i), 2);
  return std::sqrt(squares);
}

/// The choices of a layer with the next best expert in place of the last one, for tokens whose
/// scores of the two are as good as equal.
class NextBest {
public:
  explicit NextBest(const Layer& layer, DType stored) : layer_(layer), n_(layer.dims.n) {
    const Trace kept = trace(layer, {Stage::router_scores, Stage::experts});
    const Tensor scores = kept.value(Stage::router_scores);
    own_ = kept.value(Stage::experts);
    // Of the same scores, so that nothing before them is computed again.
    const Layer scored = giving(layer, Stage::router_scores, scores);
    const auto choice_of = [&](std::size_t number) {
      return trace(choosing(scored, number), {Stage::experts}).value(Stage::experts);
    };
    const Tensor more = choice_of(n_ + 1), fewer = n_ > 1 ? choice_of(n_ - 1) : Tensor();
    next_ = Tensor(own_.dtype(), own_.shape());
    for (std::size_t row = 0; row < rows(); ++row) {
      restore(row);
      const std::optional<double> last = added(own_, n_, fewer, n_ - 1, row),
                                  next = added(more, n_ + 1, own_, n_, row);
      if (!last || !next || !are_near(scores, row, *last, *next, stored)) continue;
      near_.push_back(row);
      for (std::size_t i = row * n_; i < (row + 1) * n_; ++i)
        if (value_at(own_, i) == *last) replace(i, *next);
    }
  }

  std::size_t rows() const { return own_.count() / n_; }
  const std::vector<std::size_t>& near() const { return near_; }
  /// The layer with these choices.
  Layer chosen() const { return giving(layer_, Stage::experts, next_); }
  /// Takes a token's own choice back.
  void restore(std::size_t row) {
    for (std::size_t i = row * n_; i < (row + 1) * n_; ++i) replace(i, value_at(own_, i));
  }

private:
  void replace(std::size_t i, double expert) {
    by_precision(next_.dtype(),
                 [&]<class T>(T) { next_.as_mutable<T>()[i] = static_cast<T>(expert); });
  }
  bool are_near(const Tensor& scores, std::size_t row, double last, double next,
                DType stored) const {
    const std::size_t E = layer_.dims.E;
    const Tensor& bias = layer_.block->mixture->routing.bias;
    double squares = 0;
    for (std::size_t e = 0; e < E; ++e) squares += std::pow(value_at(scores, row * E + e), 2);
    const auto score = [&](double expert) {
      const auto e = static_cast<std::size_t>(expert);
      return value_at(scores, row * E + e) + (bias.empty() ? 0 : value_at(bias, e));
    };
    const double scale = std::max({std::fabs(score(last)), std::fabs(score(next)),
                                   std::sqrt(squares / static_cast<double>(E))});
    return std::fabs(score(last) - score(next)) <=
           roundings_of_scores * spacing_of(stored).half * scale;
  }

  const Layer& layer_;
  std::size_t n_;
  Tensor own_, next_;
  std::vector<std::size_t> near_;
};

} // namespace

bool is_mixture(const Layer& layer) {
  return layer.block && layer.block->mixture;
}

double distance(const Tensor& a, const Tensor& b) {
  return a.count() == b.count() ? distance(a, b, 0, a.count()) : HUGE_VAL;
}

std::size_t take_choices_of(const Tensor& theirs, DType stored, const AfterMixture& ours,
                            Layer& layer) {
  if (!is_mixture(layer) || layer.has_given(Stage::experts) || layer.dims.n >= layer.dims.E)
    return 0;
  NextBest next(layer, stored);
  if (next.near().empty()) return 0;
  const Tensor own = ours(layer), other = ours(next.chosen());
  if (own.count() != theirs.count() || other.count() != own.count()) return 0;
  const std::size_t width = own.count() / next.rows();
  std::size_t taken = 0;
  for (const std::size_t row : next.near())
    if (distance(other, theirs, row * width, width) < distance(own, theirs, row * width, width) / 2)
      ++taken;
    else
      next.restore(row);
  if (taken > 0) layer = next.chosen();
  return taken;
}

std::size_t take_choices_of(const Reference& reference, std::size_t threads, Layer& layer) {
  if (reference.find(Stage::experts)) return 0;
  for (const Stage stage : {Stage::mlp_out, Stage::resid_post})
    if (const ReferenceStage* theirs = reference.find(stage); theirs && !theirs->in_part)
      return take_choices_of(
          theirs->value, theirs->stored,
          [&](const Layer& one) { return trace(one, {stage}, {}, threads).value(stage); }, layer);
  return 0;
}

namespace {

/// The weights of a reference's experts, or their scores: T, n; nothing where it has neither.
std::optional<std::vector<double>> weights_in(const Layer& layer, const Reference& reference,
                                              const Tensor& experts) {
  const ReferenceStage *const weights = reference.find(Stage::expert_weights),
                              *const scores = reference.find(Stage::router_scores);
  if (weights && !weights->in_part && weights->value.count() == experts.count())
    return values_in_double(weights->value);
  const std::size_t n = layer.dims.n, E = layer.dims.E;
  if (!scores || scores->in_part || scores->value.count() / E != experts.count() / n)
    return std::nullopt;
  std::vector<double> found;
  for (std::size_t i = 0; i < experts.count(); ++i) {
    const double e = value_at(experts, i);
    if (!(e >= 0 && e < static_cast<double>(E))) return std::nullopt;
    const auto expert = static_cast<std::size_t>(e);
    found.push_back(value_at(scores->value, i / n * E + expert) *
                    layer.block->mixture->routing.factor_of(expert));
  }
  return found;
}

/// For each row of n numbers their places from the largest on, those that are as good as equal as
/// they are; nothing where every row has this order.
std::vector<std::size_t> descending(const std::vector<double>& numbers, std::size_t n) {
  constexpr double clearly = 0.05; // more than a row's rounding
  std::vector<std::size_t> places;
  bool other = false;
  for (std::size_t row = 0; row < numbers.size() / n; ++row) {
    const double* const own = &numbers[row * n];
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    bool sorts = false;
    for (std::size_t j = 0; j + 1 < n; ++j)
      sorts = sorts || own[j + 1] > own[j] + clearly * std::fabs(own[j]);
    if (sorts)
      std::ranges::stable_sort(order, std::greater(), [&](std::size_t j) { return own[j]; });
    other = other || sorts;
    places.insert(places.end(), order.begin(), order.end());
  }
  return other ? places : std::vector<std::size_t>();
}

/// Rows of n pieces, each piece taken from the place that is given for it.
Tensor reordered(const Tensor& value, std::size_t n, const std::vector<std::size_t>& places) {
  Tensor made = Tensor::uninitialised(value.dtype(), value.shape());
  const std::size_t bytes = value.bytes() / places.size();
  for (std::size_t i = 0; i < places.size(); ++i)
    std::memcpy(made.raw_mutable() + i * bytes, value.raw() + (i / n * n + places[i]) * bytes,
                bytes);
  return made;
}

} // namespace

bool order_experts(const Layer& layer, Reference& reference) {
  const ReferenceStage* const experts = reference.find(Stage::experts);
  if (!experts || experts->in_part) return false;
  const std::size_t n = layer.dims.n;
  const std::optional<std::vector<double>> weights = weights_in(layer, reference, experts->value);
  const std::vector<std::size_t> places =
      weights ? descending(*weights, n) : std::vector<std::size_t>();
  if (places.empty()) return false;
  for (ReferenceStage& one : reference.stages)
    if (!one.in_part && one.value.count() % places.size() == 0 &&
        (one.stage == Stage::experts || one.stage == Stage::expert_weights ||
         experts_side_by_side(layer, one.stage) > 0))
      one.value = reordered(one.value, n, places);
  return true;
}

std::size_t tokens_of_other_experts(const Layer& a, const Layer& b, std::size_t threads) {
  if (!is_mixture(a)) return 0;
  const Tensor of_a = whole_stage(a, Stage::experts, threads),
               of_b = whole_stage(b, Stage::experts, threads);
  const std::size_t n = a.dims.n;
  std::size_t count = 0;
  for (std::size_t row = 0; row < of_a.count() / n; ++row)
    count += added(of_a, n, of_b, n, row).has_value();
  return count;
}

} // namespace mha
