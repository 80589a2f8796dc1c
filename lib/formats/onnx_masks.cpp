// Reads a graph's masks and biases as settings or a tensor.

#include <mha/formats/onnx_layers.hpp>
#include <mha/formats/onnx_proof.hpp>

#include <mha/files/text.hpp>
#include <mha/maths/functions.hpp>
#include <mha/system/parse.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha::io {

namespace {

/// Graphs mask scores with −10000, the least number of the type, or −∞.
constexpr double masked_below = -1000;
constexpr std::int64_t few_rows = 64; ///< of more rows only some are checked

bool is_close(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-6 * (1 + std::abs(b));
}

struct Visible {
  bool irregular = false, varies = false;
  bool causal = true;
  std::int64_t left = -1, right = -1;
};

/// The keys that the rows of one head see; nothing if an added number is not known.
std::optional<Visible> visible_keys_of(const OnnxAttentionSite& site, std::int64_t l) {
  Visible seen;
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < site.T; ++t)
    if (site.T <= few_rows || t < 2 || t % (site.T / 16) == t / (site.T / 16) || t + 1 == site.T)
      rows.push_back(t);
  const std::int64_t offset = site.S - site.T;
  for (const std::int64_t t : rows) {
    std::int64_t first = -1, last = -1;
    std::optional<double> level;
    std::int64_t count = 0;
    for (std::int64_t s = 0; s < site.S; ++s) {
      const auto added = site.added(l, t, s);
      if (!added) return std::nullopt;
      if (*added < masked_below) continue;
      if (first < 0) first = s;
      last = s, ++count;
      if (!level) level = added;
      seen.varies |= !is_close(*added, *level);
    }
    if (count == 0 || count != last - first + 1) {
      seen.irregular = true;
      continue;
    }
    const std::int64_t own = t + offset;
    seen.causal &= last == std::min(own, site.S - 1);
    if (first > 0) seen.left = std::max(seen.left, own - first);
    if (last + 1 < site.S) seen.right = std::max(seen.right, last - own);
  }
  // Each row must match the window.
  for (const std::int64_t t : rows) {
    const std::int64_t own = t + offset;
    for (std::int64_t s = 0; s < site.S && !seen.irregular; ++s) {
      const bool visible =
          (seen.left < 0 || s >= own - seen.left) && (seen.right < 0 || s <= own + seen.right);
      seen.irregular |= visible != (site.added(l, t, s).value_or(0) >= masked_below);
    }
  }
  return seen;
}

/// Whether `expected` accepts the number that is added for every head, query and key.
template <class Expected> bool adds_everywhere(const OnnxAttentionSite& site,
                                               const std::vector<std::int64_t>& heads,
                                               Expected expected) {
  const OnnxDims lengths{static_cast<std::int64_t>(heads.size()), site.T, site.S};
  const auto as_expected = [&](const OnnxPlaces& at) {
    const auto added = site.added(heads[static_cast<std::size_t>(at[0])], at[1], at[2]);
    return added && expected(at[0], at[1], at[2], *added);
  };
  return onnx_holds_at_places(lengths, as_expected) &&
         onnx_holds_at_more_places(lengths, as_expected);
}

/// ALiBi's slope, for a number of heads that is a power of two.
double slope_of(std::size_t head, std::size_t heads) {
  return maths::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(heads));
}

/// Whether head h's bias is slope · (key − query), as in ALiBi, up to a number for each row, which
/// changes no weight.
bool is_alibi(const OnnxAttentionSite& site, const std::vector<std::int64_t>& heads) {
  const std::size_t H = heads.size();
  if (H == 0 || (H & (H - 1)) != 0 || site.S < 3 || site.T != site.S) return false;
  return adds_everywhere(
      site, heads, [&](std::int64_t h, std::int64_t t, std::int64_t s, double added) {
        if (added < masked_below) return true;
        const double slope = slope_of(static_cast<std::size_t>(h), H);
        const auto own = site.added(heads[static_cast<std::size_t>(h)], t, t);
        const double expected = slope * static_cast<double>(s - t);
        return own && std::abs(added - *own - expected) <= 1e-4 * (1 + std::abs(expected));
      });
}

/// Adds the fixed tensor that is added to the scores, as (heads or 1, T, S), if nothing else is
/// added.
bool add_bias_tensor(const std::shared_ptr<const OnnxFlow>& flow, const OnnxAttentionSite& site,
                     const std::vector<std::int64_t>& heads, OnnxLayer& layer) {
  const auto& axes = flow->shape(site.added_value);
  const bool fits = axes && axes->size() >= 2 && axes->back() == site.S &&
                    (axes->end()[-2] == site.T || axes->end()[-2] == 1);
  const bool whole =
      fits &&
      (axes->size() == 2 || onnx_count(*axes) == axes->end()[-3] * axes->end()[-2] * axes->back());
  if (!whole || !flow->has_tensor(site.added_value)) return false;
  const std::size_t count = axes->size() == 2 ? 1 : static_cast<std::size_t>(axes->end()[-3]);
  const bool truth = onnx_weight_dtype(*flow, site.added_value) == DType::boolean;
  const auto is_of_tensor = [&](std::int64_t h, std::int64_t t, std::int64_t s, double added) {
    const OnnxDims own{count == 1 ? 0 : h, axes->end()[-2] == 1 ? 0 : t, s};
    const auto number =
        flow->number(site.added_value, (own[0] * axes->end()[-2] + own[1]) * axes->back() + own[2]);
    if (!number) return false;
    return truth ? (*number != 0) == (added >= masked_below) : is_close(*number, added);
  };
  if ((count != 1 && count != heads.size()) || !adds_everywhere(site, heads, is_of_tensor))
    return false;
  Entry entry;
  entry.name = truth ? "mask" : "bias";
  entry.dtype = onnx_weight_dtype(*flow, site.added_value);
  entry.shape = {count, static_cast<std::size_t>(axes->end()[-2]),
                 static_cast<std::size_t>(axes->back())};
  entry.read = [flow, value = site.added_value, shape = entry.shape] {
    return flow->tensor(value).reshaped(shape);
  };
  layer.tensors.push_back(std::move(entry));
  return true;
}

void need_bias(const std::string& steps, OnnxLayer& layer) {
  layer.needs =
      Message("what " + steps + " adds to the scores") +
      message(" is neither a mask of rows, nor ALiBi, nor a table by distance, nor a tensor "
              "of the graph: give <bias=FILE>, with (H, T, S) numbers for your T and S");
}

} // namespace

namespace {

/// Whether the last position of a padded text is hidden from all positions, or is treated like the
/// one before it. Anything else is not a padding mask.
bool hides_padding(const OnnxAttentionSite& site, const std::vector<std::int64_t>& heads) {
  const std::int64_t last = site.T - 1;
  if (last < 1 || site.S < site.T) return true;
  bool hides = true, ignores = true;
  for (const std::int64_t l : {heads.front(), heads.back()}) {
    for (std::int64_t t = 0; t <= last; ++t) {
      const auto added = site.added(l, t, last);
      if (!added) return false;
      hides &= *added < masked_below;
    }
    const auto own = site.added(l, last, last), before = site.added(l, last - 1, last - 1);
    ignores &= own && before && is_close(*own, *before);
  }
  return hides || ignores;
}

bool has_mask_input(const OnnxFlow& flow) {
  return std::ranges::any_of(flow.values, [](const OnnxValue& value) {
    return value.is_input && value.fixed && value.name.find("mask") != value.name.npos;
  });
}

} // namespace

bool add_onnx_mask(const std::shared_ptr<const OnnxFlow>& flow, const OnnxAttentionSite& site,
                   const std::vector<std::int64_t>& heads, const std::string& steps,
                   OnnxLayer& layer) {
  if (flow->padded) return site.needs || !has_mask_input(*flow) || hides_padding(site, heads);
  const auto set = [&](const char* name, std::string value) {
    layer.settings.emplace_back(name, std::move(value));
  };
  layer.remarks.insert(layer.remarks.end(), site.remarks.begin(), site.remarks.end());
  layer.needs = site.needs;
  std::optional<Visible> seen = site.needs ? Visible{} : visible_keys_of(site, heads.front());
  if (!seen) return false;
  bool causal = site.causal;
  std::int64_t left = site.window, right = site.window_right;
  if (!site.needs) {
    const bool same = adds_everywhere(
        site, heads, [&](std::int64_t, std::int64_t t, std::int64_t s, double added) {
          const auto first = site.added(heads.front(), t, s);
          if (!first || (*first < masked_below) != (added < masked_below)) seen->irregular = true;
          return first && (added < masked_below || is_close(added, *first));
        });
    seen->varies |= !same;
  }
  if (seen->irregular) {
    if (!add_bias_tensor(flow, site, heads, layer)) need_bias(steps, layer);
  } else if (!site.needs) {
    if (seen->left >= 0) left = seen->left;
    const bool hides = seen->right >= 0 || (seen->causal && site.T == 1 && site.S == 1);
    if (seen->right == 0 && seen->causal)
      causal = true;
    else if (hides && seen->right > 0)
      right = seen->right;
    if (seen->varies) {
      if (is_alibi(site, heads))
        set("alibi", "true");
      else if (!add_onnx_relative_bias(flow, site, heads, layer) &&
               !add_bias_tensor(flow, site, heads, layer))
        need_bias(steps, layer);
    }
  }
  if (causal) set("causal", "true");
  if (left >= 0) set("window_left", std::to_string(left));
  if (right >= 0) set("window_right", std::to_string(right));
  return true;
}

namespace {

/// Compares the mask that a layer's settings describe with the site of a long input.
class FarMask {
public:
  FarMask(const OnnxAttentionSite& far, OnnxLayer& layer) : far_(far), layer_(layer) {
    causal_ = setting("causal") == "true", alibi_ = setting("alibi") == "true";
    left_ = number("window_left"), right_ = number("window_right");
  }

  bool holds() {
    for (const std::int64_t l : {layer_.heads.front(), layer_.heads.back()})
      for (const std::int64_t t : {far_.T - 1, far_.T / 2, far_.T / 3})
        if (find_ends(l, t); !holds_row(l, t)) return false;
    return true;
  }

private:
  std::string setting(std::string_view name) const {
    for (const auto& [one, value] : layer_.settings)
      if (one == name) return value;
    return "";
  }
  std::int64_t number(std::string_view name) const {
    const std::string text = setting(name);
    std::string_view rest = text;
    return take_number<std::int64_t>(rest).value_or(-1);
  }

  /// The number that the graph adds; an operator also hides keys by its attributes.
  std::optional<double> added(std::int64_t l, std::int64_t t, std::int64_t s) const {
    const bool hidden = (far_.causal && s > t) || (far_.window >= 0 && t - s > far_.window) ||
                        (far_.window_right >= 0 && s - t > far_.window_right);
    return hidden ? std::optional<double>(-INFINITY) : far_.added(l, t, s);
  }
  bool sees(std::int64_t l, std::int64_t t, std::int64_t s) const {
    return added(l, t, s).value_or(-INFINITY) >= masked_below;
  }

  /// The distances that are checked: all near ones, then at increasing gaps.
  static std::vector<std::int64_t> distances(std::int64_t most) {
    std::vector<std::int64_t> list;
    for (std::int64_t d = 0; d <= most; d = d < 8 ? d + 1 : d * 3 / 2) list.push_back(d);
    if (most >= 0 && list.back() != most) list.push_back(most);
    return list;
  }

  /// Finds the ends of a window that is longer than the short input.
  void find_ends(std::int64_t l, std::int64_t t) {
    if (left_ < 0) left_ = end_of(l, t, -1, t, "window_left");
    if (!causal_ && right_ < 0) right_ = end_of(l, t, 1, far_.S - 1 - t, "window_right");
  }
  std::int64_t end_of(std::int64_t l, std::int64_t t, std::int64_t step, std::int64_t most,
                      const char* name) {
    std::int64_t seen = -1, hidden = -1;
    for (const std::int64_t d : distances(most)) {
      if (sees(l, t, t + step * d))
        seen = d;
      else if (hidden < 0)
        hidden = d;
    }
    if (hidden < 0 || seen < 0 || seen > hidden) return -1;
    while (hidden - seen > 1) {
      const std::int64_t middle = (seen + hidden) / 2;
      (sees(l, t, t + step * middle) ? seen : hidden) = middle;
    }
    layer_.settings.emplace_back(name, std::to_string(seen));
    return seen;
  }

  bool holds_row(std::int64_t l, std::int64_t t) const {
    const auto own = added(l, t, t);
    if (!own) return false;
    std::vector<std::int64_t> keys;
    for (const std::int64_t d : distances(t)) keys.push_back(t - d);
    for (const std::int64_t d : distances(far_.S - 1 - t)) keys.push_back(t + d);
    for (const std::int64_t edge : {t - left_, t - left_ - 1, t + right_, t + right_ + 1})
      if (edge >= 0 && edge < far_.S) keys.push_back(edge);
    for (const std::int64_t s : keys) {
      const bool visible =
          !(causal_ && s > t) && (left_ < 0 || t - s <= left_) && (right_ < 0 || s - t <= right_);
      const auto number = added(l, t, s);
      if (!number || visible != (*number >= masked_below)) return false;
      if (visible && !holds_number(l, t, s, *number - *own)) return false;
    }
    return true;
  }

  bool holds_number(std::int64_t l, std::int64_t t, std::int64_t s, double number) const {
    const auto head = std::ranges::find(layer_.heads, l) - layer_.heads.begin();
    const double slope = alibi_ ? slope_of(static_cast<std::size_t>(head), layer_.heads.size()) : 0;
    const double expected = slope * static_cast<double>(s - t);
    return std::abs(number - expected) <= 1e-4 * (1 + std::abs(expected));
  }

  const OnnxAttentionSite& far_;
  OnnxLayer& layer_;
  bool causal_ = false, alibi_ = false;
  std::int64_t left_ = -1, right_ = -1;
};

} // namespace

bool holds_onnx_mask_far(const OnnxAttentionSite& far, OnnxLayer& layer) {
  const auto is_given = [](const Entry& entry) {
    return entry.name == "bias" || entry.name == "mask" || entry.name == "relative_bias";
  };
  // A tensor has only one length, and a table by distance has already been checked at long
  // distances.
  if (layer.needs || std::ranges::any_of(layer.tensors, is_given) || far.T != far.S) return true;
  return FarMask(far, layer).holds();
}

} // namespace mha::io
