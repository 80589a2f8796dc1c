#include "attention.hpp"

#include "kernels/gemm.hpp"
#include "kernels/operand.hpp"
#include "kernels/parallel.hpp"
#include "kernels/rows.hpp"
#include "kernels/tokens.hpp"
#include "position.hpp"
#include "seconds.hpp"
#include "softmax_block.hpp"
#include "token_stages.hpp"

#include <algorithm>
#include <cmath>

// Multi-head attention (Vaswani et al. 2017), in blocks. B batches, T queries, S keys, H heads over
// H_kv key/value heads, widths d_model, d_k, d_v. Token stages are whole tensors, packed: B, T, H ·
// d. Everything T × S exists for one batch, one head and 256 queries at a time.

namespace mha {

namespace {

template <class T> class Forward {
public:
  Forward(const Layer& layer, const Plan& plan, Observer& observer, std::size_t threads);

  PartTimes run() {
    PartTimes seconds;
    seconds.projections = seconds_of([&] { project(); }); // x, q, k, v
    seconds.attention = seconds_of([&] { attend(); });    // scores, weights, head_out
    seconds.output = seconds_of([&] { merge(); });        // concat W_o + b_o
    return seconds;
  }

private:
  /// A projection: y = x W + b.
  struct Linear {
    const Tensor& W;
    const Tensor& bias;
    Operand<T> right; ///< W, prepared
  };

  /// What is done with the tokens of a batch: work(batch, first row, rows), in tiles.
  struct Rows {
    std::size_t count;
    bool queries; ///< only those of the planned blocks
    std::function<void(std::size_t, std::size_t, std::size_t)> work;
  };

  bool computes(Stage stage) const { return contains(plan.computed, stage); }
  bool wants(Stage stage) const { return contains(plan.wanted, stage); }

  Matrix<const T> tokens(Stage stage, std::size_t b) const { return token.rows(stage, b); }
  Matrix<T> tokens_mutable(Stage stage, std::size_t b) { return token.rows_mutable(stage, b); }
  static Matrix<const T> matrix(const Tensor& tensor, std::size_t b = 0) {
    return matrix_of<T>(tensor, b);
  }

  void project();
  void project_queries(const Linear& W_q, std::size_t b, std::size_t first, std::size_t n);
  void project_keys(const Linear& W_k, std::size_t b, std::size_t first, std::size_t n);
  void project_values(const Linear& W_v, std::size_t b, std::size_t first, std::size_t n);
  void add_other_keys(Stage all, Stage current, const Tensor& past, const Tensor& extra);
  void attend();
  void attend(std::size_t b, std::size_t h, std::size_t first_query, std::size_t n);
  std::size_t band_queries() const;
  void prepare_keys();
  void merge();

  Linear projection(Stage stage, const Tensor& W, const Tensor& bias, std::size_t rows) const;
  void linear(Matrix<const T> x, const Linear& projection, Matrix<T> y) const;
  void norm_heads(Matrix<const T> x, const Tensor& weight, std::size_t heads, Matrix<T> y) const;
  void rotate_heads(Matrix<const T> x, std::size_t first, std::size_t heads, Matrix<T> y) const;
  void for_rows(const std::vector<Rows>& all) const;
  void show_tokens(Stage stage) { token.show(stage, observer, threads); }

  const Layer& layer;
  const Plan& plan;
  Observer& observer;
  const Dims& dims;
  std::size_t threads;
  TokenStages<T> token;
  RotaryTable<T> rotary;
  Routine projecting, scoring, weighing;
  std::vector<Operand<T>> k_operands, v_operands; ///< k and v of each batch and key/value head
  std::vector<std::uint8_t> finite_values;        ///< likewise: v has no NaN or infinity
};

template <class T> Forward<T>::Forward(const Layer& the_layer, const Plan& the_plan,
                                       Observer& the_observer, std::size_t the_threads)
    : layer(the_layer),
      plan(the_plan),
      observer(the_observer),
      dims(the_layer.dims),
      threads(the_threads == 0 ? threads_for(the_layer) : the_threads),
      token(the_layer, the_plan) {
  // Which routine multiplies follows from the layer's shape alone.
  const std::size_t rows = dims.B * (dims.T + dims.S);
  std::size_t narrowest = dims.d_out;
  for (const Tensor* W : {&layer.W_q, &layer.W_k, &layer.W_v, &layer.W_o})
    if (!W->empty()) narrowest = std::min(narrowest, W->shape()[1]);
  projecting = routine_for<T>(rows, narrowest, dims.d_model);
  scoring = routine_for<T>(dims.B * dims.H * dims.T, dims.S_all, dims.d_k);
  weighing = routine_for<T>(dims.B * dims.H * dims.T, dims.d_v, dims.S_all);
}

/// Works through the tiles of all of these at once.
template <class T> void Forward<T>::for_rows(const std::vector<Rows>& all) const {
  std::vector<std::pair<const Rows*, RowTile>> tiles;
  for (const Rows& rows : all)
    for (const RowTile& tile : row_tiles(plan, rows.count, rows.queries))
      tiles.emplace_back(&rows, tile);
  parallel_for(tiles.size(), threads, [&](std::size_t i) {
    const auto& [rows, tile] = tiles[i];
    rows->work(tile.batch, tile.first, tile.count);
  });
}

template <class T> typename Forward<T>::Linear
Forward<T>::projection(Stage stage, const Tensor& W, const Tensor& bias, std::size_t rows) const {
  if (W.empty() || !computes(stage)) return {W, bias, {}};
  return {W, bias, Operand<T>(projecting, matrix(W), false, rows * plan.batches.size(), threads)};
}

// y = x W + b; no W is the identity.
template <class T>
void Forward<T>::linear(Matrix<const T> x, const Linear& projection, Matrix<T> y) const {
  const auto& [W, bias, right] = projection;
  if (W.empty())
    for (std::size_t i = 0; i < x.rows; ++i) std::copy_n(x.row(i), x.cols, y.row(i));
  else
    right.multiply(x, 0, 0, y);
  if (bias.empty()) return;
  for (std::size_t i = 0; i < y.rows; ++i) row_add(y.row(i), bias.template as<T>().data(), y.cols);
}

// The weight is d_k long, one for every head, or as long as the projection: then the whole row is
// one.
template <class T> void Forward<T>::norm_heads(Matrix<const T> x, const Tensor& weight,
                                               std::size_t heads, Matrix<T> y) const {
  const std::size_t n = weight.count(), parts = n == x.cols ? 1 : heads;
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t part = 0; part < parts; ++part)
      rms_norm(x.row(i) + part * n, weight.as<T>().data(), n, layer.settings.qk_norm_eps,
               layer.settings.qk_norm_one_plus, y.row(i) + part * n);
}

template <class T> void Forward<T>::rotate_heads(Matrix<const T> x, std::size_t first,
                                                 std::size_t heads, Matrix<T> y) const {
  const std::size_t d_k = dims.d_k, pairs = rotary.pairs;
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t h = 0; h < heads; ++h)
      rotate(x.row(i) + h * d_k, &rotary.cosines[(first + i) * pairs],
             &rotary.sines[(first + i) * pairs], d_k, 2 * pairs,
             layer.settings.rope == Rope::interleaved, y.row(i) + h * d_k);
}

template <class T> void Forward<T>::project() {
  if (computes(Stage::q_rope) || computes(Stage::k_rope))
    rotary =
        rotary_table<T>(layer, std::max(dims.T, dims.S),
                        layer.settings.rope_offset.value_or(static_cast<std::int64_t>(dims.past)));

  // x: T, d_model. Keys and values may be made of rows that no query block holds.
  const bool rows_for_keys =
      (computes(Stage::k) && layer.X_k.empty()) || (computes(Stage::v) && layer.X_v.empty());
  if (computes(Stage::x) && layer.settings.input_norm != InputNorm::none)
    for_rows(
        {{dims.T, !rows_for_keys, [&](std::size_t b, std::size_t first, std::size_t n) {
            const T* weight =
                layer.norm_weight.empty() ? nullptr : layer.norm_weight.as<T>().data();
            const T* bias = layer.norm_bias.empty() ? nullptr : layer.norm_bias.as<T>().data();
            const Matrix<const T> X = matrix(layer.X, b);
            const Matrix<T> x = tokens_mutable(Stage::x, b);
            for (std::size_t t = first; t < first + n; ++t)
              if (layer.settings.input_norm == InputNorm::rms)
                rms_norm(X.row(t), weight, X.cols, layer.settings.input_norm_eps, false, x.row(t));
              else
                layer_norm(X.row(t), weight, bias, X.cols, layer.settings.input_norm_eps, x.row(t));
          }}});
  show_tokens(Stage::x);

  const Linear W_q = projection(Stage::q, layer.W_q, layer.b_q, dims.T);
  const Linear W_k = projection(Stage::k, layer.W_k, layer.b_k, dims.S);
  const Linear W_v = projection(Stage::v, layer.W_v, layer.b_v, dims.S);
  std::vector<Rows> rows;
  if (computes(Stage::q) || computes(Stage::q_norm) || computes(Stage::q_rope))
    rows.push_back({dims.T, true, [&](const auto&... tile) { project_queries(W_q, tile...); }});
  if (computes(Stage::k) || computes(Stage::k_norm) || computes(Stage::k_rope))
    rows.push_back({dims.S, false, [&](const auto&... tile) { project_keys(W_k, tile...); }});
  if (computes(Stage::v))
    rows.push_back({dims.S, false, [&](const auto&... tile) { project_values(W_v, tile...); }});
  for_rows(rows);
  if (computes(Stage::k_all))
    add_other_keys(Stage::k_all, Stage::k_rope, layer.k_past, layer.k_extra);
  if (computes(Stage::v_all)) add_other_keys(Stage::v_all, Stage::v, layer.v_past, layer.v_extra);
  for (Stage stage : {Stage::q, Stage::q_norm, Stage::q_rope, Stage::k, Stage::k_norm,
                      Stage::k_rope, Stage::k_all, Stage::v, Stage::v_all})
    show_tokens(stage);
}

template <class T> void Forward<T>::project_queries(const Linear& W_q, std::size_t b,
                                                    std::size_t first, std::size_t n) {
  const auto rows = [&](Stage stage) { return tokens_mutable(stage, b).rows_from(first, n); };
  if (computes(Stage::q)) linear(rows(Stage::x), W_q, rows(Stage::q));
  if (computes(Stage::q_norm))
    norm_heads(rows(Stage::q), layer.q_norm_weight, dims.H, rows(Stage::q_norm));
  if (computes(Stage::q_rope))
    rotate_heads(rows(Stage::q_norm), first, dims.H, rows(Stage::q_rope));
}

template <class T>
void Forward<T>::project_keys(const Linear& W_k, std::size_t b, std::size_t first, std::size_t n) {
  const auto rows = [&](Stage stage) { return tokens_mutable(stage, b).rows_from(first, n); };
  const Tensor& source = layer.X_k.empty() ? token.tensor(Stage::x) : layer.X_k;
  if (computes(Stage::k)) linear(matrix(source, b).rows_from(first, n), W_k, rows(Stage::k));
  if (computes(Stage::k_norm))
    norm_heads(rows(Stage::k), layer.k_norm_weight, dims.H_kv, rows(Stage::k_norm));
  if (computes(Stage::k_rope))
    rotate_heads(rows(Stage::k_norm), first, dims.H_kv, rows(Stage::k_rope));
}

template <class T> void Forward<T>::project_values(const Linear& W_v, std::size_t b,
                                                   std::size_t first, std::size_t n) {
  const Tensor& source = layer.X_v.empty() ? token.tensor(Stage::x) : layer.X_v;
  linear(matrix(source, b).rows_from(first, n), W_v,
         tokens_mutable(Stage::v, b).rows_from(first, n));
}

/// What is attended to: past, current, learned extra, zero.
template <class T>
void Forward<T>::add_other_keys(Stage all, Stage current, const Tensor& past, const Tensor& extra) {
  for (std::size_t b : plan.batches) {
    const Matrix<T> to = tokens_mutable(all, b);
    const Matrix<const T> from = tokens(current, b);
    for (std::size_t j = 0; j < dims.past; ++j)
      std::copy_n(matrix(past, b).row(j), to.cols, to.row(j));
    for (std::size_t j = 0; j < dims.S; ++j)
      std::copy_n(from.row(j), to.cols, to.row(dims.past + j));
    if (dims.extra > 0) std::copy_n(extra.as<T>().data(), to.cols, to.row(dims.past + dims.S));
    if (dims.zero > 0) std::fill_n(to.row(dims.S_all - 1), to.cols, T(0));
  }
}

template <class T> void Forward<T>::attend() {
  // Blocks hand on head_out, or maps, rows and head_result that somebody wants.
  const bool in_blocks =
      std::any_of(stages().begin(), stages().end(),
                  [&](const StageInfo& info) {
                    return info.kind != Kind::token ? contains(plan.needed, info.stage) : false;
                  }) ||
      computes(Stage::head_out);
  if (in_blocks) {
    prepare_keys();
    const std::size_t blocks = plan.blocks.size(), heads = plan.heads.size();
    parallel_for(plan.batches.size() * heads * blocks, threads, [&](std::size_t unit) {
      const std::size_t b = plan.batches[unit / blocks / heads],
                        h = plan.heads[unit / blocks % heads];
      const std::size_t begin = plan.blocks[unit % blocks] * block_queries;
      const std::size_t end = std::min(begin + block_queries, dims.T), band = band_queries();
      for (std::size_t first = begin; first < end; first += band)
        attend(b, h, first, std::min(band, end - first));
    });
  }
  show_tokens(Stage::head_out);
}

/// The queries whose scores are in the cache at once. Our own products give the same bits however
/// their rows are cut, so these follow from the length of a row; oneDNN's do not: there the block
/// is whole.
template <class T> std::size_t Forward<T>::band_queries() const {
  if (scoring == Routine::onednn || weighing == Routine::onednn) return block_queries;
  constexpr std::size_t cache = 1 << 20; // bytes of the second cache that scores may take
  constexpr std::size_t step = 12;       // a multiple of the rows of every kernel's tile
  const std::size_t fit = std::clamp(cache / (std::max<std::size_t>(dims.S_all, 1) * sizeof(T)),
                                     2 * step, block_queries);
  const std::size_t bands = (block_queries + fit - 1) / fit; // equally high
  return std::min((block_queries / bands + step - 1) / step * step, block_queries);
}

/// One head's keys and values are read by every block of every query head that shares them.
template <class T> void Forward<T>::prepare_keys() {
  finite_values.assign(dims.B * dims.H_kv, 1);
  k_operands.resize(dims.B * dims.H_kv), v_operands.resize(dims.B * dims.H_kv);
  const std::size_t rows = dims.T * dims.group();
  parallel_for(plan.batches.size() * dims.H_kv, threads, [&](std::size_t i) {
    const std::size_t b = plan.batches[i / dims.H_kv], kv = i % dims.H_kv;
    if (std::none_of(plan.heads.begin(), plan.heads.end(),
                     [&](std::size_t h) { return kv_head_of(dims, h) == kv; }))
      return;
    if (computes(Stage::scores))
      k_operands[b * dims.H_kv + kv] = Operand<T>(
          scoring, tokens(Stage::k_all, b).cols_from(kv * dims.d_k, dims.d_k), true, rows);
    if (!computes(Stage::head_out)) return;
    const Matrix<const T> v = tokens(Stage::v_all, b).cols_from(kv * dims.d_v, dims.d_v);
    v_operands[b * dims.H_kv + kv] = Operand<T>(weighing, v, false, rows);
    finite_values[b * dims.H_kv + kv] = all_finite(v);
  });
}

/// Queries [first, first + n) of head h of batch b.
template <class T>
void Forward<T>::attend(std::size_t b, std::size_t h, std::size_t first, std::size_t n) {
  const std::size_t kv = b * dims.H_kv + kv_head_of(dims, h), d_k = dims.d_k, d_v = dims.d_v;
  const bool ours = scoring == Routine::ours && weighing == Routine::ours;
  SoftmaxBlock<T>& block = SoftmaxBlock<T>::of_this_thread();
  block.start(layer, plan, b, h, first, n, finite_values[kv],
              ours ? Operand<T>::column_step : key_tile);

  if (computes(Stage::scores)) {
    // q: n, d_k. k: S, d_k. scores: n, S, in tiles of key_tile keys.
    const Matrix<const T> q = tokens(Stage::q_rope, b).rows_from(first, n).cols_from(h * d_k, d_k);
    for (std::size_t j = block.scored().first; j < block.scored().last; j += key_tile)
      k_operands[kv].multiply(
          q, 0, j, block.rows().cols_from(j, std::min(key_tile, block.scored().last - j)));
  }

  block.run(); // scaled … weights, row by row
  for (const StageInfo& info : stages()) {
    if (!wants(info.stage)) continue;
    const auto S = static_cast<std::ptrdiff_t>(dims.S_all), rows = static_cast<std::ptrdiff_t>(n);
    if (info.kind == Kind::map)
      observer.observe(block_of(layer, info.stage, b, h, first, block.map(info.stage),
                                {1, n, dims.S_all}, {rows * S, S, 1}));
    if (info.kind == Kind::row)
      observer.observe(
          block_of(layer, info.stage, b, h, first, block.row(info.stage), {1, n}, {rows, 1}));
  }

  if (computes(Stage::head_out)) {
    // weights: n, S. v: S, d_v. head_out: n, d_v, over the keys that this block can see.
    const Matrix<T> out =
        tokens_mutable(Stage::head_out, b).rows_from(first, n).cols_from(h * d_v, d_v);
    for (std::size_t i = 0; i < n; ++i) std::fill_n(out.row(i), d_v, T(0));
    for (std::size_t j = block.seen().first; j < block.seen().last; j += key_tile)
      v_operands[kv].multiply(block.rows().cols_from(j, std::min(key_tile, block.seen().last - j)),
                              j, 0, out, j != block.seen().first);
  }

  const auto width = static_cast<std::ptrdiff_t>(dims.d_out), rows = static_cast<std::ptrdiff_t>(n);
  const auto show_result = [&](const T* values) {
    observer.observe(block_of(layer, Stage::head_result, b, h, first, values, {1, n, dims.d_out},
                              {rows * width, width, 1}));
  };
  if (wants(Stage::head_result) && layer.has_given(Stage::head_result))
    show_result(layer.given[index_of(Stage::head_result)].template as<T>().data() +
                ((b * dims.H + h) * dims.T + first) * dims.d_out);
  if (computes(Stage::head_result)) {
    // head_out: n, d_v. W_o of this head: d_v, d_out.
    const Matrix<const T> out =
        tokens(Stage::head_out, b).rows_from(first, n).cols_from(h * d_v, d_v);
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
  const Linear W_o = projection(Stage::output, layer.W_o, layer.b_o, dims.T);
  if (computes(Stage::output) || computes(Stage::residual))
    for_rows({{dims.T, true, [&](std::size_t b, std::size_t first, std::size_t n) {
                 const auto rows = [&](Stage stage) {
                   return tokens_mutable(stage, b).rows_from(first, n);
                 };
                 if (computes(Stage::output)) linear(rows(Stage::concat), W_o, rows(Stage::output));
                 if (computes(Stage::residual))
                   for (std::size_t i = 0; i < n; ++i) {
                     T* sum = rows(Stage::residual).row(i);
                     std::copy_n(matrix(layer.X, b).row(first + i), dims.d_out, sum);
                     row_add(sum, rows(Stage::output).row(i), dims.d_out);
                   }
               }}});
  show_tokens(Stage::output);
  show_tokens(Stage::residual);
}

} // namespace

PartTimes compute(const Layer& layer, const Plan& plan, Observer& observer, std::size_t threads) {
  if (layer.dtype == DType::f64) return Forward<double>(layer, plan, observer, threads).run();
  return Forward<float>(layer, plan, observer, threads).run();
}

} // namespace mha
