// Masks given as tensors: left out, inverted, or with the padding on the other side.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/load/broadcast.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// Whether every number is 0 or −∞ (or a large negative constant).
bool only_blocks(const Tensor& mask) {
  for (std::size_t i = 0; i < mask.count(); ++i)
    if (const double a = value_at(mask, i); a != 0 && !(a <= -1e3)) return false;
  return true;
}

Tensor inverted(const Tensor& mask) {
  if (mask.dtype() != DType::boolean)
    return each_number(
        mask, [](double a) { return a == 0 ? -std::numeric_limits<double>::infinity() : 0.0; });
  Tensor result(DType::boolean, mask.shape());
  for (std::size_t i = 0; i < mask.count(); ++i)
    result.as_mutable<std::uint8_t>()[i] = mask.as<std::uint8_t>()[i] == 0;
  return result;
}

/// The mask with its keys in the opposite order.
Broadcast turned(const Broadcast& mask) {
  Broadcast result = mask;
  const std::size_t n = mask.tensor.shape().back(), rows = mask.tensor.count() / n,
                    bytes = size_of(mask.tensor.dtype());
  result.tensor = copied(mask.tensor);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t j = 0; j < n; ++j)
      std::copy_n(mask.tensor.raw() + (row * n + n - 1 - j) * bytes, bytes,
                  result.tensor.raw_mutable() + (row * n + j) * bytes);
  return result;
}

bool over_keys_alone(const Broadcast& mask) {
  return mask.strides[1] == 0 && mask.strides[2] == 0 && mask.strides[3] != 0 && mask.keys > 1;
}

/// Makes the last keys of each batch item valid instead of the first.
void pad_left(Layer& layer) {
  const Dims& d = layer.dims;
  const std::size_t keys = d.past + d.S;
  Tensor mask(DType::boolean, {d.B, 1, 1, keys});
  for (std::size_t b = 0; b < d.B; ++b)
    std::fill_n(mask.as_mutable<std::uint8_t>().begin() + static_cast<std::ptrdiff_t>(b * keys),
                keys - layer.kv_lengths[b], std::uint8_t{1});
  layer.kv_lengths.clear();
  layer.blocked.push_back(broadcast_of(std::move(mask), "kv_lengths"));
}

std::vector<Change> mask_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  ChangeList list;
  const auto add = [&](const char* id, std::string did, std::string cure,
                       std::function<void(Layer&)> edit) {
    list.add(id, StageSet{Stage::masked}, std::move(did), std::move(cure), std::move(edit));
  };
  // kv_lengths also determine the causal diagonal and windows; in that case they are not changed.
  const bool lengths = !layer.kv_lengths.empty() && !layer.settings.causal &&
                       layer.settings.window_left < 0 && layer.settings.window_right < 0 &&
                       layer.settings.alibi == Alibi::none && layer.relative_bias.empty();
  const std::size_t masks = layer.added.size() + layer.blocked.size() + (lengths ? 1 : 0);
  if (masks > 0)
    add("mask.missing", "applies no mask tensor", "apply the mask to the scores before the softmax",
        [lengths](Layer& edited) {
          edited.added.clear(), edited.blocked.clear();
          if (lengths) edited.kv_lengths.clear();
        });
  for (const auto& kind : {&Layer::added, &Layer::blocked})
    for (std::size_t i = 0; i < (layer.*kind).size(); ++i) {
      const Broadcast& mask = (layer.*kind)[i];
      const std::string name = mask.origin.substr(mask.origin.rfind(' ') + 1);
      if (masks > 1)
        add("mask.missing", fmt::format("does not apply {}", name),
            fmt::format("apply {} to the scores before the softmax", name),
            [kind, i](Layer& edited) {
              if (i >= (edited.*kind).size()) return; // another change removed it
              (edited.*kind).erase((edited.*kind).begin() + static_cast<std::ptrdiff_t>(i));
            });
      if (mask.tensor.dtype() == DType::boolean || only_blocks(mask.tensor))
        add("mask.inverted", fmt::format("hides what {} shows, and shows what it hides", name),
            fmt::format("invert {}: it is read with the opposite meaning", name),
            [kind, i](Layer& edited) {
              if (i >= (edited.*kind).size()) return; // another change removed it
              Tensor& tensor = (edited.*kind)[i].tensor;
              tensor = inverted(tensor);
            });
      if (over_keys_alone(mask))
        add("padding.side", fmt::format("applies {} from the other end of the keys", name),
            "put the padding on the same side of the keys", [kind, i](Layer& edited) {
              if (i >= (edited.*kind).size()) return; // another change removed it
              Broadcast& edited_mask = (edited.*kind)[i];
              edited_mask = turned(edited_mask);
            });
    }
  if (lengths) {
    if (masks > 1)
      add("mask.missing", "ignores kv_lengths", "hide the keys beyond kv_lengths",
          [](Layer& edited) { edited.kv_lengths.clear(); });
    add("padding.side", "uses the last keys of each batch item as the valid ones",
        "put the padding after the keys: the first kv_lengths keys are valid", pad_left);
  }
  return list.take();
}

} // namespace

const Theme mask_theme{"mask", "mask.missing mask.inverted padding.side", mask_changes};

} // namespace mha
