#include <mha/forward/embedding.hpp>

#include <mha/forward/norm.hpp>
#include <mha/kernels/rows.hpp>
#include <mha/schedule/linear.hpp>
#include <mha/tensor/storage.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string_view>

namespace mha {

namespace {

/// `count` numbers of row `index` of a (rows, width) table, from `first` on, converted to T.
template <class T>
void read_row(const Tensor& table, std::size_t index, std::size_t first, std::size_t count, T* to) {
  const std::size_t width = table.shape()[1], element = size_of(table.dtype());
  convert(table.raw() + (index * width + first) * element, table.dtype(),
          reinterpret_cast<std::byte*>(to), dtype_of<T>, count);
}
/// The whole row.
template <class T> void read_row(const Tensor& table, std::size_t index, T* to) {
  read_row(table, index, 0, table.shape()[1], to);
}

/// Throws Error for a number beyond the rows of a table of tokens; `whose`: "the vocabulary has".
void require_tokens(const std::vector<int>& ids, const Tensor& table, std::string_view whose) {
  const std::size_t rows = table.shape()[0];
  for (std::size_t t = 0; t < ids.size(); ++t)
    if (ids[t] < 0 || static_cast<std::size_t>(ids[t]) >= rows)
      fail("token {} of the text is {}: {} {} to {}", t, ids[t], whose, 0, rows - 1);
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
  require_tokens(ids, embedding.tokens, "the vocabulary has");
  if (embedding.positions.empty() || positions.empty()) return;
  const std::size_t rows = embedding.positions.shape()[0];
  const std::size_t last = *std::max_element(positions.begin(), positions.end());
  if (last < rows) return;
  const std::size_t first = *std::min_element(positions.begin(), positions.end());
  fail("the text has {}, the model has positions for {}: give a shorter text",
       counted(ids.size(), "tokens"), rows - std::min(first, rows));
}

/// y = x P + b, each number one sum over the inputs in their order.
template <class T> void project_rows(const LinearMap& map, Matrix<const T> x, Matrix<T> y) {
  const T* const W = map.W.as<T>().data();
  for (std::size_t t = 0; t < x.rows; ++t) {
    T* const to = y.row(t);
    std::fill_n(to, y.cols, T(0));
    for (std::size_t i = 0; i < x.cols; ++i)
      for (std::size_t j = 0; j < y.cols; ++j) to[j] += x.row(t)[i] * W[i * y.cols + j];
    for (std::size_t j = 0; j < map.b.count(); ++j) to[j] += map.b.as<T>()[j];
  }
}

/// to = the tokens' rows, scaled. With a mask token (ESM's token dropout) its rows are 0, and the
/// others are divided by the share of tokens that are not masked.
template <class T> void read_tokens(const Embedding& e, const std::vector<int>& ids, Matrix<T> to) {
  const auto masked = e.mask_token ? std::ranges::count(ids, *e.mask_token) : 0;
  const auto all = static_cast<double>(ids.size());
  const T scale =
      static_cast<T>(e.scale / (masked > 0 ? 1 - static_cast<double>(masked) / all : 1));
  for (std::size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] == e.mask_token) {
      std::fill_n(to.row(t), to.cols, T(0));
      continue;
    }
    read_row(e.tokens, static_cast<std::size_t>(ids[t]), to.row(t));
    for (std::size_t i = 0; i < to.cols; ++i) to.row(t)[i] *= scale;
  }
}

/// to += positions + the row of type 0.
template <class T>
void add_tables(const Embedding& e, const std::vector<std::size_t>& positions, Matrix<T> to) {
  std::vector<T> other(to.cols);
  const auto add = [&](const Tensor& table, std::size_t index, T* row) {
    if (table.empty()) return;
    read_row(table, index, other.data());
    for (std::size_t i = 0; i < to.cols; ++i) row[i] += other[i];
  };
  for (std::size_t t = 0; t < positions.size(); ++t) {
    add(e.positions, positions[t], to.row(t));
    add(e.types, 0, to.row(t));
  }
}

/// `e` has its norm and projection in T.
template <class T> void embed_text(const Embedding& e, const std::vector<int>& ids, Matrix<T> to) {
  const std::vector<std::size_t> positions = positions_of(e, ids);
  require_rows(e, ids, positions);
  const std::size_t width = e.tokens.shape()[1];
  std::vector<T> before_projection(e.projection.present() ? to.rows * width : 0);
  const bool projects_tokens = e.projection_place == ProjectionPlace::tokens;
  Matrix<T> x =
      before_projection.empty() ? to : Matrix<T>{before_projection.data(), to.rows, width, width};
  const auto project = [&] {
    if (x.data == to.data) return;
    project_rows<T>(e.projection, x, to);
    x = to;
  };
  read_tokens(e, ids, x);
  if (projects_tokens) project();
  add_tables(e, positions, x);
  if (e.projection_place == ProjectionPlace::sum) project();
  norm_rows<T>(e.norm, x, x);
  project();
}

/// Writes to `to`, for each text, the rows of `first` and after them the embedded tokens of the
/// text.
template <class T>
void embed_with_prefix(const Embedding& e, std::size_t B, const Tensor& first, Tensor& to) {
  const std::size_t width = e.tokens.shape()[1], d = to.shape()[1], before = first.shape()[0],
                    count = e.tokens.shape()[0] / B;
  std::vector<int> ids(count);
  std::vector<T> before_projection(e.projection.present() ? count * width : 0);
  for (std::size_t b = 0; b < B; ++b) {
    T* const row = to.template as_mutable<T>().data() + b * (before + count) * d;
    for (std::size_t p = 0; p < before; ++p) read_row(first, p, row + p * d);
    std::iota(ids.begin(), ids.end(), static_cast<int>(b * count));
    const Matrix<T> after{row + before * d, count, d, d};
    if (before_projection.empty()) {
      read_tokens<T>(e, ids, after);
    } else {
      const Matrix<T> x{before_projection.data(), count, width, width};
      read_tokens<T>(e, ids, x);
      project_rows<T>(e.projection, x, after);
    }
  }
}

/// `norm` is in T.
template <class T> void embed_rows(const LayerEmbedding& e, const Norm& norm, std::size_t first,
                                   const std::vector<int>& ids, Matrix<const T> x, Matrix<T> y) {
  WeightInUse<T> map;
  const Tensor W = columns_when_read(e.map.W, first, e.width);
  map.prepare(Routine::fma, W, nullptr, x.rows, 1, false);
  map.multiply(x, 0, y);
  const T to_unit = static_cast<T>(1 / std::sqrt(static_cast<double>(x.cols))),
          scale = static_cast<T>(e.scale), half = static_cast<T>(1 / std::numbers::sqrt2);
  for (std::size_t t = 0; t < y.rows; ++t) row_scale(y.row(t), y.cols, to_unit);
  norm_rows<T>(norm, y, y);
  std::vector<T> row(e.width);
  for (std::size_t t = 0; t < y.rows; ++t) {
    read_row(e.table, static_cast<std::size_t>(ids[t]), first, e.width, row.data());
    for (std::size_t i = 0; i < e.width; ++i) y.row(t)[i] = (y.row(t)[i] + scale * row[i]) * half;
  }
}

/// The embedding with its projection in a dtype.
Embedding projecting_in(Embedding embedding, DType dtype) {
  for (Tensor* tensor : {&embedding.projection.W, &embedding.projection.b})
    if (!tensor->empty()) *tensor = convert(*tensor, dtype);
  return embedding;
}

} // namespace

Embedding embedding_after(const Embedding& embedding, std::size_t B, const Tensor& first,
                          DType dtype) {
  if (first.empty()) return embedding;
  Embedding e = projecting_in(embedding, dtype);
  Tensor rows(dtype, {e.tokens.shape()[0] + B * first.shape()[0], e.width()});
  dtype == DType::f64 ? embed_with_prefix<double>(e, B, first, rows)
                      : embed_with_prefix<float>(e, B, first, rows);
  e.tokens = std::move(rows), e.scale = 1, e.projection = {}, e.mask_token.reset();
  return e;
}

Tensor embed(const Embedding& embedding, const std::vector<std::vector<int>>& ids, DType dtype,
             const std::vector<std::size_t>& lengths) {
  const std::size_t B = ids.size(), T = ids.front().size(), d = embedding.width();
  const bool padded = std::ranges::any_of(lengths, [&](std::size_t n) { return n < T; });
  Tensor all = padded ? sparse_zeros(dtype, {B, T, d}) : Tensor::uninitialised(dtype, {B, T, d});
  Embedding e = projecting_in(embedding, dtype);
  e.norm = in_precision(e.norm, dtype);
  for (std::size_t b = 0; b < B; ++b) {
    std::vector<int> own = ids[b];
    if (!lengths.empty()) own.resize(lengths[b]);
    const std::size_t first = b * T * d, rows = own.size();
    if (dtype == DType::f64)
      embed_text<double>(e, own, {all.as_mutable<double>().data() + first, rows, d, d});
    else
      embed_text<float>(e, own, {all.as_mutable<float>().data() + first, rows, d, d});
  }
  return all;
}

Tensor embed_for_layer(const LayerEmbedding& embedding, std::size_t number,
                       const std::vector<std::vector<int>>& ids, const Tensor& embedded,
                       const std::vector<std::size_t>& lengths) {
  const std::size_t B = ids.size(), T = ids.front().size(), d = embedded.shape().back(),
                    width = embedding.width;
  const DType dtype = embedded.dtype();
  const Norm norm = in_precision(embedding.norm, dtype);
  Tensor all = sparse_zeros(dtype, {B, T, width});
  for (std::size_t b = 0; b < B; ++b) {
    std::vector<int> own = ids[b];
    if (!lengths.empty()) own.resize(lengths[b]);
    require_tokens(own, embedding.table, "the layers' embeddings have");
    const auto in = [&](auto zero) {
      using Number = decltype(zero);
      embed_rows<Number>(
          embedding, norm, number * width, own,
          {embedded.as<Number>().data() + b * T * d, own.size(), d, d},
          {all.as_mutable<Number>().data() + b * T * width, own.size(), width, width});
    };
    dtype == DType::f64 ? in(double()) : in(float());
  }
  return all;
}

} // namespace mha
