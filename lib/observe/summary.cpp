#include <mha/observe/summary.hpp>

#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <array>

namespace mha {

namespace {

/// Sums run in this many lanes, so that compilers use vectors and the order is fixed.
constexpr std::size_t lanes = 16;

template <class T> class Running {
public:
  void add(const T* values, std::size_t count) {
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      for (std::size_t lane = 0; lane < lanes; ++lane) step(lane, values[i + lane]);
    for (std::size_t lane = 0; i < count; ++i, ++lane) step(lane, values[i]);
    count_ += count;
  }

  /// The same for numbers that are all finite, without a check of each; adds nothing and returns
  /// false if one is not. A number minus itself is 0, but NaN if it is infinite or NaN.
  bool add_finite(const T* values, std::size_t count) {
    std::array<double, lanes> sum = sum_;
    std::array<T, lanes> min = min_, max = max_, none{};
    const auto step_finite = [&](std::size_t lane, T value) {
      none[lane] += value - value;
      sum[lane] += static_cast<double>(value);
      min[lane] = value < min[lane] ? value : min[lane];
      max[lane] = value > max[lane] ? value : max[lane];
    };
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      for (std::size_t lane = 0; lane < lanes; ++lane) step_finite(lane, values[i + lane]);
    for (std::size_t lane = 0; i < count; ++i, ++lane) step_finite(lane, values[i]);
    if (std::ranges::any_of(none, [](T zero) { return zero != 0; })) return false;
    sum_ = sum, min_ = min, max_ = max;
    finite_[0] += count, count_ += count;
    return true;
  }

  Summary summary() const {
    Summary total;
    total.count = count_;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      total.finite += finite_[lane];
      total.nan += nan_[lane];
      total.min = std::min(total.min, static_cast<double>(min_[lane]));
      total.max = std::max(total.max, static_cast<double>(max_[lane]));
      total.sum += sum_[lane];
    }
    total.infinite = total.count - total.finite - total.nan;
    return total;
  }

private:
  void step(std::size_t lane, T value) {
    const bool finite = value - value == 0; // NOLINT(misc-redundant-expression): not of inf
    finite_[lane] += finite;
    nan_[lane] += value != value; // NOLINT(misc-redundant-expression)
    sum_[lane] += finite ? static_cast<double>(value) : 0.0;
    min_[lane] = finite && value < min_[lane] ? value : min_[lane];
    max_[lane] = finite && value > max_[lane] ? value : max_[lane];
  }

  template <class V> static constexpr std::array<V, lanes> filled(V value) {
    std::array<V, lanes> array{};
    array.fill(value);
    return array;
  }
  std::size_t count_ = 0;
  std::array<std::size_t, lanes> finite_{}, nan_{};
  std::array<double, lanes> sum_{};
  std::array<T, lanes> min_ = filled(std::numeric_limits<T>::infinity());
  std::array<T, lanes> max_ = filled(-std::numeric_limits<T>::infinity());
};

/// The innermost rows of a view.
template <class T>
void add_rows(const ArrayView& view, std::size_t axis, const T* data, Running<T>& running) {
  if (axis + 1 >= view.shape.size()) {
    if (view.shape.empty()) return running.add(data, 1);
    if (view.strides[axis] == 1) return running.add(data, view.shape[axis]);
    for (std::size_t i = 0; i < view.shape[axis]; ++i)
      running.add(data + static_cast<std::ptrdiff_t>(i) * view.strides[axis], 1);
    return;
  }
  for (std::size_t i = 0; i < view.shape[axis]; ++i)
    add_rows(view, axis + 1, data + static_cast<std::ptrdiff_t>(i) * view.strides[axis], running);
}

template <class T> Summary summarise(const Slice& block, const Placement* placement) {
  Running<T> running;
  if (placement)
    placement->scatter(block, [&](std::size_t, const std::byte* values, std::size_t count) {
      running.add(reinterpret_cast<const T*>(values), count);
    });
  else
    add_rows(block.values, 0, reinterpret_cast<const T*>(block.values.data), running);
  return running.summary();
}

} // namespace

void Summary::add(const Summary& other) {
  count += other.count;
  finite += other.finite;
  nan += other.nan;
  infinite += other.infinite;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  sum += other.sum;
}

namespace {

constexpr std::size_t piece = 1 << 14;

template <class T> void add_piece(const T* values, std::size_t count, Summary& total) {
  Running<T> running;
  if (!running.add_finite(values, count)) running.add(values, count);
  total.add(running.summary());
}

} // namespace

Summary summary_of(const Tensor& tensor) {
  // In pieces, so that a tensor of half precision is not converted as a whole.
  Summary total;
  std::array<double, piece> numbers; // written before it is read: most tensors are smaller
  const std::size_t size = size_of(tensor.dtype());
  for (std::size_t first = 0; first < tensor.count(); first += piece) {
    const std::size_t count = std::min(piece, tensor.count() - first);
    const std::byte* const from = tensor.raw() + first * size;
    if (tensor.dtype() == DType::f32) {
      add_piece(reinterpret_cast<const float*>(from), count, total);
      continue;
    }
    convert(from, tensor.dtype(), reinterpret_cast<std::byte*>(numbers.data()), DType::f64, count);
    add_piece(numbers.data(), count, total);
  }
  return total;
}

Summaries::Summaries(const Layer& layer, const StageSet& wanted, const Selection& selection)
    : wanted_(wanted), selects_(!selection.empty()) {
  for (const Stage stage : wanted) placements_.emplace(stage, Placement(layer, stage, selection));
}

std::optional<std::size_t> Summaries::batch() const {
  return placements_.empty() ? std::nullopt : placements_.begin()->second.batch();
}

namespace {

/// The part of a block without padding.
Slice without_padding(const Slice& block) {
  const StageInfo& info = info_of(block.stage);
  if (info.kind == Kind::derived) return block; // zeros there
  Slice own = block;
  Shape& shape = own.values.shape;
  const auto keep = [&](std::size_t axis, std::size_t first) {
    shape[axis] = std::min(shape[axis], block.length > first ? block.length - first : 0);
  };
  keep(info.letters.size() == 3 || info.kind == Kind::row ? 1 : 0, block.token);
  // Scores after the end have no key; in `masked` they are −inf, and count as masked.
  if (info.kind == Kind::map) keep(2, 0);
  return own;
}

} // namespace

void Summaries::observe(const Slice& whole) {
  const Slice block = without_padding(whole);
  const Placement* placement = selects_ ? &placements_.at(block.stage) : nullptr;
  const Summary part =
      by_precision(block.values.dtype, [&]<class T>(T) { return summarise<T>(block, placement); });
  const std::lock_guard lock(mutex_);
  parts_[{block.stage, block.batch, block.head, block.token}] = part;
}

void Summaries::share(const Layer&, const Plan&, ShareBytes& bytes) {
  bytes.entries(parts_, [&](BlockKey& key, Summary& summary) {
    std::apply([&](auto&... part) { (bytes.field(part), ...); }, key);
    bytes.field(summary);
  });
}

Summary Summaries::of(Stage stage) const {
  Summary total;
  const auto last = parts_.lower_bound({static_cast<Stage>(index_of(stage) + 1), 0, 0, 0});
  for (auto part = parts_.lower_bound({stage, 0, 0, 0}); part != last; ++part)
    total.add(part->second);
  return total;
}

} // namespace mha
