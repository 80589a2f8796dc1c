#include <mha/observe/prediction_rows.hpp>

#include <mha/kernels/rows.hpp>
#include <mha/observe/compute.hpp>
#include <mha/schedule/observer.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace mha {

namespace {

/// Reads the row once, in pieces that stay in the first cache when converted.
template <class T> PredictionRow::Sums sums_of(const T* z, std::size_t n, const double* p) {
  constexpr std::size_t together = 2048, chains = 8; // one sum would wait for itself
  const double max = static_cast<double>(row_max(z, n));
  std::array<double, together> part;
  std::array<double, chains> cross{};
  double exps = 0;
  for (std::size_t first = 0; first < n; first += together) {
    const std::size_t count = std::min(together, n - first);
    for (std::size_t i = 0; i < count; ++i) part[i] = static_cast<double>(z[first + i]);
    if (p) {
      std::size_t i = 0;
      for (; i + chains <= count; i += chains)
        for (std::size_t k = 0; k < chains; ++k) cross[k] += p[first + i + k] * part[i + k];
      for (; i < count; ++i) cross[0] += p[first + i] * part[i];
    }
    exps += row_exp_sum(part.data(), count, max);
  }
  double sum = 0;
  for (const double chain : cross) sum += chain;
  return {max + std::log(exps), sum};
}

/// Σ p z over the tokens that p does not rule out, so that −∞ of other tokens does not count.
double cross_of_possible(const std::vector<double>& p, const std::vector<double>& z) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0) sum += p[i] * z[i];
  return sum;
}

/// Passes the rows of places to `visit` one by one.
class RowVisitor : public Observer {
public:
  RowVisitor(Stage stage, const std::vector<TextPosition>& places, const VisitPrediction& visit)
      : stage_(stage), visit_(visit) {
    for (std::size_t i = 0; i < places.size(); ++i) of_position_.emplace(places[i], i);
  }
  StageSet wants() const override { return {stage_}; }
  void observe(const Slice& block) override {
    const ArrayView& values = block.values; // queries, columns
    const std::size_t row = static_cast<std::size_t>(values.strides[0]) * size_of(values.dtype);
    for (std::size_t i = 0; i < values.shape[0]; ++i) {
      const auto [first, end] = of_position_.equal_range({block.batch, block.token + i});
      for (auto place = first; place != end; ++place)
        visit_(place->second, {values.data + i * row, values.dtype, values.shape[1]});
    }
  }

private:
  Stage stage_;
  std::multimap<TextPosition, std::size_t> of_position_; ///< the place's index
  const VisitPrediction& visit_;
};

} // namespace

std::vector<std::size_t> positions_of(const std::vector<TextPosition>& places) {
  std::set<std::size_t> positions;
  for (const TextPosition& place : places) positions.insert(place.second);
  return {positions.begin(), positions.end()};
}

bool has_softmax(std::span<const double> logits) {
  return std::ranges::none_of(logits,
                              [](double z) { return std::isnan(z) || (std::isinf(z) && z > 0); }) &&
         std::ranges::any_of(logits, [](double z) { return std::isfinite(z); });
}

void visit_predictions(const Layer& ends, const std::vector<TextPosition>& places,
                       std::size_t threads, const VisitPrediction& visit) {
  const ModelEnds& of = *ends.ends;
  if (!of.head.present() && !of.final.present()) {
    const std::size_t T = of.stream.shape()[1], d_model = of.stream.shape()[2],
                      row = d_model * size_of(of.stream.dtype());
    for (std::size_t i = 0; i < places.size(); ++i)
      visit(i, {of.stream.raw() + (places[i].first * T + places[i].second) * row, of.stream.dtype(),
                d_model});
    return;
  }
  Selection selection;
  selection.query = IndexList::of_indices(positions_of(places), message("<query>"));
  RowVisitor visitor(of.head.present() ? Stage::logits : Stage::final, places, visit);
  compute(ends, make_plan(ends, visitor.wants(), selection), visitor, threads);
}

PredictionRows::PredictionRows(const Layer& ends, const std::vector<TextPosition>& places,
                               std::size_t threads) {
  std::mutex making;
  visit_predictions(ends, places, threads, [&](std::size_t place, const PredictionRow& row) {
    {
      const std::lock_guard hold(making);
      if (values_.empty())
        values_ = Tensor::uninitialised(row.dtype(), {places.size(), row.width()});
    }
    std::memcpy(values_.raw_mutable() + place * row.bytes().size(), row.bytes().data(),
                row.bytes().size());
  });
}

double PredictionRow::at(std::size_t column) const {
  return dtype_ == DType::f64 ? reinterpret_cast<const double*>(first_)[column]
                              : static_cast<double>(reinterpret_cast<const float*>(first_)[column]);
}

std::vector<double> PredictionRow::in_double() const {
  std::vector<double> numbers(width_);
  for (std::size_t i = 0; i < width_; ++i) numbers[i] = at(i);
  return numbers;
}

std::size_t PredictionRow::top() const {
  const std::vector<double> numbers = in_double();
  return static_cast<std::size_t>(std::ranges::max_element(numbers) - numbers.begin());
}

PredictionRow::Sums PredictionRow::sums(const double* p) const {
  return dtype_ == DType::f64 ? sums_of(reinterpret_cast<const double*>(first_), width_, p)
                              : sums_of(reinterpret_cast<const float*>(first_), width_, p);
}

double log_probability(const PredictionRow& row, std::size_t token) {
  return row.at(token) - row.sums().log_exp;
}

Distribution::Distribution(const PredictionRow& row) : p_(row.in_double()) {
  const double max = row_max(p_.data(), p_.size());
  const double sum = row_exp_sum(p_.data(), p_.size(), max);
  row_divide(p_.data(), p_.size(), sum);
  const PredictionRow::Sums own = row.sums(p_.data());
  cross_ = own.cross, log_sum_ = own.log_exp;
  if (!std::isfinite(cross_)) cross_ = cross_of_possible(p_, row.in_double());
}

Distribution::Difference Distribution::to(const PredictionRow& other) const {
  PredictionRow::Sums of = other.sums(p_.data());
  if (!std::isfinite(of.cross)) of.cross = cross_of_possible(p_, other.in_double());
  return {(cross_ - of.cross) + (of.log_exp - log_sum_), of.log_exp};
}

} // namespace mha
