#include <mha/compare/choices.hpp>

#include <mha/compare/spread_steps.hpp>
#include <mha/layer/block.hpp>
#include <mha/observe/trace.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>
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

/// Each token's choice of so many experts.
Tensor experts_of(const Layer& layer, std::size_t number) {
  return trace(choosing(layer, number), {Stage::experts}).value(Stage::experts);
}

/// The first number of a row of `of` that is not in the same row of `other`.
double added(const Tensor& of, const Tensor& other, std::size_t row, std::size_t n,
             std::size_t others) {
  for (std::size_t i = 0; i < n; ++i) {
    const double number = value_at(of, row * n + i);
    bool found = false;
    for (std::size_t j = 0; j < others; ++j)
      found = found || value_at(other, row * others + j) == number;
    if (!found) return number;
  }
  return value_at(of, row * n);
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
  explicit NextBest(const Layer& layer, DType stored)
      : layer_(layer), n_(layer.dims.n), own_(experts_of(layer, n_)) {
    const Tensor scores = trace(layer, {Stage::router_scores}).value(Stage::router_scores);
    const Tensor more = experts_of(layer, n_ + 1),
                 fewer = n_ > 1 ? experts_of(layer, n_ - 1) : Tensor();
    next_ = Tensor(own_.dtype(), own_.shape());
    for (std::size_t i = 0; i < own_.count(); ++i) replace(i, value_at(own_, i));
    for (std::size_t row = 0; row < rows(); ++row) {
      const double last = n_ > 1 ? added(own_, fewer, row, n_, n_ - 1) : value_at(own_, row),
                   next = added(more, own_, row, n_ + 1, n_);
      if (!are_near(scores, row, last, next, stored)) continue;
      near_.push_back(row);
      for (std::size_t i = row * n_; i < (row + 1) * n_; ++i)
        replace(i, value_at(own_, i) == last ? next : value_at(own_, i));
    }
  }

  std::size_t rows() const { return own_.count() / n_; }
  const std::vector<std::size_t>& near() const { return near_; }
  /// The layer with these choices.
  Layer chosen() const {
    Layer layer = layer_;
    layer.given[index_of(Stage::experts)] = with_batch_axis(layer, next_);
    layer.given_set.add(Stage::experts);
    return layer;
  }
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

std::size_t tokens_of_other_experts(const Layer& a, const Layer& b, std::size_t threads) {
  if (!is_mixture(a)) return 0;
  const Tensor of_a = whole_stage(a, Stage::experts, threads),
               of_b = whole_stage(b, Stage::experts, threads);
  const std::size_t n = a.dims.n;
  std::size_t count = 0;
  for (std::size_t row = 0; row < of_a.count() / n; ++row) {
    bool same = true;
    for (std::size_t i = row * n; i < (row + 1) * n; ++i) {
      bool found = false;
      for (std::size_t j = row * n; j < (row + 1) * n; ++j)
        found = found || value_at(of_a, i) == value_at(of_b, j);
      same = same && found;
    }
    count += !same;
  }
  return count;
}

} // namespace mha
