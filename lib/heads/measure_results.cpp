#include <mha/heads/measure_results.hpp>

#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

ResultMeasures::ResultMeasures(const Layer& layer, Tensor output, const RowMeasures& rows,
                               const Plan& part)
    : layer_(layer),
      dims_(layer.dims),
      output_(std::move(output)),
      rows_(rows),
      block_rows_(rows.block_rows()),
      blocks_((dims_.T + block_rows_ - 1) / block_rows_),
      parts_(dims_.B * dims_.H * blocks_) {
  if (output_.empty()) return;
  for (const std::size_t place : places_of(part)) {
    const std::size_t batch = place / blocks_ / dims_.H, block = place % blocks_;
    if (place / blocks_ % dims_.H == 0)
      parts_[place].squares =
          by_precision(layer.dtype, [&]<class T>(T) { return squares_of_sums<T>(batch, block); });
  }
}

std::vector<std::size_t> ResultMeasures::places_of(const Plan& plan) const {
  std::vector<std::size_t> places;
  const std::size_t units = block_queries / block_rows_; // of a plan's block
  for (const auto& [batch, head, block] : plan.blocks)
    for (std::size_t unit = block * units; head < dims_.H && unit < (block + 1) * units; ++unit)
      if (unit < blocks_) places.push_back((batch * dims_.H + head) * blocks_ + unit);
  return places;
}

void ResultMeasures::share(const Layer&, const Plan& part, ShareBytes& bytes) {
  for (const std::size_t place : places_of(part)) bytes.field(parts_[place]);
}

bool ResultMeasures::is_shared(std::size_t b, std::size_t t) const {
  if (!rows_.selected(t)) return false;
  for (std::size_t h = 0; h < dims_.H; ++h)
    if (!rows_.attends(b, h, t)) return false;
  return true;
}

template <class T>
void ResultMeasures::sum_of_heads(std::size_t b, std::size_t t, std::vector<double>& sum) const {
  const T* output = output_.as<T>().data() + (b * dims_.T + t) * dims_.d_out;
  sum.assign(output, output + dims_.d_out);
  if (layer_.b_o.empty()) return;
  for (std::size_t i = 0; i < dims_.d_out; ++i)
    sum[i] -= static_cast<double>(layer_.b_o.as<T>()[i]);
}

template <class T> double ResultMeasures::squares_of_sums(std::size_t b, std::size_t block) const {
  double squares = 0;
  std::vector<double> sum;
  const std::size_t first = block * block_rows_, last = std::min(first + block_rows_, dims_.T);
  for (std::size_t t = first; t < last; ++t) {
    if (!is_shared(b, t)) continue;
    sum_of_heads<T>(b, t, sum);
    for (double value : sum) squares += value * value;
  }
  return squares;
}

void ResultMeasures::observe(const Slice& block) {
  if (block.token >= block.length) return;
  by_precision(block.values.dtype, [&]<class T>(T) { observe_as<T>(block); });
}

// The bands of a block arrive one after the other, in one thread.
template <class T> void ResultMeasures::observe_as(const Slice& block) {
  const std::size_t b = block.batch;
  std::vector<double> sum;
  for (std::size_t i = 0; i < block.values.shape[1]; ++i) {
    const std::size_t t = block.token + i;
    if (!rows_.selected(t) || !rows_.attends(b, block.head, t)) continue;
    BlockSums& part = parts_[(b * dims_.H + block.head) * blocks_ + t / block_rows_];
    const T* result = block.row<T>(i);
    double squares = 0;
    for (std::size_t d = 0; d < dims_.d_out; ++d) {
      const auto value = static_cast<double>(result[d]);
      squares += value * value;
    }
    part.norm.add(std::sqrt(squares));
    if (output_.empty() || !is_shared(b, t)) continue;
    sum_of_heads<T>(b, t, sum);
    for (std::size_t d = 0; d < dims_.d_out; ++d)
      part.along_output += static_cast<double>(result[d]) * sum[d];
  }
}

void ResultMeasures::fill(HeadMeasures& head) const {
  BlockSums all;
  double squares = 0;
  const std::size_t first = head.batch.value_or(0), last = head.batch ? first + 1 : dims_.B;
  for (std::size_t b = first; b < last; ++b)
    for (std::size_t block = head.query.value_or(0);
         block < (head.query ? *head.query + 1 : blocks_); ++block) {
      const BlockSums& part = parts_[(b * dims_.H + head.head) * blocks_ + block];
      all.norm.add(part.norm);
      all.along_output += part.along_output;
      squares += parts_[b * dims_.H * blocks_ + block].squares;
    }
  head.result_norm = all.norm.value();
  if (squares > 0) head.result_share = all.along_output / squares;
}

} // namespace mha
