#include <mha/observe/prediction_rows.hpp>

#include <mha/kernels/rows.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace mha {

namespace {

/// A row is read once: what is converted of it stays in the first cache.
template <class T> PredictionRows::Sums sums_of(const T* z, std::size_t n, const double* p) {
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
  for (const double one : cross) sum += one;
  return {max + std::log(exps), sum};
}

/// Σ p z over the tokens that p does not rule out: what another run rules out, too, counts nothing.
double cross_of_possible(const std::vector<double>& p, const std::vector<double>& z) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0) sum += p[i] * z[i];
  return sum;
}

} // namespace

PredictionRows::PredictionRows(Tensor rows)
    : values_(std::move(rows)), width_(values_.shape().back()) {
  for (std::size_t i = 0; i < values_.count(); i += width_) first_.push_back(i);
}

PredictionRows::PredictionRows(const Layer& ends, const std::vector<TextPosition>& places,
                               std::size_t threads) {
  const ModelEnds& of = *ends.ends;
  std::map<std::size_t, std::size_t> row_of; // by position
  if (of.head.present() || of.final.present()) {
    const Stage stage = of.head.present() ? Stage::logits : Stage::final;
    for (const TextPosition& place : places) row_of.emplace(place.second, 0);
    std::string list;
    std::size_t count = 0;
    for (auto& [position, row] : row_of) {
      list += fmt::format("{}{}", count > 0 ? "," : "", position);
      row = count++;
    }
    Selection selection;
    selection.query = IndexList(list + (count == 1 ? "," + list : ""), "--query");
    values_ = trace(ends, {stage}, selection, threads).value(stage);
  } else {
    values_ = of.stream;
    for (std::size_t t = 0; t < ends.dims.T; ++t) row_of.emplace(t, t);
  }
  width_ = values_.shape().back();
  for (const auto& [batch, position] : places)
    first_.push_back((batch * row_of.size() + row_of.at(position)) * width_);
}

double PredictionRows::at(std::size_t row, std::size_t column) const {
  return value_at(values_, first_[row] + column);
}

std::vector<double> PredictionRows::row(std::size_t row) const {
  std::vector<double> numbers(width_);
  const auto copy = [&](const auto& all) {
    for (std::size_t i = 0; i < width_; ++i) numbers[i] = static_cast<double>(all[first_[row] + i]);
  };
  values_.dtype() == DType::f64 ? copy(values_.as<double>()) : copy(values_.as<float>());
  return numbers;
}

std::size_t PredictionRows::top(std::size_t row) const {
  const std::vector<double> numbers = this->row(row);
  return static_cast<std::size_t>(std::ranges::max_element(numbers) - numbers.begin());
}

PredictionRows::Sums PredictionRows::sums(std::size_t row, const double* p) const {
  return values_.dtype() == DType::f64
             ? sums_of(values_.as<double>().data() + first_[row], width_, p)
             : sums_of(values_.as<float>().data() + first_[row], width_, p);
}

double log_probability(const PredictionRows& rows, std::size_t row, std::size_t token) {
  return rows.at(row, token) - rows.sums(row).log_exp;
}

Distribution::Distribution(const PredictionRows& rows, std::size_t row) : p_(rows.row(row)) {
  const double max = row_max(p_.data(), p_.size());
  const double sum = row_exp_sum(p_.data(), p_.size(), max);
  row_divide(p_.data(), p_.size(), sum);
  const PredictionRows::Sums own = rows.sums(row, p_.data());
  cross_ = own.cross, log_sum_ = own.log_exp;
  if (!std::isfinite(cross_)) cross_ = cross_of_possible(p_, rows.row(row));
}

Distribution::Difference Distribution::to(const PredictionRows& rows, std::size_t row) const {
  PredictionRows::Sums other = rows.sums(row, p_.data());
  if (!std::isfinite(other.cross)) other.cross = cross_of_possible(p_, rows.row(row));
  return {(cross_ - other.cross) + (other.log_exp - log_sum_), other.log_exp};
}

} // namespace mha
