#include <mha/diagnose/hypotheses/edit.hpp>

#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/naming/forms.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cstring>

namespace mha {

Stage step_for(const Layer& layer, Stage stage) {
  // Another layer's keys and values begin after their norms and rotation.
  if ((stage == Stage::k || stage == Stage::k_norm) && !has_step(layer, Stage::k))
    return Stage::k_rope;
  if (stage == Stage::v && !has_step(layer, Stage::v)) return Stage::v_norm;
  while (!has_step(layer, stage) && !steps_before(layer, stage).empty())
    stage = steps_before(layer, stage).back();
  return stage;
}

Shape given_shape(const Layer& layer, Stage stage) {
  return form_of(stage, layer.dims).stored;
}

Tensor packed(const Layer& layer, Stage stage, const Tensor& value) {
  return stored(stage, value, layer.dims);
}

namespace {

bool has_kv_heads(Stage stage) {
  const std::vector<Dim>& letters = info_of(stage).letters;
  return !letters.empty() && axis_of(letters[0]) == Axis::kv_head;
}

/// Computes all key/value heads. Only heads that are read are computed, so that every query head is
/// made to read its group's.
std::vector<Tensor> all_kv_heads(Layer layer, const std::vector<Stage>& wanted,
                                 std::size_t threads) {
  layer.kv_heads.clear();
  return values_of(layer, wanted, threads);
}

/// The values of stages with key/value heads for all heads, and of the other stages from the layer
/// itself.
std::vector<Tensor> values_by_kind(const Layer& layer, const std::vector<Stage>& wanted,
                                   std::size_t threads) {
  std::vector<Stage> shared, others;
  for (Stage stage : wanted) (has_kv_heads(stage) ? shared : others).push_back(stage);
  const std::vector<Tensor> of_keys = all_kv_heads(layer, shared, threads),
                            rest = values_of(layer, others, threads);
  std::vector<Tensor> values;
  for (std::size_t i = 0, k = 0, o = 0; i < wanted.size(); ++i)
    values.push_back(has_kv_heads(wanted[i]) ? of_keys[k++] : rest[o++]);
  return values;
}

} // namespace

std::vector<Tensor> values_of(const Layer& layer, const std::vector<Stage>& wanted,
                              std::size_t threads) {
  if (!layer.kv_heads.empty() && std::ranges::any_of(wanted, has_kv_heads))
    return values_by_kind(layer, wanted, threads);
  std::vector<Stage> computed;
  for (Stage stage : wanted)
    if (!layer.has_given(stage)) computed.push_back(stage);
  std::vector<Tensor> values;
  if (computed.empty()) {
    for (Stage stage : wanted) values.push_back(layer.given[index_of(stage)]);
    return values;
  }
  const Trace kept = trace(layer, computed, {}, threads);
  for (Stage stage : wanted)
    values.push_back(layer.has_given(stage) ? layer.given[index_of(stage)]
                                            : packed(layer, stage, kept.value(stage)));
  return values;
}

Tensor value_of(const Layer& layer, Stage stage, std::size_t threads) {
  return values_of(layer, {step_for(layer, stage)}, threads)[0];
}

void give(Layer& layer, Stage stage, Tensor value) {
  layer.given[index_of(stage)] = std::move(value);
  layer.given_set.add(stage);
}

void clear_given(Layer& layer, std::initializer_list<Stage> stages) {
  for (Stage stage : stages) {
    layer.given[index_of(stage)] = {};
    layer.given_set.remove(stage);
  }
}

Tensor copied(const Tensor& tensor) {
  Tensor copy = Tensor::uninitialised(tensor.dtype(), tensor.shape());
  std::memcpy(copy.raw_mutable(), tensor.raw(), tensor.bytes());
  return copy;
}

Tensor columns_of(const Tensor& tensor, const std::vector<std::size_t>& columns) {
  struct Run {
    std::size_t from, bytes; // contiguous columns
  };
  std::vector<Run> runs;
  const std::size_t element = size_of(tensor.dtype());
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (i > 0 && columns[i] == columns[i - 1] + 1)
      runs.back().bytes += element;
    else
      runs.push_back({columns[i] * element, element});

  Shape shape = tensor.shape();
  const std::size_t row_bytes = shape.back() * element, rows = tensor.bytes() / row_bytes;
  shape.back() = columns.size();
  Tensor result = Tensor::uninitialised(tensor.dtype(), shape);
  std::byte* to = result.raw_mutable();
  const std::byte* row = tensor.raw();
  for (std::size_t i = 0; i < rows; ++i, row += row_bytes)
    for (const Run& run : runs) {
      std::memcpy(to, row + run.from, run.bytes);
      to += run.bytes;
    }
  return result;
}

Tensor unmerged(const Tensor& x, std::size_t heads) {
  const Shape& s = x.shape(); // B, T, H · d
  return permuted(x.reshaped({s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3}).reshaped(s);
}

Tensor read_transposed(const Tensor& W) {
  return transposed(W.reshaped({W.shape()[1], W.shape()[0]}));
}

Tensor without_row_means(const Tensor& tensor) {
  Tensor result = copied(tensor);
  const std::size_t n = tensor.shape().back();
  by_precision(tensor.dtype(), [&]<class T>(T) {
    const auto values = result.as_mutable<T>();
    for (std::size_t first = 0; first + n <= values.size(); first += n) {
      double sum = 0;
      for (T value : values.subspan(first, n)) sum += static_cast<double>(value);
      const double mean = sum / static_cast<double>(n);
      for (T& value : values.subspan(first, n))
        value = static_cast<T>(static_cast<double>(value) - mean);
    }
  });
  return result;
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  Tensor sum = copied(a);
  by_precision(a.dtype(), [&]<class T>(T) {
    const auto from = b.as<T>();
    const auto to = sum.as_mutable<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  });
  return sum;
}

TransformerBlock& own_block(Layer& layer) {
  auto block = std::make_shared<TransformerBlock>(*layer.block);
  TransformerBlock& own = *block;
  layer.block = std::move(block);
  return own;
}

Mixture& own_mixture(Layer& layer) {
  TransformerBlock& block = own_block(layer);
  auto own = std::make_shared<Mixture>(*block.mixture);
  Mixture& mixture = *own;
  block.mixture = std::move(own);
  return mixture;
}

ModelEnds& own_ends(Layer& layer) {
  auto ends = std::make_shared<ModelEnds>(*layer.ends);
  ModelEnds& own = *ends;
  layer.ends = std::move(ends);
  return own;
}

namespace {

bool is_in(SettingGroup group, const SettingInfo& info) {
  if (group == SettingGroup::windows) return info.name.starts_with("window_");
  return info.name.starts_with("rope") || info.name.starts_with("mrope");
}

} // namespace

bool same_settings(const Layer& a, const Layer& b, SettingGroup group) {
  return std::ranges::none_of(settings_table(), [&](const SettingInfo& info) {
    return is_in(group, info) && info.get(a.settings) != info.get(b.settings);
  });
}

void take_settings(Layer& layer, const Layer& from, SettingGroup group) {
  for (const SettingInfo& info : settings_table()) {
    if (!is_in(group, info)) continue;
    const std::string value = info.get(from.settings);
    if (info.get(layer.settings) != value) info.set(layer.settings, value);
  }
  if (group != SettingGroup::rotations) return;
  layer.rope_short_factor = from.rope_short_factor, layer.rope_long_factor = from.rope_long_factor;
}

} // namespace mha
