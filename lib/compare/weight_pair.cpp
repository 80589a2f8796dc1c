// Comparison of one weight of two checkpoints: equal, within a block type's steps, or changed in a
// known way.

#include <mha/compare/compare.hpp>
#include <mha/compare/weights.hpp>

#include <mha/compare/weight_order.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// A tensor's numbers as float32; float64 is rounded.
std::vector<float> numbers_of(const Tensor& tensor) {
  const Tensor converted = convert(tensor, DType::f32);
  const std::span<const float> numbers = converted.as<float>();
  return {numbers.begin(), numbers.end()};
}

bool same_number(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// The coarser of two floating types in which the numbers are the same, rounded to nearest even.
std::optional<DType> same_when_rounded(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() || !is_floating(a.dtype()) || !is_floating(b.dtype()))
    return std::nullopt;
  if (same_weights(convert(a, b.dtype()), b)) return b.dtype();
  if (same_weights(a, convert(b, a.dtype()))) return a.dtype();
  return std::nullopt;
}

/// The relative distance of neighbouring numbers in the coarser of two types.
double coarseness(DType a, DType b) {
  const auto unit = [](DType type) {
    return std::ldexp(1, -significand_bits(is_floating(type) ? type : DType::f32));
  };
  return std::max(unit(a), unit(b));
}

StepDistances step_distances(std::span<const float> a, std::span<const float> b,
                             std::span<const float> steps) {
  std::vector<float> in_steps(a.size());
  std::size_t half = 0, one = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float d = std::fabs(a[i] - b[i]);
    float& units = in_steps[i];
    units = same_number(a[i], b[i]) ? 0 : steps[i] > 0 ? d / steps[i] : INFINITY;
    if (std::isnan(units)) units = INFINITY;
    half += units > 0.5F, one += units > 1.0F;
  }
  StepDistances found;
  const auto n = static_cast<double>(a.size());
  if (a.empty()) return found;
  const auto quantile = [&](double share) {
    const auto at = static_cast<std::ptrdiff_t>(share * (n - 1));
    std::nth_element(in_steps.begin(), in_steps.begin() + at, in_steps.end());
    return static_cast<double>(in_steps[static_cast<std::size_t>(at)]);
  };
  found.median = quantile(0.5), found.p99 = quantile(0.99);
  found.above_half = static_cast<double>(half) / n, found.above_one = static_cast<double>(one) / n;
  return found;
}

using Numbers = std::vector<float>;

Numbers transposed_numbers(const Numbers& numbers, std::size_t rows, std::size_t columns) {
  Numbers result(numbers.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = numbers[i * columns + j];
  return result;
}

Numbers in_order(const Numbers& numbers, std::size_t columns, const RowPermutation& order) {
  Numbers result(numbers.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(order[i] * columns), columns,
                result.begin() + static_cast<std::ptrdiff_t>(i * columns));
  return result;
}

/// Compares a pair, and tries the ways in which one may have been changed into the other.
class PairComparison {
public:
  PairComparison(const Weight& a, const Weight& b, const std::vector<std::size_t>& heads)
      : a_(a), b_(b), heads_(heads) {
    diff_.name = a.name, diff_.other = b.name;
    diff_.type_a = a.type, diff_.type_b = b.type;
    diff_.shape_a = a.shape, diff_.shape_b = b.shape;
  }

  WeightDiff compare() {
    const Tensor tensor_a = a_.read(), tensor_b = b_.read();
    coarse_ = 4 * coarseness(tensor_a.dtype(), tensor_b.dtype());
    const bool blocks = a_.steps || b_.steps, counts = tensor_a.count() == tensor_b.count();
    if (counts && squeezed_shape(a_.shape) == squeezed_shape(b_.shape)) {
      if (same_weights(tensor_a, tensor_b)) {
        note_order_in_file();
        return diff_;
      }
      if (const auto rounded = blocks ? std::nullopt : same_when_rounded(tensor_a, tensor_b)) {
        diff_.detail = fmt::format("rounded to {}", name_of(*rounded));
        measure(tensor_a, tensor_b);
        note_order_in_file();
        return diff_;
      }
    }
    if (!counts) {
      diff_.status = WeightStatus::shape;
      note_further_rows(tensor_a, tensor_b);
      return diff_;
    }
    x_ = numbers_of(tensor_a), y_ = numbers_of(tensor_b);
    keep_first_numbers(); // before rows are put in order
    if (blocks) take_steps();
    shape_ = squeezed_shape(a_.shape);
    if (shape_ == squeezed_shape(b_.shape))
      judge_same_shape(tensor_a, tensor_b);
    else if (Shape(shape_.rbegin(), shape_.rend()) == squeezed_shape(b_.shape) &&
             shape_.size() == 2)
      judge_reversed();
    else
      diff_.status = WeightStatus::shape;
    return diff_;
  }

private:
  void keep_first_numbers() {
    constexpr std::size_t few = 64;
    const auto count = static_cast<std::ptrdiff_t>(std::min(few, x_.size()));
    diff_.first_a.assign(x_.begin(), x_.begin() + count);
    diff_.first_b.assign(y_.begin(), y_.begin() + count);
  }

  static Shape squeezed_shape(const Shape& shape) {
    Shape kept;
    for (const std::size_t n : shape)
      if (n != 1) kept.push_back(n);
    return kept;
  }

  /// Notes whether the common rows of a table that grew, as vocabularies do, are the same.
  void note_further_rows(const Tensor& a, const Tensor& b) {
    const Shape &shape_a = a.shape(), &shape_b = b.shape();
    if (shape_a.empty() || shape_a.size() != shape_b.size() || shape_a[0] == shape_b[0] ||
        !std::equal(shape_a.begin() + 1, shape_a.end(), shape_b.begin() + 1))
      return;
    const std::size_t rows = std::min(shape_a[0], shape_b[0]),
                      further = std::max(shape_a[0], shape_b[0]) - rows;
    const auto first_of = [&](const Tensor& tensor) {
      Tensor numbers = convert(tensor, DType::f32);
      const std::span<const float> all = numbers.as<float>();
      const auto count = static_cast<std::ptrdiff_t>(rows * (all.size() / numbers.shape()[0]));
      return Numbers(all.begin(), all.begin() + count);
    };
    if (rows == 0) return;
    const Numbers x = first_of(a), y = first_of(b);
    std::size_t other = 0;
    const std::size_t columns = x.size() / rows;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!same_number(x[i], y[i]) && !(std::fabs(x[i] - y[i]) < coarse_ * std::fabs(y[i])))
        ++other, i = (i / columns + 1) * columns - 1; // go on with the next row
    diff_.detail = fmt::format("{} in {}; of the other {} {}", counted(further, "rows more"),
                               shape_a[0] > shape_b[0] ? 'A' : 'B', rows,
                               other == 0 ? "all are equal" : fmt::format("rows {} differ", other));
  }

  /// Takes the larger of the two files' steps for each number.
  void take_steps() {
    steps_.assign(x_.size(), 0);
    for (const Weight* weight : {&a_, &b_}) {
      if (!weight->steps) continue;
      const Numbers own = numbers_of(weight->steps());
      for (std::size_t i = 0; i < own.size() && i < steps_.size(); ++i)
        steps_[i] = std::max(steps_[i], own[i]);
    }
  }

  void measure(const Tensor& a, const Tensor& b) {
    const Tensor wide_a = convert(a, DType::f64), wide_b = convert(b, DType::f64);
    double squares = 0, of_a = 0;
    for (std::size_t i = 0; i < wide_a.count(); ++i) {
      const double x = wide_a.as<double>()[i], d = std::fabs(x - wide_b.as<double>()[i]);
      if (d > diff_.largest || std::isnan(d)) diff_.largest = d;
      squares += d * d, of_a += x * x;
    }
    diff_.relative = of_a > 0 ? std::sqrt(squares / of_a) : squares > 0 ? INFINITY : 0;
  }

  /// Whether A's changed numbers are B's, within a block type's steps or rounding.
  bool agrees(const Numbers& changed) const {
    if (!steps_.empty()) return step_distances(changed, y_, steps_).close();
    for (std::size_t i = 0; i < changed.size(); ++i) {
      const double a = changed[i], b = y_[i];
      if (!same_number(a, b) &&
          !(std::fabs(a - b) <= coarse_ * std::max({std::fabs(a), std::fabs(b), largest_ * 1e-3})))
        return false;
    }
    return true;
  }
  /// The same for a sample of the numbers, which nearly always decides.
  bool may_agree(const Numbers& changed) const {
    constexpr std::size_t some = 4096;
    if (changed.size() <= 2 * some) return true;
    std::size_t bad = 0, seen = 0;
    for (std::size_t i = 0; i < changed.size(); i += changed.size() / some, ++seen) {
      const double d = std::fabs(changed[i] - y_[i]);
      const double allowed = steps_.empty()
                                 ? coarse_ * std::max<double>(std::fabs(y_[i]), largest_ * 1e-3)
                                 : steps_[i];
      bad += !(d <= allowed);
    }
    return bad * 20 < seen;
  }
  bool finds(const Numbers& changed, WeightStatus status, std::string detail) {
    if (!may_agree(changed) || !agrees(changed)) return false;
    diff_.status = status, diff_.detail = std::move(detail);
    if (!steps_.empty()) diff_.steps = step_distances(changed, y_, steps_);
    return true;
  }

  void judge_same_shape(const Tensor& a, const Tensor& b) {
    measure(a, b);
    for (const float y : y_) largest_ = std::max<double>(largest_, std::fabs(y));
    if (!steps_.empty()) {
      diff_.steps = step_distances(x_, y_, steps_);
      if (diff_.steps->close()) {
        diff_.status = WeightStatus::close;
        note_order_in_file();
        return;
      }
    }
    diff_.status = WeightStatus::differs;
    if (finds_offset() || finds_scale()) return;
    const std::size_t columns = shape_.empty() ? 1 : shape_.back(),
                      rows = x_.size() / std::max<std::size_t>(columns, 1);
    if (shape_.size() == 2 && rows == columns &&
        finds(transposed_numbers(x_, rows, columns), WeightStatus::permuted, "transposed"))
      return;
    if (!has_moved_rows(rows, columns)) return;
    if (shape_.size() == 1)
      finds_order(x_, x_.size(), 1, "rows", "");
    else if (shape_.size() >= 2 && !finds_order(x_, shape_[0], x_.size() / shape_[0], "rows", ""))
      finds_order_of_columns(x_, rows, columns, "");
  }

  /// Whether a row was moved: in a fine-tuned model every row is near its original.
  bool has_moved_rows(std::size_t rows, std::size_t columns) const {
    constexpr double far = 0.8; // unrelated rows are √2 apart
    if (shape_.size() < 2) return diff_.relative > 0.3;
    for (std::size_t i = 0; i < rows; ++i) {
      double of_a = 0, between = 0;
      for (std::size_t j = i * columns; j < (i + 1) * columns; ++j) {
        const double a = x_[j], d = a - y_[j];
        of_a += a * a, between += d * d;
      }
      if (between > far * far * of_a) return true;
    }
    return false;
  }

  /// A matrix that is transposed in the other file.
  void judge_reversed() {
    for (const float y : y_) largest_ = std::max<double>(largest_, std::fabs(y));
    const std::size_t rows = shape_[0], columns = shape_[1];
    const Numbers turned = transposed_numbers(x_, rows, columns);
    diff_.status = WeightStatus::shape;
    if (finds(turned, WeightStatus::permuted, "transposed")) return;
    if (!finds_order(turned, columns, rows, "rows", "transposed, and "))
      finds_order_of_columns(turned, columns, rows, "transposed, and ");
  }

  bool finds_offset() {
    for (const float by : {1.0F, -1.0F}) {
      Numbers moved = x_;
      for (float& x : moved) x += by;
      // The sum with 1 was rounded as a number of size 1.
      const double kept = largest_;
      largest_ = std::max(largest_, 1e3);
      const bool found = finds(moved, WeightStatus::offset, by > 0 ? "+ 1" : "− 1");
      largest_ = kept;
      if (found) return true;
    }
    return false;
  }

  bool finds_scale() {
    double products = 0, squares = 0;
    for (std::size_t i = 0; i < x_.size(); ++i)
      products += static_cast<double>(x_[i]) * y_[i], squares += static_cast<double>(x_[i]) * x_[i];
    const double factor = products / squares;
    if (!std::isfinite(factor) || std::fabs(factor) < 1e-12 || x_.size() < 2) return false;
    Numbers times = x_;
    for (float& x : times) x = static_cast<float>(x * factor);
    if (std::fabs(factor - 1) < 16 * coarse_) return false;
    return finds(times, WeightStatus::scaled, fmt::format("× {:.6g}", factor));
  }

  bool finds_order(const Numbers& numbers, std::size_t rows, std::size_t columns, const char* what,
                   const std::string& before) {
    for (const std::size_t heads : possible_heads(rows, heads_)) {
      const RowPermutation turn = half_to_interleaved(rows, heads);
      for (const RowPermutation& order : {turn, inverse(turn)})
        if (finds_named(numbers, columns, order, what, before)) return true;
      if (rows / heads > 512 && heads > 64) break;
    }
    const auto order = matching_rows({numbers, rows, columns}, {y_, rows, columns});
    return order && finds_named(numbers, columns, *order, what, before);
  }

  bool finds_named(const Numbers& numbers, std::size_t columns, const RowPermutation& order,
                   const char* what, const std::string& before) {
    // A few rows nearly always decide, before all are put in order.
    if (steps_.empty() && !rows_may_agree(numbers, columns, order)) return false;
    return finds(in_order(numbers, columns, order), WeightStatus::permuted,
                 before + name_of_order(order, heads_, what));
  }

  bool rows_may_agree(const Numbers& numbers, std::size_t columns,
                      const RowPermutation& order) const {
    const std::size_t step = std::max<std::size_t>(order.size() / 61, 1);
    for (std::size_t i = 0; i < order.size(); i += step) {
      const double a = numbers[order[i] * columns], b = y_[i * columns];
      if (!same_number(a, b) &&
          !(std::fabs(a - b) <= coarse_ * std::max({std::fabs(a), std::fabs(b), largest_ * 1e-3})))
        return false;
    }
    return true;
  }

  bool finds_order_of_columns(const Numbers& numbers, std::size_t rows, std::size_t columns,
                              const std::string& before) {
    Numbers turned = transposed_numbers(numbers, rows, columns);
    std::swap(y_, other_), y_ = transposed_numbers(other_, rows, columns);
    if (!steps_.empty()) steps_ = transposed_numbers(steps_, rows, columns);
    return finds_order(turned, columns, rows, "columns", before);
  }

  /// If reading put the rows in order, notes the order in the file.
  void note_order_in_file() {
    for (const Weight* weight : {&b_, &a_}) {
      if (!weight->as_file) continue;
      const Tensor in_file = weight->as_file(), read = weight->read();
      if (in_file.shape() != read.shape() || in_file.shape().empty() || same_weights(in_file, read))
        continue;
      const std::size_t rows = in_file.shape()[0], columns = in_file.count() / rows;
      const Numbers x = numbers_of(read), y = numbers_of(in_file);
      std::optional<RowPermutation> order;
      for (const std::size_t heads : possible_heads(rows, heads_)) {
        const RowPermutation turn = half_to_interleaved(rows, heads);
        if (in_order(x, columns, turn) == y) {
          order = turn;
          break;
        }
      }
      if (!order) order = matching_rows({x, rows, columns}, {y, rows, columns});
      if (!order || in_order(x, columns, *order) != y) continue;
      diff_.detail +=
          fmt::format("{}permuted in the file, {}, and put back when read",
                      diff_.detail.empty() ? "" : "; ", name_of_order(*order, heads_, "rows"));
      return;
    }
  }

  const Weight &a_, &b_;
  const std::vector<std::size_t>& heads_;
  WeightDiff diff_;
  Numbers x_, y_, other_, steps_;
  Shape shape_;
  double coarse_ = 0, largest_ = 0;
};

} // namespace

bool same_weights(const Tensor& a, const Tensor& b) {
  if (a.count() != b.count()) return false;
  const auto same_as = [&]<class T>(T) {
    const Tensor wide_a = convert(a, dtype_of<T>), wide_b = convert(b, dtype_of<T>);
    return std::ranges::equal(wide_a.as<T>(), wide_b.as<T>(), same_number);
  };
  const auto fits = [](const Tensor& tensor) { // float32 holds its numbers
    return is_floating(tensor.dtype()) && tensor.dtype() != DType::f64;
  };
  return fits(a) && fits(b) ? same_as(float{}) : same_as(double{});
}

WeightDiff diff_weight(const Weight& a, const Weight& b, const std::vector<std::size_t>& heads) {
  return PairComparison(a, b, heads).compare();
}

} // namespace mha
