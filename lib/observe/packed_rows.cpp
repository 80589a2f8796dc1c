#include "observe/packed_rows.hpp"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace mha {

static_assert(std::endian::native == std::endian::little, "packed numbers are little-endian");

namespace {

/// A row's smallest number and the step between two codes.
struct RowScale {
  float smallest = 0, step = 0;
};
constexpr std::uint16_t largest_code = rounded_nan - 1;

template <class T>
RowScale round_row(const T* row, std::ptrdiff_t stride, std::uint16_t* codes, std::size_t count) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto number = [&](std::size_t i) {
    return static_cast<double>(row[static_cast<std::ptrdiff_t>(i) * stride]);
  };
  for (std::size_t i = 0; i < count; ++i)
    if (std::isfinite(number(i))) low = std::min(low, number(i)), high = std::max(high, number(i));
  RowScale scale;
  if (low <= high) {
    // The smallest is rounded to a float first: codes count from what the reader adds to.
    scale.smallest = static_cast<float>(low);
    scale.step = static_cast<float>((high - static_cast<double>(scale.smallest)) / largest_code);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double value = number(i);
    if (std::isfinite(value)) {
      const double steps =
          scale.step > 0 ? (value - static_cast<double>(scale.smallest)) / scale.step : 0;
      codes[i] =
          static_cast<std::uint16_t>(std::clamp(std::round(steps), 0.0, double{largest_code}));
    } else {
      codes[i] = std::isnan(value) ? rounded_nan
                 : value > 0       ? rounded_infinity
                                   : rounded_minus_infinity;
    }
  }
  return scale;
}

/// Every first byte of `count` elements, then every second …
void append_planes(std::string& out, const char* elements, std::size_t count, std::size_t size) {
  const std::size_t start = out.size();
  out.resize(start + count * size);
  for (std::size_t byte = 0; byte < size; ++byte)
    for (std::size_t i = 0; i < count; ++i)
      out[start + byte * count + i] = elements[i * size + byte];
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 6) != Z_OK)
    fail("{} bytes could not be packed", bytes.size());
  out.resize(size);
  return out;
}

} // namespace

PackedRows::PackedRows(const Layer& layer, const std::vector<Target>& targets,
                       const Selection& selection, std::size_t batch, std::size_t limit)
    : dtype_(layer.dtype), batch_(batch), limit_(limit) {
  for (const auto& [stage, form] : targets) {
    require_stage(layer, stage);
    Kept& kept = kept_[stage];
    kept.form = form;
    for (const SelectedAxis& axis : selected_axes(layer, stage, selection))
      if (axis.axis == Axis::head || axis.axis == Axis::kv_head) kept.numbers = axis.pick.indices;
    const std::vector<Letter>& letters = info_of(stage).letters;
    if (kept.numbers.empty() || letters.size() != 3) fail("{} has no heads", name_of(stage));
    kept.rows = layer.dims.size_of(letters[1]);
    kept.cols = layer.dims.size_of(letters[2]);
    for (std::size_t i = 0; i < kept.numbers.size(); ++i) {
      kept.heads.push_back(std::make_unique<Head>());
      kept.heads.back()->missing = kept.rows;
    }
  }
}

StageSet PackedRows::wants() const {
  StageSet set;
  for (const auto& [stage, kept] : kept_) set.set(index_of(stage));
  return set;
}

std::size_t PackedRows::head_bytes(const Kept& kept) const {
  const std::size_t count = kept.rows * kept.cols;
  return kept.form == RowForm::exact ? count * size_of(dtype_)
                                     : kept.rows * sizeof(RowScale) + count * sizeof(std::uint16_t);
}

void PackedRows::observe(const Block& block) {
  if (block.batch != batch_) return;
  Kept& kept = kept_.at(block.stage);
  if (kept.packed > limit_) return;
  if (dtype_ == DType::f64)
    observe_as<double>(block, kept);
  else
    observe_as<float>(block, kept);
}

/// block.values: heads, n, cols.
template <class T> void PackedRows::observe_as(const Block& block, Kept& kept) {
  const ArrayView& values = block.values;
  const std::size_t rows = values.shape.at(1);
  for (std::size_t i = 0; i < kept.numbers.size(); ++i) {
    if (kept.numbers[i] < block.head || kept.numbers[i] >= block.head + values.shape[0]) continue;
    Head& head = *kept.heads[i];
    {
      const std::lock_guard lock(mutex_);
      if (head.bytes.empty()) head.bytes.resize(head_bytes(kept));
    }
    const T* first = reinterpret_cast<const T*>(values.data) +
                     static_cast<std::ptrdiff_t>(kept.numbers[i] - block.head) * values.strides[0];
    for (std::size_t r = 0; r < rows; ++r) {
      const T* row = first + static_cast<std::ptrdiff_t>(r) * values.strides[1];
      const std::size_t at = (block.token + r) * kept.cols;
      if (kept.form == RowForm::exact) {
        for (std::size_t c = 0; c < kept.cols; ++c)
          std::memcpy(head.bytes.data() + (at + c) * sizeof(T),
                      row + static_cast<std::ptrdiff_t>(c) * values.strides[2], sizeof(T));
      } else {
        std::vector<std::uint16_t> codes(kept.cols);
        const RowScale scale = round_row(row, values.strides[2], codes.data(), kept.cols);
        std::memcpy(head.bytes.data() + (block.token + r) * sizeof scale, &scale, sizeof scale);
        std::memcpy(head.bytes.data() + kept.rows * sizeof scale + at * sizeof(std::uint16_t),
                    codes.data(), codes.size() * sizeof(std::uint16_t));
      }
    }
    if (head.missing.fetch_sub(rows) != rows) continue;
    const std::size_t scales = kept.form == RowForm::exact ? 0 : kept.rows * sizeof(RowScale);
    std::string planes = head.bytes.substr(0, scales);
    append_planes(planes, head.bytes.data() + scales, kept.rows * kept.cols,
                  kept.form == RowForm::exact ? sizeof(T) : sizeof(std::uint16_t));
    head.bytes = deflated(planes);
    kept.packed += head.bytes.size();
  }
}

std::optional<PackedStage> PackedRows::take(Stage stage) {
  Kept& kept = kept_.at(stage);
  if (kept.packed > limit_) return std::nullopt;
  PackedStage packed{kept.form, kept.rows, kept.cols, {}};
  for (const std::unique_ptr<Head>& head : kept.heads)
    packed.heads.push_back(std::move(head->bytes));
  return packed;
}

} // namespace mha
