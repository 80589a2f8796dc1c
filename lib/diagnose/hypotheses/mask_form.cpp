// Other forms of a mask: another constant, added as 0 and 1, applied after the softmax, transposed,
// inverted or of another batch item; and other treatments of fully masked rows.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/hypotheses/written_out.hpp>
#include <mha/forward/mask.hpp>

#include <cmath>
#include <functional>
#include <limits>

namespace mha {

namespace {

bool masks_anything(const Layer& layer) {
  const Settings& s = layer.settings;
  return s.causal || s.window_left >= 0 || s.window_right >= 0 || !layer.added.empty() ||
         !layer.blocked.empty() || !layer.kv_lengths.empty();
}

/// The map with f(biased, hidden, masked) at every element.
Tensor remasked(const Layer& layer, const std::function<double(double, bool, double)>& f) {
  Layer before = layer;
  clear_given(before, {Stage::masked});
  const std::vector<Tensor> values =
      values_of(before, {step_for(before, Stage::biased), Stage::masked});
  Tensor result = Tensor::uninitialised(values[1].dtype(), values[1].shape());
  by_precision(result.dtype(), [&]<class T>(T) {
    const auto biased = values[0].as<T>(), masked = values[1].as<T>();
    const auto to = result.as_mutable<T>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const double score = static_cast<double>(biased[i]), now = static_cast<double>(masked[i]);
      const bool hidden = now - score <= -1e3 || std::isinf(now);
      to[i] = static_cast<T>(f(score, hidden, now));
    }
  });
  return result;
}

/// Whether some query is fully masked.
bool has_masked_rows(const Layer& layer) {
  if (layer.added.empty() && layer.blocked.empty() && layer.kv_lengths.empty()) return false;
  const Dims& d = layer.dims;
  for (std::size_t b = 0; b < d.B; ++b)
    for (std::size_t h = 0; h < d.H; ++h)
      for (std::size_t t = 0; t < d.T; ++t)
        if (by_precision(layer.dtype, [&]<class T>(T) {
              return masks_every_key<T>(layer, {b, h, t});
            }))
          return true;
  return false;
}

/// Whether a float mask has numbers that weigh keys, not only those that hide or show them.
bool adds_numbers(const Tensor& mask) {
  for (std::size_t i = 0; i < mask.count(); ++i)
    if (const double a = value_at(mask, i); a != 0 && a > -1e3 && std::isfinite(a)) return true;
  return false;
}

class MaskForms {
public:
  explicit MaskForms(const Layer& layer) : layer_(layer), rows_(has_masked_rows(layer)) {}

  std::vector<Change> changes() {
    if (!masks_anything(layer_)) return {};
    add_rows(), add_constants(), add_others(), add_tensors();
    list_.all_rare();
    return list_.take();
  }

private:
  using Formula = std::function<double(double score, bool hidden, double masked)>;
  void add(const char* id, std::string did, std::string cure, const Formula& f) {
    list_.add_rows(id, StageSet{Stage::masked}, std::move(did), std::move(cure),
                   [f](Layer& edited) { give(edited, Stage::masked, remasked(edited, f)); });
  }

  /// NaN is also tried if this layer has no fully masked rows, because the reference's mask may
  /// have some.
  void add_rows() {
    struct Policy {
      MaskedRows rows;
      const char *word, *text;
    };
    for (const Policy& policy : {Policy{MaskedRows::uniform, "uniform", "averages all values"},
                                 {MaskedRows::zero, "zero", "gives zeros"},
                                 {MaskedRows::nan, "nan", "gives NaN"}})
      if (policy.rows != layer_.settings.masked_rows && (rows_ || policy.rows == MaskedRows::nan))
        list_.add_settings("masked_rows", StageSet{Stage::weights},
                           fmt::format("{} where a query has no key to attend to", policy.text),
                           "treat queries without a key to attend to as this layer does",
                           {{"masked_rows", policy.word}});
  }

  void add_constants() {
    const std::string cure = "let masked scores be −∞ before the softmax";
    for (double constant : {0.0, -1e-9, -1e-4, -1.0, -5.0, -10.0, -100.0, -1e3, -1e4, -1e9}) {
      if (constant <= -100 && !rows_ && constant != -100) continue;
      add("mask.constant", fmt::format("puts {:g} where a query may not attend", constant), cure,
          [constant](double score, bool hidden, double) { return hidden ? constant : score; });
      if (constant != 0)
        add("mask.constant", fmt::format("adds {:g} where a query may not attend", constant), cure,
            [constant](double score, bool hidden, double) {
              return hidden ? score + constant : score;
            });
    }
    add("mask.added", "adds the mask as 0 and 1: 1 where a query may attend",
        "turn the mask into 0 and −∞ before it is added",
        [](double score, bool hidden, double) { return hidden ? score : score + 1; });
    add("mask.added", "adds the mask as 0 and 1: 1 where a query may not attend",
        "turn the mask into 0 and −∞ before it is added",
        [](double score, bool hidden, double) { return hidden ? score + 1 : score; });
  }

  void add_others() {
    list_.add_rows("mask.after_softmax", StageSet{Stage::masked, Stage::weights},
                   "applies the mask to the weights, after the softmax: their rows no longer sum "
                   "to 1",
                   "apply the mask before the softmax", [](Layer& edited) {
                     const Tensor masked = remasked(
                         edited, [](double, bool hidden, double) { return hidden ? 0.0 : 1.0; });
                     Layer plain = edited;
                     give(plain, Stage::masked,
                          remasked(edited, [](double score, bool, double) { return score; }));
                     clear_given(plain, {Stage::row_max, Stage::shifted, Stage::exp, Stage::row_sum,
                                         Stage::logsumexp, Stage::weights});
                     Tensor weights = copied(value_of(plain, Stage::weights));
                     by_precision(weights.dtype(), [&]<class T>(T) {
                       const auto keep = masked.as<T>();
                       const auto to = weights.as_mutable<T>();
                       for (std::size_t i = 0; i < to.size(); ++i) to[i] *= keep[i];
                     });
                     give(edited, Stage::masked, plain.given[index_of(Stage::masked)]);
                     give(edited, Stage::weights, std::move(weights));
                   });
    if (layer_.settings.causal && layer_.dims.T > 1)
      list_.add("causal.inverted", StageSet{Stage::masked},
                "lets a query see later keys only: the mask's meaning is inverted",
                "let a query attend to its own and earlier keys: key ≤ query", hide_earlier_keys);
    if (layer_.settings.causal && layer_.dims.T == layer_.dims.S_all && layer_.dims.T > 1)
      list_.add_settings("causal.inverted", StageSet{Stage::masked},
                         "lets a query see its own key and later ones only (triu for tril)",
                         "let a query attend to its own and earlier keys: key ≤ query",
                         {{"causal", false}, {"window_left", 0}});
  }

  /// Hides the keys that the causal mask shows, and shows the others.
  static void hide_earlier_keys(Layer& layer) {
    write_mask(layer, "causal", layer.dims.B, [&](std::size_t b, std::size_t t, std::size_t j) {
      return static_cast<std::ptrdiff_t>(j) <= layer.query_position(b, t);
    });
    layer.settings.causal = false;
  }

  /// Changes of masks given as tensors.
  void add_tensors() {
    for (const auto& kind : {&Layer::added, &Layer::blocked})
      for (std::size_t i = 0; i < (layer_.*kind).size(); ++i) add_tensor(kind, i);
  }

  void add_edit(const char* id, std::string did, std::string cure,
                std::vector<Broadcast> Layer::*kind, std::size_t i,
                const std::function<void(const Layer&, Broadcast&)>& edit) {
    list_.add(id, StageSet{Stage::masked}, std::move(did), std::move(cure),
              [kind, i, edit](Layer& edited) {
                if (i < (edited.*kind).size()) edit(edited, (edited.*kind)[i]);
              });
  }

  void add_tensor(std::vector<Broadcast> Layer::*kind, std::size_t i) {
    const Broadcast& mask = (layer_.*kind)[i];
    const Dims& d = layer_.dims;
    const std::string name = mask.origin.substr(mask.origin.rfind(' ') + 1);
    const bool by_query = mask.strides[2] != 0 && d.T > 1, by_key = mask.strides[3] != 0;
    if (by_query && by_key && mask.keys == d.T)
      add_edit("mask.transposed", fmt::format("reads {} with queries and keys exchanged", name),
               fmt::format("let the rows of {} be queries and its columns keys", name), kind, i,
               [](const Layer&, Broadcast& one) { std::swap(one.strides[2], one.strides[3]); });
    if (!by_query && by_key && d.T > 1 && mask.keys == d.T)
      add_edit("mask.axis", fmt::format("applies {} to queries instead of keys", name),
               fmt::format("apply {} along the keys: (B, 1, 1, S)", name), kind, i,
               [](const Layer&, Broadcast& one) { std::swap(one.strides[2], one.strides[3]); });
    if (!by_query && by_key && mask.keys == d.T && mask.tensor.dtype() == DType::boolean)
      add_edit(
          "mask.axis", fmt::format("lets tokens see tokens and padding see padding by {}", name),
          fmt::format("hide the keys that {} names from every query", name), kind, i, see_alike);
    if (kind == &Layer::added && layer_.scale() != 1 && adds_numbers(mask.tensor))
      add_edit("mask.scaled", fmt::format("adds {0} before the scale: (q kᵀ + {0}) · scale", name),
               fmt::format("multiply q kᵀ by the scale first, then add {}", name), kind, i,
               [](const Layer& layer, Broadcast& one) {
                 one.tensor = each_number(one.tensor, [&](double a) { return a * layer.scale(); });
               });
    if (mask.strides[0] == 0 || d.B < 2) return;
    add_edit("mask.batch", fmt::format("applies the first batch item's {} to all", name),
             fmt::format("apply each batch item's own {}", name), kind, i,
             [](const Layer&, Broadcast& one) { one.strides[0] = 0; });
    add_edit(
        "mask.batch",
        fmt::format("repeats {} over the heads so that head h of item b gets the mask of item "
                    "(b · H + h) mod B",
                    name),
        fmt::format("repeat each item's {} for its own heads (repeat_interleave, not tile)", name),
        kind, i, tile_over_heads);
    add_edit("mask.batch",
             fmt::format("repeats {} over the heads with the heads first, where the batch is first",
                         name),
             fmt::format("repeat each item's {} for its own heads", name), kind, i,
             repeat_heads_first);
    add_edit("mask.batch", fmt::format("applies the {} of the batch item before", name),
             fmt::format("apply each batch item's own {}", name), kind, i,
             [](const Layer& layer, Broadcast& one) {
               write_heads(layer, one, [&](std::size_t b, std::size_t h) {
                 return std::pair((b + layer.dims.B - 1) % layer.dims.B, h);
               });
             });
  }

  /// Repeats the mask with heads first in memory, which is then read as batch first.
  static void repeat_heads_first(const Layer& layer, Broadcast& mask) {
    write_heads(layer, mask, [&](std::size_t b, std::size_t h) {
      return std::pair((h * layer.dims.B + b) / layer.dims.H, h);
    });
  }

  /// Hides a key where exactly one of the query and the key is padding.
  static void see_alike(const Layer& layer, Broadcast& mask) {
    const Dims& d = layer.dims;
    const Broadcast from = mask;
    mask.tensor = Tensor(DType::boolean, {d.B, 1, d.T, from.keys});
    mask.strides = broadcast_strides(mask.tensor.shape());
    auto* to = mask.tensor.as_mutable<std::uint8_t>().data();
    for (std::size_t b = 0; b < d.B; ++b) {
      const std::uint8_t* padding = from.row<std::uint8_t>(b, 0, 0);
      for (std::size_t t = 0; t < d.T; ++t)
        for (std::size_t j = 0; j < from.keys; ++j)
          *to++ = padding[t * from.strides[3]] != padding[j * from.strides[3]] ? 1 : 0;
    }
  }

  static void tile_over_heads(const Layer& layer, Broadcast& mask) {
    write_heads(layer, mask, [&](std::size_t b, std::size_t h) {
      return std::pair((b * layer.dims.H + h) % layer.dims.B, h);
    });
  }

  const Layer& layer_;
  bool rows_;
  ChangeList list_;
};

} // namespace

const Theme mask_form_theme{
    "mask_form",
    "masked_rows mask.constant mask.added mask.after_softmax mask.scaled causal.inverted "
    "mask.transposed mask.axis mask.batch",
    [](const Subject& subject) { return MaskForms(subject.layer).changes(); }};

} // namespace mha
