#include <mha/forward/attention.hpp>

#include <mha/forward/norm.hpp>
#include <mha/forward/projection.hpp>
#include <mha/forward/rotary.hpp>
#include <mha/forward/softmax_block.hpp>
#include <mha/kernels/packed.hpp>
#include <mha/kernels/product.hpp>
#include <mha/kernels/rows.hpp>
#include <mha/schedule/meter.hpp>
#include <mha/schedule/token_stages.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <cmath>

// Multi-head attention (Vaswani et al. 2017), in blocks. B batches, T queries, S keys, H heads over
// H_kv key/value heads, widths d_model, d_k, d_v. Token stages are whole tensors, packed: B, T, H ·
// d. Everything T × S exists for one batch, one head and 256 queries at a time.

namespace mha {

namespace {

template <class T> class Forward {
public:
  Forward(Layer layer, const Plan& plan, Observer& observer, std::size_t threads);

  PhaseTimes run() {
    PhaseTimes seconds;
    seconds.projections = seconds_of([&] { project(); }); // x, q, k, v
    seconds.attention = seconds_of([&] { attend(); });    // scores, weights, head_out
    seconds.output = seconds_of([&] { merge(); });        // concat W_o + b_o
    return seconds;
  }

private:
  /// What is done with some rows, in tiles.
  struct Rows {
    std::size_t count; ///< rows of a batch item
    std::vector<Tile> runs;
    std::size_t head_width; ///< columns of each of the tiles' heads, 0 if they cannot be parted
    std::function<void(const Tile&)> work;
  };

  bool computes(Stage stage) const { return contains(plan.computed, stage); }
  bool wants(Stage stage) const { return contains(plan.wanted, stage); }

  Matrix<const T> tokens(Stage stage, std::size_t b) const { return token.rows(stage, b); }
  Matrix<T> tokens_mutable(Stage stage, std::size_t b) { return token.rows_mutable(stage, b); }
  static Matrix<const T> matrix(const Tensor& tensor, std::size_t b = 0) {
    return matrix_of<T>(tensor, b);
  }

  void project();
  void project_queries(const Projection<T>& W_q, const Tile& tile);
  void project_keys(const Projection<T>& W_k, const Tile& tile);
  void project_values(const Projection<T>& W_v, const Tile& tile);
  void normalise_input(const Tile& tile);
  void add_other_keys(Stage all, Stage current, const Tensor& past, const Tensor& extra);
  void release_inputs();
  void attend();
  void attend(std::size_t b, std::size_t h, std::size_t first_query, std::size_t n);
  std::size_t band_queries() const;
  void prepare_keys();
  void merge();

  Projection<T> projection(Stage stage, const Tensor& W, const Tensor& bias,
                           std::size_t rows) const {
    return {projecting, W, bias, computes(stage) ? rows * plan.batches.size() : 0, threads};
  }
  void for_rows(const std::vector<Rows>& all) const;
  void show_tokens(Stage stage) { token.show(stage, observer, threads); }

  Layer layer;
  const Plan& plan;
  Observer& observer;
  const Dims& dims;
  std::size_t threads;
  Meter meter;
  TokenStages<T> token;
  RotaryTable<T> rotary;
  Routine projecting, scoring, weighing;
  std::vector<PackedMatrix<T>> k_packed, v_packed; ///< k and v of each batch and key/value head
  std::vector<std::uint8_t> finite_values;         ///< likewise: v has no NaN or infinity
};

template <class T> Forward<T>::Forward(Layer the_layer, const Plan& the_plan,
                                       Observer& the_observer, std::size_t the_threads)
    : layer(std::move(the_layer)),
      plan(the_plan),
      observer(the_observer),
      dims(layer.dims),
      threads(the_threads == 0 ? threads_for(layer) : the_threads),
      meter(layer, plan),
      token(layer, plan) {
  // Which routine multiplies follows from the layer's shape alone.
  std::size_t narrowest = dims.d_out;
  for (const Tensor* W : {&layer.W_q, &layer.W_k, &layer.W_v, &layer.W_o})
    if (!W->empty()) narrowest = std::min(narrowest, W->shape()[1]);
  projecting = routine_for<T>(std::max(dims.T, dims.S), narrowest, dims.d_model);
  scoring = routine_for<T>(dims.T, dims.S_all, dims.d_k);
  weighing = routine_for<T>(dims.T, dims.d_v, dims.S_all);
  if (!computes(Stage::v)) layer.W_v = {};
  if (!computes(Stage::output) && !computes(Stage::head_result)) layer.W_o = {};
}

/// Works through the tiles of all of these at once. Few rows that are multiplied by splitting are
/// cut by heads instead, so that no part of W is split twice.
template <class T> void Forward<T>::for_rows(const std::vector<Rows>& all) const {
  std::vector<std::pair<const Rows*, Tile>> tasks;
  for (const Rows& rows : all) {
    const bool by_heads =
        rows.head_width > 0 && projecting == Routine::bf16x3 && rows.count <= bf16x3_as_read;
    for (const Tile& tile :
         by_heads ? head_tiles(rows.runs, rows.head_width, PackedMatrix<T>::column_step, threads)
                  : row_tiles(rows.runs, rows.count))
      tasks.emplace_back(&rows, tile);
  }
  parallel_for(tasks.size(), threads, [&](std::size_t i) {
    const auto& [rows, tile] = tasks[i];
    rows->work(tile);
    if (tile.heads.first == rows->runs.front().heads.first) meter.rows(tile.count);
  });
}

template <class T> void Forward<T>::project() {
  if (computes(Stage::q_rope) || computes(Stage::k_rope))
    rotary =
        rotary_table<T>(layer, std::max(dims.T, dims.S),
                        layer.settings.rope_offset.value_or(static_cast<std::int64_t>(dims.past)));

  // x: T, d_model. Keys and values may be made of rows that no query block holds.
  const std::vector<Tile> queries = query_rows(layer, plan), keys = key_rows(layer, plan, dims.S);
  const bool rows_for_keys =
      (computes(Stage::k) && layer.X_k.empty()) || (computes(Stage::v) && layer.X_v.empty());
  if (computes(Stage::x) && layer.settings.input_norm != InputNorm::none)
    for_rows({{dims.T, rows_for_keys ? whole_items(queries, dims.T) : queries, 0,
               [&](const Tile& tile) { normalise_input(tile); }}});
  show_tokens(Stage::x);

  const Projection<T> W_q = projection(Stage::q, layer.W_q, layer.b_q, dims.T);
  const Projection<T> W_k = projection(Stage::k, layer.W_k, layer.b_k, dims.S);
  const Projection<T> W_v = projection(Stage::v, layer.W_v, layer.b_v, dims.S);
  // A norm over all heads together keeps them together.
  const auto parted = [](const Tensor& norm, std::size_t width) {
    return norm.empty() || norm.count() == width ? width : 0;
  };
  std::vector<Rows> rows;
  if (computes(Stage::q) || computes(Stage::q_norm) || computes(Stage::q_rope))
    rows.push_back({dims.T, queries, parted(layer.q_norm_weight, dims.d_k),
                    [&](const Tile& tile) { project_queries(W_q, tile); }});
  if (computes(Stage::k) || computes(Stage::k_norm) || computes(Stage::k_rope))
    rows.push_back({dims.S, keys, parted(layer.k_norm_weight, dims.d_k),
                    [&](const Tile& tile) { project_keys(W_k, tile); }});
  if (computes(Stage::v))
    rows.push_back({dims.S, keys, dims.d_v, [&](const Tile& tile) { project_values(W_v, tile); }});
  for_rows(rows);
  if (computes(Stage::k_all))
    add_other_keys(Stage::k_all, Stage::k_rope, layer.k_past, layer.k_extra);
  if (computes(Stage::v_all)) add_other_keys(Stage::v_all, Stage::v, layer.v_past, layer.v_extra);
  for (Stage stage : {Stage::q, Stage::q_norm, Stage::q_rope, Stage::k, Stage::k_norm,
                      Stage::k_rope, Stage::k_all, Stage::v, Stage::v_all})
    show_tokens(stage);
  release_inputs();
}

/// Scores are made of q_rope and k_all, head_out of v_all; X may be added to the output.
template <class T> void Forward<T>::release_inputs() {
  std::vector<Stage> read{Stage::x,      Stage::q,      Stage::q_norm, Stage::k,
                          Stage::k_norm, Stage::k_rope, Stage::v};
  if (!computes(Stage::scores)) read.insert(read.end(), {Stage::q_rope, Stage::k_all});
  if (!computes(Stage::head_out)) read.push_back(Stage::v_all);
  for (Stage stage : read) token.let_go(stage), layer.given[index_of(stage)] = {};
  layer.X_k = layer.X_v = layer.W_q = layer.W_k = layer.W_v = {};
  layer.k_past = layer.v_past = layer.k_extra = layer.v_extra = {};
  if (!computes(Stage::residual)) layer.X = {};
  rotary = {};
}

template <class T> void Forward<T>::normalise_input(const Tile& tile) {
  const T* weight = layer.norm_weight.empty() ? nullptr : layer.norm_weight.as<T>().data();
  const T* bias = layer.norm_bias.empty() ? nullptr : layer.norm_bias.as<T>().data();
  const Matrix<const T> X = matrix(layer.X, tile.batch);
  const Matrix<T> x = tokens_mutable(Stage::x, tile.batch);
  const double eps = layer.settings.input_norm_eps;
  for (std::size_t t = tile.first; t < tile.first + tile.count; ++t)
    if (layer.settings.input_norm == InputNorm::rms)
      rms_norm(X.row(t), weight, X.cols, eps, false, x.row(t));
    else
      layer_norm(X.row(t), weight, bias, X.cols, eps, x.row(t));
}

template <class T> void Forward<T>::project_queries(const Projection<T>& W_q, const Tile& tile) {
  const auto& [b, first, n, heads] = tile;
  const auto rows = [&](Stage stage) {
    return tokens_mutable(stage, tile.batch).rows_from(tile.first, tile.count);
  };
  if (computes(Stage::q))
    W_q.multiply(rows(Stage::x), dims.d_k, projected(heads, dims.H, layer.q_norm_weight, dims.d_k),
                 rows(Stage::q));
  if (computes(Stage::q_norm))
    norm_heads<T>(layer, rows(Stage::q), layer.q_norm_weight, heads, rows(Stage::q_norm));
  if (computes(Stage::q_rope))
    rotate_heads<T>(layer, rotary, rows(Stage::q_norm), first, heads, rows(Stage::q_rope));
}

template <class T> void Forward<T>::project_keys(const Projection<T>& W_k, const Tile& tile) {
  const auto& [b, first, n, heads] = tile;
  const auto rows = [&](Stage stage) {
    return tokens_mutable(stage, tile.batch).rows_from(tile.first, tile.count);
  };
  const Tensor& source = layer.X_k.empty() ? token.tensor(Stage::x) : layer.X_k;
  if (computes(Stage::k))
    W_k.multiply(matrix(source, b).rows_from(first, n), dims.d_k,
                 projected(heads, dims.H_kv, layer.k_norm_weight, dims.d_k), rows(Stage::k));
  if (computes(Stage::k_norm))
    norm_heads<T>(layer, rows(Stage::k), layer.k_norm_weight, heads, rows(Stage::k_norm));
  if (computes(Stage::k_rope))
    rotate_heads<T>(layer, rotary, rows(Stage::k_norm), first, heads, rows(Stage::k_rope));
}

template <class T> void Forward<T>::project_values(const Projection<T>& W_v, const Tile& tile) {
  const auto& [b, first, n, heads] = tile;
  const Tensor& source = layer.X_v.empty() ? token.tensor(Stage::x) : layer.X_v;
  W_v.multiply(matrix(source, b).rows_from(first, n), dims.d_v, heads,
               tokens_mutable(Stage::v, b).rows_from(first, n));
}

/// What is attended to: past, current, learned extra, zero.
template <class T>
void Forward<T>::add_other_keys(Stage all, Stage current, const Tensor& past, const Tensor& extra) {
  for (const Tile& run : key_rows(layer, plan, dims.S)) {
    const std::size_t b = run.batch, d = tokens(all, b).cols / dims.H_kv;
    const std::size_t left = run.heads.first * d, width = (run.heads.last - run.heads.first) * d;
    const Matrix<T> to = tokens_mutable(all, b).cols_from(left, width);
    const Matrix<const T> from = tokens(current, b).cols_from(left, width);
    for (std::size_t j = 0; j < dims.past; ++j)
      std::copy_n(matrix(past, b).row(j) + left, width, to.row(j));
    for (std::size_t j = 0; j < dims.S; ++j) std::copy_n(from.row(j), width, to.row(dims.past + j));
    if (dims.extra > 0) std::copy_n(extra.as<T>().data() + left, width, to.row(dims.past + dims.S));
    if (dims.zero > 0) std::fill_n(to.row(dims.S_all - 1), width, T(0));
  }
}

template <class T> void Forward<T>::attend() {
  // Blocks hand on head_out, or maps, rows and head_result that somebody wants.
  const bool in_blocks =
      computes(Stage::head_out) || std::ranges::any_of(stages(), [&](const StageInfo& info) {
        return info.kind != Kind::token && contains(plan.needed, info.stage);
      });
  if (in_blocks) {
    prepare_keys();
    parallel_for(plan.blocks.size(), threads, [&](std::size_t i) {
      const QueryBlock& block = plan.blocks[i];
      const std::size_t begin = block.block * block_queries;
      const std::size_t end = std::min(begin + block_queries, dims.T), band = band_queries();
      for (std::size_t first = begin; first < end; first += band)
        attend(block.batch, block.head, first, std::min(band, end - first));
      meter.queries(begin, end);
    });
  }
  show_tokens(Stage::head_out);
}

/// The queries whose scores are in the cache at once; they follow from the length of a row.
template <class T> std::size_t Forward<T>::band_queries() const {
  constexpr std::size_t cache = 1 << 19; // bytes of the second cache that scores may take
  // A multiple of the rows of every kernel's tile.
  const std::size_t step = scoring == Routine::bf16x3 || weighing == Routine::bf16x3 ? 32 : 12;
  const std::size_t fit = std::clamp<std::size_t>(
      cache / (std::max<std::size_t>(dims.S_all, 1) * sizeof(T)), 24, block_queries);
  const std::size_t bands = (block_queries + fit - 1) / fit; // equally high
  return std::min((block_queries / bands + step - 1) / step * step, block_queries);
}

/// One head's keys and values are read by every block of every query head that shares them.
template <class T> void Forward<T>::prepare_keys() {
  finite_values.assign(dims.B * dims.H_kv, 1);
  k_packed.resize(dims.B * dims.H_kv), v_packed.resize(dims.B * dims.H_kv);
  const std::size_t rows = dims.T * dims.group();
  std::vector<std::pair<std::size_t, std::size_t>> read; // batch, key/value head
  for (const QueryBlock& block : plan.blocks)
    read.emplace_back(block.batch, kv_head_of(layer, block.head));
  std::sort(read.begin(), read.end()); // heads that share one need not be neighbours
  read.erase(std::unique(read.begin(), read.end()), read.end());
  parallel_for(read.size(), threads, [&](std::size_t i) {
    const auto [b, kv] = read[i];
    if (computes(Stage::scores))
      k_packed[b * dims.H_kv + kv] = PackedMatrix<T>(
          scoring, tokens(Stage::k_all, b).cols_from(kv * dims.d_k, dims.d_k), true, rows);
    if (!computes(Stage::head_out)) return;
    const Matrix<const T> v = tokens(Stage::v_all, b).cols_from(kv * dims.d_v, dims.d_v);
    v_packed[b * dims.H_kv + kv] = PackedMatrix<T>(weighing, v, false, rows);
    finite_values[b * dims.H_kv + kv] = all_finite(v);
  });
}

/// Queries [first, first + n) of head h of batch b.
template <class T>
void Forward<T>::attend(std::size_t b, std::size_t h, std::size_t first, std::size_t n) {
  const std::size_t kv = b * dims.H_kv + kv_head_of(layer, h), d_k = dims.d_k, d_v = dims.d_v;
  SoftmaxBlock<T>& block = SoftmaxBlock<T>::of_this_thread();
  block.start(layer, plan, b, h, first, n, finite_values[kv], PackedMatrix<T>::column_step);

  if (computes(Stage::scores)) {
    // q: n, d_k. k: S, d_k. scores: n, S, in tiles of key_tile keys.
    const Matrix<const T> q = tokens(Stage::q_rope, b).rows_from(first, n).cols_from(h * d_k, d_k);
    for (std::size_t j = block.scored().first; j < block.scored().last; j += key_tile)
      k_packed[kv].multiply(q, 0, j,
                            block.rows().cols_from(j, std::min(key_tile, block.scored().last - j)));
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
      v_packed[kv].multiply(block.rows().cols_from(j, std::min(key_tile, block.seen().last - j)), j,
                            0, out, j != block.seen().first);
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
  const Projection<T> W_o = projection(Stage::output, layer.W_o, layer.b_o, dims.T);
  // The output has no heads, but its columns may be parted likewise; not where a row is added up.
  const bool parted = !computes(Stage::residual) && dims.d_out % PackedMatrix<T>::column_step == 0;
  const std::size_t width = parted ? PackedMatrix<T>::column_step : dims.d_out;
  std::vector<Tile> runs = query_rows(layer, plan);
  for (Tile& run : runs) run.heads = {0, parted ? dims.d_out / width : 1};
  if (computes(Stage::output) || computes(Stage::residual))
    for_rows({{dims.T, runs, parted ? width : 0, [&](const Tile& tile) {
                 const auto rows = [&](Stage stage) {
                   return tokens_mutable(stage, tile.batch).rows_from(tile.first, tile.count);
                 };
                 if (computes(Stage::output))
                   W_o.multiply(rows(Stage::concat), width, tile.heads, rows(Stage::output));
                 if (computes(Stage::residual))
                   for (std::size_t i = 0; i < tile.count; ++i) {
                     T* sum = rows(Stage::residual).row(i);
                     std::copy_n(matrix(layer.X, tile.batch).row(tile.first + i), dims.d_out, sum);
                     row_add(sum, rows(Stage::output).row(i), dims.d_out);
                   }
               }}});
  show_tokens(Stage::output);
  show_tokens(Stage::residual);
}

} // namespace

PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  if (layer.dtype == DType::f64)
    return Forward<double>(std::move(layer), plan, observer, threads).run();
  return Forward<float>(std::move(layer), plan, observer, threads).run();
}

} // namespace mha
