// Attention as an operator: com.microsoft's (ONNX Runtime's contrib operators) and opset 23's.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

#include <mha/formats/onnx_operators.hpp>

#include <mha/maths/functions.hpp>

#include <fmt/format.h>

namespace mha::io {

namespace {

/// Reads an operator's inputs as queries, keys and values.
class OperatorReader : private OnnxOperatorInputs {
public:
  using OnnxOperatorInputs::OnnxOperatorInputs;

  OnnxFinding read() {
    why_ = onnx_unread_part(flow_, step_);
    if (!why_.empty()) return OnnxRefusal{site_.step, why_};
    const bool contrib = step_.node->domain == "com.microsoft";
    bool found = false;
    if (contrib && step_.is("Attention")) found = fused();
    if (contrib && step_.is("MultiHeadAttention")) found = multi_head();
    if (contrib && step_.is("GroupQueryAttention")) found = grouped();
    if (!contrib && step_.is("Attention")) found = standard();
    if (found && step_.outputs.empty()) found = because("it has no output");
    if (!found && why_.empty())
      why_ = "the lengths of its inputs are not known, or are not those of its heads";
    if (!found || !why_.empty()) return OnnxRefusal{site_.step, why_};
    finish();
    return site_;
  }

private:
  const OnnxDims* shape(std::size_t place) const {
    const auto& found = flow_.shape(step_.input(place));
    return found ? &*found : nullptr;
  }

  /// Elements (0, t, l · width + first + d) of a value of three axes.
  auto packed(int value, std::int64_t width, std::int64_t first, std::int64_t shared = 1) const {
    const std::int64_t row = (*flow_.shape(value))[2];
    return [value, width, first, shared, row, &flow = flow_](std::int64_t l, std::int64_t t,
                                                             std::int64_t d) {
      return flow.form(value, t * row + l / shared * width + first + d);
    };
  }
  /// Elements (0, l, t, d) of a value of four axes.
  auto by_head(int value, std::int64_t shared = 1) const {
    const OnnxDims& axes = *flow_.shape(value);
    return [value, shared, T = axes[2], D = axes[3], &flow = flow_](std::int64_t l, std::int64_t t,
                                                                    std::int64_t d) {
      return flow.form(value, (l / shared * T + t) * D + d);
    };
  }

  bool set_sizes(std::int64_t heads, std::int64_t T, std::int64_t S, std::int64_t d_k,
                 std::int64_t d_v) {
    site_.groups = heads, site_.T = T, site_.S = S, site_.d_k = d_k, site_.d_v = d_v;
    constexpr std::int64_t most = 1 << 16;
    if (T > most || S > most)
      return because(fmt::format("its input is declared for more than {} positions: export the "
                                 "model with a name in place of that length",
                                 most));
    return heads > 0 && T > 0 && S > 0 && d_k > 0 && d_v > 0;
  }

  /// Reads the scale; it is 1 / √d_k if the attribute is missing or 0.
  void take_scale() {
    const double scale = step_.number("scale").value_or(0);
    site_.default_scale = scale == 0;
    if (scale != 0) site_.scale = scale;
  }

  /// Attention (input, weights, bias, mask_index, past, attention_bias).
  bool fused() {
    const OnnxDims *x = shape(0), *weight = shape(1);
    const std::int64_t heads = step_.integer("num_heads", 0);
    if (!weight || weight->size() != 2 || heads < 1) return false;
    OnnxDims widths = step_.integers("qkv_hidden_sizes");
    if (widths.empty()) widths = OnnxDims(3, (*weight)[1] / 3);
    if (widths.size() != 3 || widths[0] != widths[1] || widths[0] % heads != 0 ||
        widths[2] % heads != 0 || widths[0] + widths[1] + widths[2] != (*weight)[1])
      return false;
    const std::int64_t T = x && x->size() == 3 ? (*x)[1] : flow_.length;
    if (!set_sizes(heads, T, T, widths[0] / heads, widths[2] / heads)) return false;
    // OnnxProjections added the product as the last value of this step.
    int product = -1;
    for (std::size_t i = flow_.values.size(); i-- > 0 && product < 0;)
      if (flow_.values[i].step == site_.step && flow_.values[i].name.empty())
        product = static_cast<int>(i);
    if (product < 0) return false;
    site_.q = packed(product, site_.d_k, 0);
    site_.k = packed(product, site_.d_k, widths[0]);
    site_.v = packed(product, site_.d_v, widths[0] + widths[1]);
    site_.causal = step_.integer("unidirectional", 0) != 0;
    if (step_.integer("do_rotary", 0) != 0) {
      const std::int64_t dims = step_.integer("rotary_embedding_dim", 0);
      site_.q = rotated(site_.q, dims > 0 ? dims : site_.d_k);
      site_.k = rotated(site_.k, dims > 0 ? dims : site_.d_k);
    }
    if (step_.input(2) >= 0 && !flow_.has_tensor(step_.input(2)))
      return because("its input bias is made while the model runs");
    take_scale();
    take_mask(5);
    return take_key_mask(3, "mask_index");
  }

  using Elements = std::function<OnnxForm(std::int64_t, std::int64_t, std::int64_t)>;

  /// Applies the operator's own rotation: halves, base 10000.
  Elements rotated(const Elements& of, std::int64_t dims) const {
    return turned(of, dims, false, [dims](std::int64_t t, std::int64_t pair) {
      const double angle =
          static_cast<double>(t) *
          maths::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(dims));
      const auto [sine, cosine] = maths::sin_cos(angle);
      return std::pair(cosine, sine);
    });
  }

  template <class F>
  static Elements turned(const Elements& of, std::int64_t dims, bool neighbours, F angles) {
    return [=](std::int64_t l, std::int64_t t, std::int64_t d) {
      if (d >= dims) return of(l, t, d);
      const std::int64_t pair = neighbours ? d / 2 : d % (dims / 2);
      const bool first = neighbours ? d % 2 == 0 : d < dims / 2;
      const auto [cosine, sine] = angles(t, pair);
      OnnxForm sum;
      const auto add = [&](const OnnxForm& form, double factor) {
        for (OnnxForm::Term term : form.terms)
          if (term.factor *= factor; term.factor != 0) sum.terms.push_back(term);
        sum.number += form.number * factor;
      };
      add(of(l, t, d), cosine);
      add(of(l, t, d + (first ? 1 : -1) * (neighbours ? 1 : dims / 2)), first ? -sine : sine);
      return sum;
    };
  }

  /// MultiHeadAttention (query, key, value, bias, key_padding_mask, attention_bias, past…).
  bool multi_head() {
    const OnnxDims *query = shape(0), *key = shape(1), *value = shape(2);
    const std::int64_t heads = step_.integer("num_heads", 0);
    if (!query || heads < 1 || query->size() < 3) return false;
    if (query->size() == 5) { // B, T, H, 3, D
      const std::int64_t D = (*query)[4], row = heads * 3 * D;
      if (!set_sizes(heads, (*query)[1], (*query)[1], D, D)) return false;
      const auto part = [&](std::int64_t which) {
        return [=, from = step_.inputs[0], &flow = flow_](std::int64_t l, std::int64_t t,
                                                          std::int64_t d) {
          return flow.form(from, t * row + (l * 3 + which) * D + d);
        };
      };
      site_.q = part(0), site_.k = part(1), site_.v = part(2);
    } else {
      if (query->size() != 3 || !key || (*query)[2] % heads != 0) return false;
      const std::int64_t D = (*query)[2] / heads;
      site_.q = packed(step_.inputs[0], D, 0);
      if (key->size() == 5) { // B, S, H, 2, D
        if (!set_sizes(heads, (*query)[1], (*key)[1], D, D)) return false;
        const auto part = [&](std::int64_t which) {
          return [=, from = step_.inputs[1], &flow = flow_](std::int64_t l, std::int64_t t,
                                                            std::int64_t d) {
            return flow.form(from, t * heads * 2 * D + (l * 2 + which) * D + d);
          };
        };
        site_.k = part(0), site_.v = part(1);
      } else {
        if (!value || !set_operand(site_.k, 1, *key, heads, D)) return false;
        const std::int64_t d_v = value->size() == 4   ? (*value)[3]
                                 : value->size() == 3 ? (*value)[2] / heads
                                                      : 0;
        if (!set_operand(site_.v, 2, *value, heads, d_v)) return false;
        if (!set_sizes(heads, (*query)[1], (*key)[key->size() == 4 ? 2 : 1], D, d_v)) return false;
      }
    }
    if (!add_bias(heads)) return because("its input bias is made while the model runs");
    site_.causal = step_.integer("unidirectional", 0) != 0;
    take_scale();
    take_mask(5);
    return take_key_mask(4, "key_padding_mask");
  }

  bool set_operand(Elements& elements, std::size_t place, const OnnxDims& axes, std::int64_t heads,
                   std::int64_t width) const {
    if (axes.size() == 4 && axes[1] == heads)
      elements = by_head(step_.inputs[place]);
    else if (axes.size() == 3 && axes[2] == heads * width)
      elements = packed(step_.inputs[place], width, 0);
    return elements != nullptr;
  }

  /// Adds the biases of queries, keys and values, which are stored one after the other.
  bool add_bias(std::int64_t heads) {
    const int bias = step_.input(3);
    if (bias < 0) return true;
    if (!flow_.has_tensor(bias)) return false;
    const auto with = [&](const Elements& of, std::int64_t first, std::int64_t width) {
      return [=, &flow = flow_](std::int64_t l, std::int64_t t, std::int64_t d) {
        OnnxForm form = of(l, t, d);
        form.number += flow.number(bias, first + l * width + d).value_or(0);
        return form;
      };
    };
    site_.q = with(site_.q, 0, site_.d_k);
    site_.k = with(site_.k, heads * site_.d_k, site_.d_k);
    site_.v = with(site_.v, 2 * heads * site_.d_k, site_.d_v);
    return true;
  }

  /// GroupQueryAttention (query, key, value, past_key, past_value, seqlens_k,
  /// total_sequence_length, cos_cache, sin_cache, position_ids, attention_bias, head_sink).
  bool grouped() {
    const OnnxDims* query = shape(0);
    const std::int64_t heads = step_.integer("num_heads", 0),
                       key_heads = step_.integer("kv_num_heads", 0);
    if (!query || query->size() != 3 || heads < 1 || key_heads < 1 || heads % key_heads != 0)
      return false;
    const std::int64_t shared = heads / key_heads, T = (*query)[1];
    const bool together = step_.input(1) < 0;
    const std::int64_t all = together ? heads + 2 * key_heads : heads;
    if ((*query)[2] % all != 0 || !set_sizes(heads, T, T, (*query)[2] / all, (*query)[2] / all))
      return false;
    const std::int64_t D = site_.d_k;
    site_.q = packed(step_.inputs[0], D, 0);
    if (together) {
      site_.k = packed(step_.inputs[0], D, heads * D, shared);
      site_.v = packed(step_.inputs[0], D, (heads + key_heads) * D, shared);
    } else {
      for (const std::size_t place : {std::size_t{1}, std::size_t{2}})
        if (!shape(place) || shape(place)->size() != 3 || (*shape(place))[2] != key_heads * D)
          return false;
      site_.k = packed(step_.inputs[1], D, 0, shared);
      site_.v = packed(step_.inputs[2], D, 0, shared);
    }
    if (step_.integer("do_rotary", 0) != 0 && !rotate_by_cache()) return false;
    site_.causal = step_.integer("causal", 1) != 0;
    site_.softcap = step_.number("softcap").value_or(0);
    // local_window_size includes the query's own key.
    if (const std::int64_t window = step_.integer("local_window_size", -1); window > 0)
      site_.window = window - 1;
    take_scale();
    take_mask(10);
    return is_length(5, T - 1, "seqlens_k") && is_length(6, T, "total_sequence_length") &&
           counts_positions(9) && take_sinks(heads);
  }

  bool rotate_by_cache() {
    const int cosines = step_.input(7), sines = step_.input(8);
    if (!flow_.is_fixed(cosines) || !flow_.is_fixed(sines) || !shape(7) || shape(7)->size() != 2)
      return false;
    const std::int64_t half = (*shape(7))[1];
    if (half < 1 || half * 2 > site_.d_k) return false;
    const auto angles = [half, cosines, sines, &flow = flow_](std::int64_t t, std::int64_t pair) {
      return std::pair(flow.number(cosines, t * half + pair).value_or(NAN),
                       flow.number(sines, t * half + pair).value_or(NAN));
    };
    const bool neighbours = step_.integer("rotary_interleaved", 0) != 0;
    site_.q = turned(site_.q, half * 2, neighbours, angles);
    site_.k = turned(site_.k, half * 2, neighbours, angles);
    return true;
  }

  /// Attention (Q, K, V, attn_mask, past_key, past_value) of opset 23.
  bool standard() {
    const OnnxDims *query = shape(0), *key = shape(1), *value = shape(2);
    if (!query || !key || !value || query->size() != key->size() || key->size() != value->size())
      return false;
    if (query->size() == 4) {
      const std::int64_t heads = (*query)[1], key_heads = (*key)[1];
      if (key_heads < 1 || heads % key_heads != 0 || (*query)[3] != (*key)[3] ||
          !set_sizes(heads, (*query)[2], (*key)[2], (*query)[3], (*value)[3]))
        return false;
      site_.q = by_head(step_.inputs[0]);
      site_.k = by_head(step_.inputs[1], heads / key_heads);
      site_.v = by_head(step_.inputs[2], heads / key_heads);
      four_axes_ = true;
    } else {
      const std::int64_t heads = step_.integer("q_num_heads", 0),
                         key_heads = step_.integer("kv_num_heads", 0);
      if (query->size() != 3 || heads < 1 || key_heads < 1 || heads % key_heads != 0 ||
          !set_sizes(heads, (*query)[1], (*key)[1], (*query)[2] / heads, (*value)[2] / key_heads) ||
          (*key)[2] != key_heads * site_.d_k)
        return false;
      site_.q = packed(step_.inputs[0], site_.d_k, 0);
      site_.k = packed(step_.inputs[1], site_.d_k, 0, heads / key_heads);
      site_.v = packed(step_.inputs[2], site_.d_v, 0, heads / key_heads);
    }
    site_.causal = step_.integer("is_causal", 0) != 0;
    site_.softcap = step_.number("softcap").value_or(0);
    site_.window = step_.integer("left_window_size", -1);
    site_.window_right = step_.integer("right_window_size", -1);
    if (const std::int64_t type = step_.integer("softmax_precision", 1); type == 10 || type == 16)
      return because("its attribute softmax_precision rounds its softmax to fewer bits");
    take_scale();
    take_mask(3);
    return is_length(6, site_.S, "nonpad_kv_seqlen");
  }

  void finish() {
    site_.head_out = step_.outputs[0];
    site_.q_value = step_.input(0);
    site_.k_value = step_.input(1) < 0 ? step_.input(0) : step_.input(1);
    site_.v_value = step_.input(2) < 0 ? site_.k_value : step_.input(2);
    const std::int64_t heads = site_.groups, d = site_.d_v, T = site_.T;
    if (four_axes_)
      site_.head_out_place = [=](std::int64_t flat) {
        return std::array{flat / (T * d) % heads, flat / d % T, flat % d};
      };
    else
      site_.head_out_place = [=](std::int64_t flat) {
        return std::array{flat / d % heads, flat / (heads * d) % T, flat % d};
      };
  }

  bool four_axes_ = false;
};

} // namespace

std::optional<OnnxFinding> attention_operator(const OnnxFlow& flow, int step) {
  if (!is_attention_operator(flow.steps[static_cast<std::size_t>(step)])) return std::nullopt;
  return OperatorReader(flow, step).read();
}

} // namespace mha::io
