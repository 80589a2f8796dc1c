#include <mha/diagnose/some_tokens.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/forward/bias.hpp>
#include <mha/forward/mask.hpp>
#include <mha/forward/rotary_kinds.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/load/broadcast.hpp>
#include <mha/schedule/plan.hpp>

#include <algorithm>
#include <cstring>

namespace mha {

namespace {

/// The axis of the queries in the form of Layer::given, or 0 if there is none.
std::size_t query_axis(Stage stage) {
  const StageInfo& info = info_of(stage);
  if (info.kind != Kind::token) return 2; // B, H, T, …
  const Dim tokens = info.letters[info.letters.size() - 2];
  return axis_of(tokens) == Axis::query ? 1 : 0;
}

Tensor rows_of(const Tensor& value, std::size_t axis, const std::vector<std::size_t>& rows) {
  Shape shape = value.shape();
  std::size_t outer = 1, bytes = size_of(value.dtype());
  for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (std::size_t i = axis + 1; i < shape.size(); ++i) bytes *= shape[i];
  const std::size_t before = shape[axis];
  shape[axis] = rows.size();
  Tensor result = Tensor::uninitialised(value.dtype(), shape);
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::memcpy(result.raw_mutable() + (o * rows.size() + i) * bytes,
                  value.raw() + (o * before + rows[i]) * bytes, bytes);
  return result;
}

bool same_for_heads(const std::vector<Broadcast>& list) {
  return std::all_of(list.begin(), list.end(),
                     [](const Broadcast& one) { return one.strides[1] == 0; });
}

/// A mask or bias with the numbers that `add(at, keys)` adds to 0 for the chosen queries.
template <class Add> Broadcast written_out(const Layer& layer, const std::vector<std::size_t>& rows,
                                           bool one_head, Add add) {
  const Dims& d = layer.dims;
  const std::size_t heads = one_head ? 1 : d.H, n = rows.size(), S = d.S_all;
  Tensor all(layer.dtype, {d.B, heads, n, S});
  by_precision(layer.dtype, [&]<class T>(T) {
    T* row = all.as_mutable<T>().data();
    for (std::size_t b = 0; b < d.B; ++b)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < n; ++i, row += S)
          add(RowPlace{b, h, rows[i]}, Keys<T>{row, 0, S});
  });
  return broadcast_of(std::move(all), "");
}

void write_out_bias(const Layer& full, const std::vector<std::size_t>& rows, Layer& some) {
  const std::vector<double> slopes = full.settings.alibi == Alibi::none
                                         ? std::vector<double>(full.dims.H)
                                         : alibi_slopes(full.dims.H, full.settings.alibi);
  // Queries and keys, if the bias is computed from them.
  const std::vector<Tensor> vectors =
      full.relative_key.empty() ? std::vector<Tensor>{}
                                : values_of(full, {step_for(full, in_turn(full, Stage::q_rope)),
                                                   step_for(full, Stage::k_all)});
  const Dims& d = full.dims;
  some.bias = {written_out(full, rows, false, [&]<class T>(const RowPlace& at, Keys<T> keys) {
    add_bias(full, at, keys);
    add_alibi(full, static_cast<T>(slopes[at.head]), at, keys);
    if (vectors.empty()) return;
    const std::size_t row = (at.batch * d.T + at.query) * d.H + at.head, width = d.H_kv * d.d_k;
    const T* k = vectors[1].as<T>().data() + at.batch * d.S_all * width;
    add_relative_key(
        full, at, vectors[0].as<T>().data() + row * d.d_k,
        full.settings.relative_key_query
            ? Matrix<const T>{k + kv_head_of(full, at.head) * d.d_k, d.S_all, d.d_k, width}
            : Matrix<const T>{},
        keys);
  })};
}

void write_out_masks(const Layer& full, const std::vector<std::size_t>& rows, Layer& some) {
  const Settings& s = full.settings;
  some.added.clear();
  if (full.added.empty() && full.blocked.empty() && full.kv_lengths.empty() && !s.causal &&
      s.window_left < 0 && s.window_right < 0 && s.window_chunk == 0)
    return;
  some.added = {written_out(full, rows, same_for_heads(full.added) && same_for_heads(full.blocked),
                            [&](const RowPlace& at, auto keys) { add_masks(full, at, keys); })};
}

/// Rotary positions of the chosen queries. The table has at least the length of the keys, which are
/// already rotated.
Tensor positions_of(const Layer& full, const std::vector<std::size_t>& rows) {
  const std::size_t given = full.positions.rank() == 2 ? full.positions.shape()[0] : 1;
  const std::size_t length = std::max(rows.size(), full.dims.S);
  Tensor positions(DType::f64, given == 1 ? Shape{length} : Shape{given, length});
  const auto offset = static_cast<double>(full.first_position());
  for (std::size_t row = 0; row < given; ++row)
    for (std::size_t i = 0; i < rows.size(); ++i)
      positions.as_mutable<double>()[row * length + i] =
          full.positions.empty()
              ? offset + static_cast<double>(rows[i])
              : full.positions.as<double>()[row * full.positions.shape().back() + rows[i]];
  return positions;
}

} // namespace

Layer some_queries(const Layer& full, const std::vector<std::size_t>& rows, Stage target) {
  const StageSet wanted{step_for(full, target)};
  const Plan plan = make_plan(full, wanted);
  const auto computes = [&](Stage stage) { return contains(plan.computed, stage); };

  Layer some = full;
  some.dims.T = rows.size();
  for (const StageInfo& info : stages())
    if (full.has_given(info.stage))
      give(some, info.stage, some_queries(info.stage, full.given[index_of(info.stage)], rows));
  if (!full.X.empty()) {
    // A change may recompute keys and values, for which all tokens are needed.
    const Tensor x = full.settings.input_norm == InputNorm::none && !full.has_given(Stage::x)
                         ? full.X
                         : values_of(full, {Stage::x}).front();
    if (full.X_k.empty()) some.X_k = x;
    if (full.X_v.empty()) some.X_v = x;
    some.X = rows_of(full.X, 1, rows);
  }
  if (full.settings.rope != Rope::none || full.settings.temperature != 0)
    some.positions = positions_of(full, rows);
  if (full.settings.rope != Rope::none) {
    some.settings.rope_length =
        rotary_length(full, std::max(full.dims.T, full.dims.S), full.first_position());
  }

  std::vector<Stage> of_keys;
  if (computes(Stage::scores)) of_keys.push_back(step_for(full, Stage::k_all));
  if (computes(Stage::head_out)) of_keys.push_back(step_for(full, Stage::v_all));
  const std::vector<Tensor> values = values_of(full, of_keys);
  if (has_step(full, Stage::k)) clear_given(some, {Stage::k, Stage::k_norm, Stage::k_rope});
  if (has_step(full, Stage::v)) clear_given(some, {Stage::v, Stage::v_norm});
  if (computes(Stage::scores)) give(some, Stage::k_all, values.front());
  if (computes(Stage::head_out)) give(some, Stage::v_all, values.back());

  if (computes(Stage::biased))
    write_out_bias(full, rows, some);
  else
    some.bias.clear();
  if (computes(Stage::masked))
    write_out_masks(full, rows, some);
  else
    some.added.clear();
  some.blocked.clear(), some.kv_lengths.clear(), some.relative_bias = some.relative_key = {};
  some.settings.alibi = Alibi::none;
  some.settings.causal = false;
  some.settings.window_left = some.settings.window_right = -1, some.settings.window_chunk = 0;
  some.tokens.clear(), some.item_tokens.clear();
  return some;
}

Tensor some_queries(Stage stage, const Tensor& value, const std::vector<std::size_t>& rows) {
  const std::size_t axis = query_axis(stage);
  return axis == 0 ? value : rows_of(value, axis, rows);
}

} // namespace mha
