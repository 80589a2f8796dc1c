#include <mha/observe/overflow.hpp>

#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/observe/masked_keys.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/one_of.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

template <class T> bool all_finite(const Tensor& tensor) {
  const auto values = tensor.as<T>();
  return std::all_of(values.begin(), values.end(), [](T value) { return std::isfinite(value); });
}

bool is_finite(const Layer& layer, const Tensor& tensor) {
  if (tensor.empty()) return true;
  return by_precision(layer.dtype, [&]<class T>(T) { return all_finite<T>(tensor); });
}

/// Whether numbers added to scores are finite, or −inf as in masks.
bool hides_or_adds(const Broadcast& numbers) {
  for (std::size_t i = 0; i < numbers.tensor.count(); ++i)
    if (!(value_at(numbers.tensor, i) < std::numeric_limits<double>::infinity())) return false;
  return true;
}

/// The first tensor of the layer that is not finite, or "".
std::string not_finite_tensor(const Layer& layer) {
  for (const TensorInfo& info : layer_tensors())
    if (!info.in_layer.in_double && !is_finite(layer, info.of(layer)))
      return std::string(info.name);
  for (const auto* list : {&layer.added, &layer.bias})
    for (const Broadcast& added : *list)
      if (!hides_or_adds(added)) return added.name.empty() ? "the mask" : added.name;
  return "";
}

/// The numbers of a stage at one query that are not finite, and not because of a mask.
struct NotFinite {
  std::size_t count = 0, first = 0;
  double value = 0;
};
NotFinite not_finite_of(const Tensor& values, const std::vector<std::uint8_t>* masked) {
  NotFinite found;
  for (std::size_t i = 0; i < values.count(); ++i) {
    if (masked && (*masked)[i] != 0) continue;
    const double value = value_at(values, i);
    if (std::isfinite(value)) continue;
    if (found.count++ == 0) found.first = i, found.value = value;
  }
  return found;
}

std::string number_text(double value) {
  return std::isnan(value) ? "NaN" : value < 0 ? "−inf" : "inf";
}

} // namespace

std::optional<Overflow> find_overflow(const Layer& layer, std::size_t batch, std::size_t head,
                                      std::size_t query) {
  const StageSet available = available_stages(layer);
  std::vector<Stage> list;
  for (const Stage stage : available)
    if (info_of(stage).kind != Kind::head_result) list.push_back(stage);
  Selection selection;
  selection.query = IndexList::of_indices({query}, message("<query>"));
  if (layer.dims.H > 0) selection.head = IndexList::of_indices({head}, message("<head>"));
  if (layer.dims.batched) selection.batch = IndexList::of_indices({batch}, message("<batch>"));
  const Trace kept = trace(layer, list, selection, 1);

  const std::vector<std::uint8_t> masked = masked_keys(layer, batch, head, query);
  const bool all_masked = !is_one_of(0, masked);
  for (Stage stage : list) {
    const StageInfo& info = info_of(stage);
    if (all_masked && info.kind == Kind::row) continue;
    const bool after_masks = info.kind == Kind::map;
    const NotFinite bad = not_finite_of(kept.value(stage), after_masks ? &masked : nullptr);
    if (bad.count == 0) continue;
    if (layer.has_given(stage) || !not_finite_tensor(layer).empty()) return std::nullopt;
    return Overflow{stage, batch, head, query, bad.count, bad.first, bad.value};
  }
  return std::nullopt;
}

Message overflow_text(const Layer& layer, const Overflow& found) {
  const bool f32 = layer.dtype == DType::f32;
  const StageInfo& info = info_of(found.stage);
  std::string place;
  if (layer.dims.batched) place += fmt::format("batch {}, ", layer.first_item + found.batch);
  const bool has_head = info.letters.size() == 3 || info.kind != Kind::token;
  if (has_head) place += fmt::format("head {}, ", found.head);
  place += fmt::format("query {}", found.query);
  std::string what = fmt::format("{} of {} {} {}", found.count, info.name,
                                 found.count == 1 ? "is" : "are", number_text(found.value));
  if (info.kind == Kind::map) what += fmt::format(", the first at key {}", found.first);
  const bool naive = layer.settings.softmax == Softmax::naive && follows(found.stage, Stage::exp);
  return message(
      "overflow: {} ({}): {} ends at {}; {}", what, place, name_of(layer.dtype),
      f32 ? "3.4e38" : "1.8e308",
      naive ? message("<softmax> stable subtracts the row's maximum")
      : f32 ? message("<dtype> f64 computes it, or make the input, the weights or <scale> smaller")
            : message("make the input, the weights or <scale> smaller"));
}

std::string not_finite_text(const Layer& layer) {
  std::string name = not_finite_tensor(layer);
  for (const StageInfo& info : stages())
    if (name.empty() && layer.has_given(info.stage) &&
        !is_finite(layer, layer.given[index_of(info.stage)]))
      name = info.name;
  if (name.empty()) return "";
  return fmt::format(
      "{} has numbers that are NaN or infinite: everything computed from them is lost, and "
      "measures of heads mean nothing",
      name);
}

OverflowWatch::OverflowWatch(const Layer& layer)
    : batched_(layer.dims.batched), first_item_(layer.first_item) {
  if (!layer.has_given(Stage::weights) && contains(available_stages(layer), Stage::row_sum))
    wants_.add(Stage::row_sum);
}

void OverflowWatch::observe(const Slice& block) {
  std::size_t rows = 0;
  LostRow first{};
  for (std::size_t i = 0; i < block.values.shape[1] && block.token + i < block.length; ++i) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * block.values.strides[1];
    const double sum =
        block.values.dtype == DType::f64
            ? reinterpret_cast<const double*>(block.values.data)[at]
            : static_cast<double>(reinterpret_cast<const float*>(block.values.data)[at]);
    if (std::isfinite(sum)) continue;
    if (rows++ == 0) first = {block.batch, block.head, block.token + i};
  }
  if (rows > 0) add(rows, first);
}

void OverflowWatch::add(std::size_t rows, const LostRow& first) {
  const std::lock_guard lock(mutex_);
  rows_ += rows;
  if (!first_ || first < *first_) first_ = first;
}

void OverflowWatch::share(const Layer&, const Plan&, ShareBytes& bytes) {
  std::size_t rows = rows_;
  LostRow first = first_.value_or(LostRow{});
  bytes.field(rows), bytes.field(first);
  if (!bytes.writes() && rows > 0) add(rows, first);
}

Message OverflowWatch::report_without_layer() const {
  if (!first_) return "";
  return message("{} of exponentials {} no finite sum: a number before overflowed, or was not "
                 "finite; `explain {}<head> {} <query> {}` shows which",
                 counted(rows_, "rows"), rows_ == 1 ? "has" : "have",
                 batched_ ? message("<batch> {} ", first_item_ + first_->batch) : "", first_->head,
                 first_->query);
}

Message OverflowWatch::report(const Layer& layer) const {
  if (!first_) return "";
  const std::optional<Overflow> found =
      find_overflow(layer, first_->batch, first_->head, first_->query);
  if (!found) return layer.block ? not_finite_text(layer) : "";
  return overflow_text(layer, *found) +
         (rows_ > 1 ? fmt::format("; so are {} more rows", rows_ - 1) : "");
}

} // namespace mha
