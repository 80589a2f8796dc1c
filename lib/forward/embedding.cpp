#include <mha/forward/embedding.hpp>

#include <mha/forward/norm.hpp>

#include <algorithm>

namespace mha {

namespace {

/// Row `index` of a (rows, width) table, converted to T.
template <class T> void read_row(const Tensor& table, std::size_t index, T* to) {
  const std::size_t width = table.shape()[1], element = size_of(table.dtype());
  convert(table.raw() + index * width * element, table.dtype(), reinterpret_cast<std::byte*>(to),
          dtype_of<T>, width);
}

/// The positions of a text's tokens: 0, 1 …, or as RoBERTa counts.
std::vector<std::size_t> positions_of(const Embedding& embedding, const std::vector<int>& ids) {
  std::vector<std::size_t> positions(ids.size());
  std::size_t tokens = 0;
  for (std::size_t t = 0; t < ids.size(); ++t)
    if (!embedding.pad)
      positions[t] = embedding.first_position + t;
    else
      positions[t] =
          static_cast<std::size_t>(*embedding.pad) + (ids[t] == *embedding.pad ? 0 : ++tokens);
  return positions;
}

void require_rows(const Embedding& embedding, const std::vector<int>& ids,
                  const std::vector<std::size_t>& positions) {
  const std::size_t vocabulary = embedding.tokens.shape()[0];
  for (std::size_t t = 0; t < ids.size(); ++t)
    if (ids[t] < 0 || static_cast<std::size_t>(ids[t]) >= vocabulary)
      fail("token {} of the text is {}: the vocabulary has {} to {}", t, ids[t], 0, vocabulary - 1);
  if (embedding.positions.empty() || positions.empty()) return;
  const std::size_t rows = embedding.positions.shape()[0];
  const std::size_t last = *std::max_element(positions.begin(), positions.end());
  if (last < rows) return;
  const std::size_t first = *std::min_element(positions.begin(), positions.end());
  fail("the text has {}, the model has positions for {}: give a shorter text",
       counted(ids.size(), "tokens"), rows - std::min(first, rows));
}

template <class T>
void embed_text(const Embedding& e, const Norm& norm, const std::vector<int>& ids, Matrix<T> to) {
  const std::vector<std::size_t> positions = positions_of(e, ids);
  require_rows(e, ids, positions);
  const T scale = static_cast<T>(e.scale);
  std::vector<T> other(to.cols);
  const auto add = [&](const Tensor& table, std::size_t index, T* row) {
    if (table.empty()) return;
    read_row(table, index, other.data());
    for (std::size_t i = 0; i < to.cols; ++i) row[i] += other[i];
  };
  for (std::size_t t = 0; t < ids.size(); ++t) {
    T* row = to.row(t);
    read_row(e.tokens, static_cast<std::size_t>(ids[t]), row);
    for (std::size_t i = 0; i < to.cols; ++i) row[i] *= scale;
    add(e.positions, positions[t], row);
    add(e.types, 0, row);
  }
  norm_rows<T>(norm, to, to);
}

} // namespace

Tensor embed(const Embedding& embedding, const std::vector<std::vector<int>>& ids, DType dtype) {
  const std::size_t B = ids.size(), T = ids.front().size(), d = embedding.tokens.shape()[1];
  Tensor all = Tensor::uninitialised(dtype, {B, T, d});
  const Norm norm = in_precision(embedding.norm, dtype);
  for (std::size_t b = 0; b < B; ++b)
    if (dtype == DType::f64)
      embed_text<double>(embedding, norm, ids[b],
                         {all.as_mutable<double>().data() + b * T * d, T, d, d});
    else
      embed_text<float>(embedding, norm, ids[b],
                        {all.as_mutable<float>().data() + b * T * d, T, d, d});
  return all;
}

} // namespace mha
