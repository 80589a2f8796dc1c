#include "attention.hpp"

#include "kernels/gemm.hpp"
#include "kernels/parallel.hpp"
#include "kernels/rows.hpp"
#include "kernels/tokens.hpp"
#include "position.hpp"
#include "softmax_block.hpp"

#include <algorithm>
#include <cmath>

// Multi-head attention (Vaswani et al. 2017), in blocks. B batches, T queries, S keys, H heads over
// H_kv key/value heads, widths d_model, d_k, d_v. Token stages are whole tensors, packed: B, T, H · d.
// Everything T × S exists for one batch, one head and 256 queries at a time.

namespace mha {

namespace {

/// Rows of a projection that one product covers: enough tiles for the cores, from the shape alone.
std::size_t tile_rows(std::size_t rows) { return rows <= 512 ? 64 : 256; }

template <class T> bool all_finite(Matrix<const T> m) {
  for (std::size_t i = 0; i < m.rows; ++i)
    if (!std::all_of(m.row(i), m.row(i) + m.cols, [](T value) { return std::isfinite(value); })) return false;
  return true;
}

template <class T> class Forward {
public:
  Forward(const Layer& layer, const Plan& plan, Observer& observer, std::size_t threads);

  void run() {
    project(); // x, q, k, v
    attend();  // scores, weights, head_out
    merge();   // concat W_o + b_o
  }

private:
  bool computes(Stage stage) const { return contains(plan.computed, stage); }
  bool wants(Stage stage) const { return contains(plan.wanted, stage); }

  /// The rows of batch b of a token stage: rows × width. A step that the layer does not have reads as
  /// the step before it.
  Matrix<const T> tokens(Stage stage, std::size_t b) const { return matrix(token[index_of(stage)], b); }
  Matrix<T> tokens_mutable(Stage stage, std::size_t b) {
    const Matrix<const T> m = tokens(stage, b);
    return {const_cast<T*>(m.data), m.rows, m.cols, m.stride};
  }
  static Matrix<const T> matrix(const Tensor& tensor, std::size_t b = 0);

  void place(Stage stage, Stage before, Letter rows, std::size_t width);
  void project();
  void project_queries(std::size_t b, std::size_t first, std::size_t n);
  void project_keys(std::size_t b, std::size_t first, std::size_t n);
  void project_values(std::size_t b, std::size_t first, std::size_t n);
  void add_other_keys(Stage all, Stage current, const Tensor& past, const Tensor& extra);
  void attend();
  void attend(std::size_t b, std::size_t h, std::size_t first_query, std::size_t n);
  void merge();

  void linear(Matrix<const T> x, const Tensor& W, const Tensor& bias, Matrix<T> y) const;
  void norm_heads(Matrix<const T> x, const Tensor& weight, std::size_t heads, Matrix<T> y) const;
  void rotate_heads(Matrix<const T> x, std::size_t first, std::size_t heads, Matrix<T> y) const;
  void for_rows(std::size_t rows, bool queries, const std::function<void(std::size_t, std::size_t, std::size_t)>& work);
  void show_tokens(Stage stage);
  void show(Stage stage, std::size_t b, std::size_t h, std::size_t first, const T* values, Shape shape,
            std::vector<std::ptrdiff_t> strides);

  const Layer& layer;
  const Plan& plan;
  Observer& observer;
  const Dims& dims;
  std::size_t threads;
  std::array<Tensor, stage_count> token; ///< B, rows, width
  RotaryTable<T> rotary;
  Routine projecting, scoring, weighing;
  std::vector<std::uint8_t> finite_values; ///< per batch: v has no NaN or infinity
};

template <class T> Matrix<const T> Forward<T>::matrix(const Tensor& tensor, std::size_t b) {
  const Shape& shape = tensor.shape();
  const std::size_t cols = shape.back(), rows = shape[shape.size() - 2];
  return {tensor.as<T>().data() + b * rows * cols, rows, cols, cols};
}

template <class T>
Forward<T>::Forward(const Layer& the_layer, const Plan& the_plan, Observer& the_observer, std::size_t the_threads)
    : layer(the_layer), plan(the_plan), observer(the_observer), dims(the_layer.dims), threads(the_threads) {
  place(Stage::x, Stage::x, Letter::T, dims.d_model);
  if (layer.settings.input_norm == InputNorm::none && !layer.has_given(Stage::x)) token[index_of(Stage::x)] = layer.X;
  place(Stage::q, Stage::x, Letter::T, dims.H * dims.d_k);
  place(Stage::k, Stage::x, Letter::S, dims.H_kv * dims.d_k);
  place(Stage::v, Stage::x, Letter::S, dims.H_kv * dims.d_v);
  place(Stage::q_norm, Stage::q, Letter::T, dims.H * dims.d_k);
  place(Stage::k_norm, Stage::k, Letter::S, dims.H_kv * dims.d_k);
  place(Stage::q_rope, Stage::q_norm, Letter::T, dims.H * dims.d_k);
  place(Stage::k_rope, Stage::k_norm, Letter::S, dims.H_kv * dims.d_k);
  place(Stage::k_all, Stage::k_rope, Letter::S_all, dims.H_kv * dims.d_k);
  place(Stage::v_all, Stage::v, Letter::S_all, dims.H_kv * dims.d_v);
  // head_out is a view of concat's memory, unless one of them is given.
  place(Stage::concat, Stage::concat, Letter::T, dims.H * dims.d_v);
  place(Stage::head_out, Stage::concat, Letter::T, dims.H * dims.d_v);
  if (computes(Stage::head_out) && !layer.has_given(Stage::concat)) {
    token[index_of(Stage::concat)] = token[index_of(Stage::head_out)];
  } else if (layer.has_given(Stage::head_out) && !layer.has_given(Stage::concat)) {
    token[index_of(Stage::concat)] = layer.given[index_of(Stage::head_out)];
  }
  place(Stage::output, Stage::output, Letter::T, dims.d_out);
  place(Stage::residual, Stage::residual, Letter::T, dims.d_out);

  // Which routine multiplies follows from the layer's shape alone.
  const std::size_t rows = dims.B * (dims.T + dims.S);
  std::size_t narrowest = dims.d_out;
  for (const Tensor* W : {&layer.W_q, &layer.W_k, &layer.W_v, &layer.W_o})
    if (!W->empty()) narrowest = std::min(narrowest, W->shape()[1]);
  projecting = routine_for<T>(rows, narrowest, dims.d_model);
  scoring = routine_for<T>(dims.B * dims.H * dims.T, dims.S_all, dims.d_k);
  weighing = routine_for<T>(dims.B * dims.H * dims.T, dims.d_v, dims.S_all);

  // Threads that have nothing to do cost more than they bring.
  const double work = static_cast<double>(rows) * static_cast<double>(dims.d_model + dims.d_out) *
                          static_cast<double>(dims.H * (dims.d_k + dims.d_v)) +
                      static_cast<double>(dims.B * dims.H * dims.T) * static_cast<double>(dims.S_all) *
                          static_cast<double>(dims.d_k + dims.d_v);
  if (threads == 0) threads = work < 4e6 ? 1 : core_count();
}

/// Gives a token stage its memory: new if it is computed, the given tensor, or that of the step before.
template <class T> void Forward<T>::place(Stage stage, Stage before, Letter rows, std::size_t width) {
  Tensor& tensor = token[index_of(stage)];
  if (layer.has_given(stage)) {
    tensor = layer.given[index_of(stage)];
    if (info_of(stage).kind == Kind::token) tensor = tensor.reshaped({dims.B, dims.size_of(rows), width});
  } else if (computes(stage)) {
    tensor = Tensor(layer.dtype, {dims.B, dims.size_of(rows), width});
  } else if (before != stage) {
    tensor = token[index_of(before)];
  }
}

/// Calls work(batch, first row, rows) for the tiles of the planned rows.
template <class T>
void Forward<T>::for_rows(std::size_t rows, bool queries,
                          const std::function<void(std::size_t, std::size_t, std::size_t)>& work) {
  const std::size_t tile = tile_rows(rows);
  std::vector<std::size_t> firsts;
  if (queries) {
    for (std::size_t block : plan.blocks)
      for (std::size_t first = block * block_queries; first < std::min(rows, (block + 1) * block_queries); first += tile)
        firsts.push_back(first);
  } else {
    for (std::size_t first = 0; first < rows; first += tile) firsts.push_back(first);
  }
  parallel_for(plan.batches.size() * firsts.size(), threads, [&](std::size_t i) {
    const std::size_t first = firsts[i % firsts.size()];
    work(plan.batches[i / firsts.size()], first, std::min(tile, rows - first));
  });
}

// y = x W + b; no W is the identity.
template <class T>
void Forward<T>::linear(Matrix<const T> x, const Tensor& W, const Tensor& bias, Matrix<T> y) const {
  if (W.empty()) {
    for (std::size_t i = 0; i < x.rows; ++i) std::copy_n(x.row(i), x.cols, y.row(i));
  } else {
    multiply<T>(projecting, x, matrix(W), y);
  }
  if (bias.empty()) return;
  for (std::size_t i = 0; i < y.rows; ++i) row_add(y.row(i), bias.as<T>().data(), y.cols);
}

// The weight is d_k long, one for every head, or as long as the projection: then the whole row is one.
template <class T>
void Forward<T>::norm_heads(Matrix<const T> x, const Tensor& weight, std::size_t heads, Matrix<T> y) const {
  const std::size_t n = weight.count(), parts = n == x.cols ? 1 : heads;
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t part = 0; part < parts; ++part)
      rms_norm(x.row(i) + part * n, weight.as<T>().data(), n, layer.settings.qk_norm_eps,
               layer.settings.qk_norm_one_plus, y.row(i) + part * n);
}

template <class T>
void Forward<T>::rotate_heads(Matrix<const T> x, std::size_t first, std::size_t heads, Matrix<T> y) const {
  const std::size_t d_k = dims.d_k, pairs = rotary.pairs;
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t h = 0; h < heads; ++h)
      rotate(x.row(i) + h * d_k, &rotary.cosines[(first + i) * pairs], &rotary.sines[(first + i) * pairs], d_k,
             2 * pairs, layer.settings.rope == Rope::interleaved, y.row(i) + h * d_k);
}

template <class T> void Forward<T>::project() {
  if (computes(Stage::q_rope) || computes(Stage::k_rope))
    rotary = rotary_table<T>(layer, std::max(dims.T, dims.S),
                             layer.settings.rope_offset.value_or(static_cast<std::int64_t>(dims.past)));

  // x: T, d_model. Keys and values may be made of rows that no query block holds.
  const bool rows_for_keys = (computes(Stage::k) && layer.X_k.empty()) || (computes(Stage::v) && layer.X_v.empty());
  if (computes(Stage::x) && layer.settings.input_norm != InputNorm::none)
    for_rows(dims.T, !rows_for_keys, [&](std::size_t b, std::size_t first, std::size_t n) {
      const T* weight = layer.norm_weight.empty() ? nullptr : layer.norm_weight.as<T>().data();
      const T* bias = layer.norm_bias.empty() ? nullptr : layer.norm_bias.as<T>().data();
      const Matrix<const T> X = matrix(layer.X, b);
      const Matrix<T> x = tokens_mutable(Stage::x, b);
      for (std::size_t t = first; t < first + n; ++t)
        if (layer.settings.input_norm == InputNorm::rms)
          rms_norm(X.row(t), weight, X.cols, layer.settings.input_norm_eps, false, x.row(t));
        else
          layer_norm(X.row(t), weight, bias, X.cols, layer.settings.input_norm_eps, x.row(t));
    });
  show_tokens(Stage::x);

  if (computes(Stage::q) || computes(Stage::q_norm) || computes(Stage::q_rope))
    for_rows(dims.T, true, [&](auto... tile) { project_queries(tile...); });
  if (computes(Stage::k) || computes(Stage::k_norm) || computes(Stage::k_rope))
    for_rows(dims.S, false, [&](auto... tile) { project_keys(tile...); });
  if (computes(Stage::v)) for_rows(dims.S, false, [&](auto... tile) { project_values(tile...); });
  if (computes(Stage::k_all)) add_other_keys(Stage::k_all, Stage::k_rope, layer.k_past, layer.k_extra);
  if (computes(Stage::v_all)) add_other_keys(Stage::v_all, Stage::v, layer.v_past, layer.v_extra);
  for (Stage stage : {Stage::q, Stage::q_norm, Stage::q_rope, Stage::k, Stage::k_norm, Stage::k_rope, Stage::k_all,
                      Stage::v, Stage::v_all})
    show_tokens(stage);
}

template <class T> void Forward<T>::project_queries(std::size_t b, std::size_t first, std::size_t n) {
  const auto rows = [&](Stage stage) { return tokens_mutable(stage, b).rows_from(first, n); };
  if (computes(Stage::q)) linear(rows(Stage::x), layer.W_q, layer.b_q, rows(Stage::q));
  if (computes(Stage::q_norm)) norm_heads(rows(Stage::q), layer.q_norm_weight, dims.H, rows(Stage::q_norm));
  if (computes(Stage::q_rope)) rotate_heads(rows(Stage::q_norm), first, dims.H, rows(Stage::q_rope));
}

template <class T> void Forward<T>::project_keys(std::size_t b, std::size_t first, std::size_t n) {
  const auto rows = [&](Stage stage) { return tokens_mutable(stage, b).rows_from(first, n); };
  const Tensor& source = layer.X_k.empty() ? token[index_of(Stage::x)] : layer.X_k;
  if (computes(Stage::k)) linear(matrix(source, b).rows_from(first, n), layer.W_k, layer.b_k, rows(Stage::k));
  if (computes(Stage::k_norm)) norm_heads(rows(Stage::k), layer.k_norm_weight, dims.H_kv, rows(Stage::k_norm));
  if (computes(Stage::k_rope)) rotate_heads(rows(Stage::k_norm), first, dims.H_kv, rows(Stage::k_rope));
}

template <class T> void Forward<T>::project_values(std::size_t b, std::size_t first, std::size_t n) {
  const Tensor& source = layer.X_v.empty() ? token[index_of(Stage::x)] : layer.X_v;
  linear(matrix(source, b).rows_from(first, n), layer.W_v, layer.b_v,
         tokens_mutable(Stage::v, b).rows_from(first, n));
}

/// What is attended to: past, current, learned extra, zero (new memory is zero already).
template <class T>
void Forward<T>::add_other_keys(Stage all, Stage current, const Tensor& past, const Tensor& extra) {
  for (std::size_t b : plan.batches) {
    const Matrix<T> to = tokens_mutable(all, b);
    const Matrix<const T> from = tokens(current, b);
    for (std::size_t j = 0; j < dims.past; ++j) std::copy_n(matrix(past, b).row(j), to.cols, to.row(j));
    for (std::size_t j = 0; j < dims.S; ++j) std::copy_n(from.row(j), to.cols, to.row(dims.past + j));
    if (dims.extra > 0) std::copy_n(extra.as<T>().data(), to.cols, to.row(dims.past + dims.S));
  }
}

template <class T> void Forward<T>::attend() {
  // Blocks hand on head_out, or maps, rows and head_result that somebody wants.
  const bool in_blocks = std::any_of(stages().begin(), stages().end(), [&](const StageInfo& info) {
    return info.kind != Kind::token ? contains(plan.needed, info.stage) : false;
  }) || computes(Stage::head_out);
  finite_values.assign(dims.B, 1);
  if (computes(Stage::head_out))
    for (std::size_t b : plan.batches) finite_values[b] = all_finite(tokens(Stage::v_all, b));
  if (in_blocks) {
    const std::size_t blocks = plan.blocks.size(), heads = plan.heads.size();
    parallel_for(plan.batches.size() * heads * blocks, threads, [&](std::size_t unit) {
      const std::size_t first = plan.blocks[unit % blocks] * block_queries;
      attend(plan.batches[unit / blocks / heads], plan.heads[unit / blocks % heads], first,
             std::min(block_queries, dims.T - first));
    });
  }
  show_tokens(Stage::head_out);
}

/// Queries [first, first + n) of head h of batch b.
template <class T>
void Forward<T>::attend(std::size_t b, std::size_t h, std::size_t first, std::size_t n) {
  const std::size_t kv = kv_head_of(dims, h), d_k = dims.d_k, d_v = dims.d_v;
  SoftmaxBlock<T>& block = SoftmaxBlock<T>::of_this_thread();
  block.start(layer, plan, b, h, first, n, finite_values[b]);

  if (computes(Stage::scores)) {
    // q: n, d_k. k: S, d_k. scores: n, S, in tiles of key_tile keys.
    const Matrix<const T> q = tokens(Stage::q_rope, b).rows_from(first, n).cols_from(h * d_k, d_k);
    const Matrix<const T> k = tokens(Stage::k_all, b).cols_from(kv * d_k, d_k);
    for (std::size_t j = block.scored().first; j < block.scored().last; j += key_tile) {
      const std::size_t keys = std::min(key_tile, dims.S_all - j);
      multiply_transposed<T>(scoring, q, k.rows_from(j, keys), block.rows().cols_from(j, keys));
    }
  }

  block.run(); // scaled … weights, row by row
  for (const StageInfo& info : stages()) {
    if (!wants(info.stage)) continue;
    const auto S = static_cast<std::ptrdiff_t>(dims.S_all), rows = static_cast<std::ptrdiff_t>(n);
    if (info.kind == Kind::map) show(info.stage, b, h, first, block.map(info.stage), {1, n, dims.S_all}, {rows * S, S, 1});
    if (info.kind == Kind::row) show(info.stage, b, h, first, block.row(info.stage), {1, n}, {rows, 1});
  }

  if (computes(Stage::head_out)) {
    // weights: n, S. v: S, d_v. head_out: n, d_v, over the keys that this block can see.
    const Matrix<T> out = tokens_mutable(Stage::head_out, b).rows_from(first, n).cols_from(h * d_v, d_v);
    const Matrix<const T> v = tokens(Stage::v_all, b).cols_from(kv * d_v, d_v);
    for (std::size_t i = 0; i < n; ++i) std::fill_n(out.row(i), d_v, T(0));
    for (std::size_t j = block.seen().first; j < block.seen().last; j += key_tile) {
      const std::size_t keys = std::min(key_tile, dims.S_all - j);
      multiply<T>(weighing, block.rows().cols_from(j, keys), v.rows_from(j, keys), out, j != block.seen().first);
    }
  }

  const auto width = static_cast<std::ptrdiff_t>(dims.d_out), rows = static_cast<std::ptrdiff_t>(n);
  const auto show_result = [&](const T* values) {
    show(Stage::head_result, b, h, first, values, {1, n, dims.d_out}, {rows * width, width, 1});
  };
  if (wants(Stage::head_result) && layer.has_given(Stage::head_result))
    show_result(layer.given[index_of(Stage::head_result)].template as<T>().data() +
                ((b * dims.H + h) * dims.T + first) * dims.d_out);
  if (computes(Stage::head_result)) {
    // head_out: n, d_v. W_o of this head: d_v, d_out.
    const Matrix<const T> out = tokens(Stage::head_out, b).rows_from(first, n).cols_from(h * d_v, d_v);
    std::vector<T> result(n * dims.d_out);
    const Matrix<T> to{result.data(), n, dims.d_out, dims.d_out};
    if (layer.W_o.empty())
      for (std::size_t i = 0; i < n; ++i) std::copy_n(out.row(i), d_v, to.row(i) + h * d_v);
    else
      multiply<T>(projecting, out, matrix(layer.W_o).rows_from(h * d_v, d_v), to);
    show_result(result.data());
  }
}

template <class T> void Forward<T>::merge() {
  show_tokens(Stage::concat);
  // concat: T, H · d_v. W_o: H · d_v, d_out.
  if (computes(Stage::output) || computes(Stage::residual))
    for_rows(dims.T, true, [&](std::size_t b, std::size_t first, std::size_t n) {
      const auto rows = [&](Stage stage) { return tokens_mutable(stage, b).rows_from(first, n); };
      if (computes(Stage::output)) linear(rows(Stage::concat), layer.W_o, layer.b_o, rows(Stage::output));
      if (computes(Stage::residual))
        for (std::size_t i = 0; i < n; ++i) {
          T* sum = rows(Stage::residual).row(i);
          std::copy_n(matrix(layer.X, b).row(first + i), dims.d_out, sum);
          row_add(sum, rows(Stage::output).row(i), dims.d_out);
        }
    });
  show_tokens(Stage::output);
  show_tokens(Stage::residual);
}

/// Shows a token stage: per batch, in blocks of queries, or all its keys at once.
template <class T> void Forward<T>::show_tokens(Stage stage) {
  if (!wants(stage)) return;
  const std::vector<Letter>& letters = info_of(stage).letters;
  const bool with_heads = letters.size() == 3;
  const bool queries = axis_of(letters[letters.size() - 2]) == Axis::query;
  const std::size_t rows = dims.size_of(letters[letters.size() - 2]), width = dims.size_of(letters.back());
  const std::size_t heads = with_heads ? dims.size_of(letters[0]) : 1;
  const std::size_t pieces = queries ? plan.blocks.size() : 1;
  parallel_for(plan.batches.size() * pieces, threads, [&](std::size_t i) {
    const std::size_t b = plan.batches[i / pieces];
    const std::size_t first = queries ? plan.blocks[i % pieces] * block_queries : 0;
    const std::size_t n = queries ? std::min(block_queries, rows - first) : rows;
    const Matrix<const T> values = tokens(stage, b).rows_from(first, n);
    const auto stride = static_cast<std::ptrdiff_t>(values.stride);
    if (with_heads)
      show(stage, b, 0, first, values.data, {heads, n, width}, {static_cast<std::ptrdiff_t>(width), stride, 1});
    else
      show(stage, b, 0, first, values.data, {n, width}, {stride, 1});
  });
}

template <class T>
void Forward<T>::show(Stage stage, std::size_t b, std::size_t h, std::size_t first, const T* values, Shape shape,
                      std::vector<std::ptrdiff_t> strides) {
  observer.observe({stage, b, h, first,
                    ArrayView{layer.dtype, reinterpret_cast<const std::byte*>(values), std::move(shape),
                              std::move(strides)}});
}

} // namespace

void compute(const Layer& layer, const Plan& plan, Observer& observer, std::size_t threads) {
  if (layer.dtype == DType::f64) Forward<double>(layer, plan, observer, threads).run();
  else Forward<float>(layer, plan, observer, threads).run();
}

} // namespace mha
