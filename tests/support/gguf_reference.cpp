// llama.cpp's graphs over the tensors as they are in the file, in double precision. What the keys
// mean, and what stands where one is missing, is written from llama.cpp's readers, not from lib/.

#include "support/gguf_models.hpp"

#include <cmath>
#include <functional>
#include <numbers>
#include <stdexcept>

namespace mha::test {

namespace {

using reference::Array;

class GgufReference {
public:
  GgufReference(const GgufTraits& traits, const GgufFile& file) : traits_(traits), file_(file) {}

  Array logits(const std::vector<int>& ids) const {
    Array x = embedded(ids);
    for (std::size_t layer = 0; layer < GgufSizes::layers; ++layer) x = block(layer, x);
    if (traits_.block == "post") return x; // BERT's file has no head
    x = normed(x, "output_norm");
    if (traits_.has("headless")) return x;
    const bool own = file_.tensors.contains("output.weight");
    Array z = linear(x, own ? "output" : "token_embd");
    if (is("command-r cohere2")) scale(z, or_1(number("logit_scale", 0)));
    if (is("granite")) scale(z, 1 / or_1(number("logit_scale", 0)));
    if (const double factor = number("logit_scale", 0); is("minicpm"))
      scale(z, 1 / (factor == 0 ? GgufSizes::width / 256.0 : factor));
    const double cap = number("final_logit_softcapping", is("gemma2") ? 30 : 0);
    if (is("gemma2 gemma3") && cap > 0)
      for (double& number : z.values) number = cap * std::tanh(number / cap);
    return z;
  }

  /// Of the norm's result; before the residual is added.
  Array attention(std::size_t n, const Array& x) const {
    const reference::Layer layer = attention_of(n, x);
    const Array out = reference::compute(layer).at("output");
    Array y({x.shape[0], out.shape[2]});
    y.values = out.values;
    return y;
  }
  Array first_norm(std::size_t n, const Array& x) const {
    return traits_.block == "post" || traits_.block == "inside" ? x
                                                                : normed(x, blk(n) + "attn_norm");
  }

private:
  static double or_1(double factor) { return factor == 0 ? 1 : factor; }
  static void scale(Array& x, double factor) {
    for (double& number : x.values) number *= factor;
  }
  static Array sum(const Array& a, const Array& b) {
    Array c = a;
    for (std::size_t i = 0; i < c.values.size(); ++i) c.values[i] += b.values[i];
    return c;
  }
  static std::string blk(std::size_t n) { return "blk." + std::to_string(n) + "."; }
  bool is(std::string_view names) const {
    return GgufTraits{.name = "", .more = names}.has(traits_.name);
  }

  const GgufKeyValue* find(const std::string& key) const {
    const auto at = file_.keys.find(std::string(traits_.name) + "." + key);
    return at == file_.keys.end() ? nullptr : &at->second;
  }
  double number(const std::string& key, double otherwise) const {
    const GgufKeyValue* const value = find(key);
    if (!value) return otherwise;
    if (const auto* const whole = std::get_if<std::uint32_t>(value)) return *whole;
    if (const auto* const real = std::get_if<float>(value)) return static_cast<double>(*real);
    return otherwise;
  }
  bool flag(const std::string& key, bool otherwise) const {
    const GgufKeyValue* const value = find(key);
    return value && std::holds_alternative<bool>(*value) ? std::get<bool>(*value) : otherwise;
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    const GgufKeyValue* const value = find(key);
    return value && std::holds_alternative<std::string>(*value) ? std::get<std::string>(*value)
                                                                : otherwise;
  }
  std::size_t count(const std::string& key, double otherwise) const {
    return static_cast<std::size_t>(number(key, otherwise));
  }
  Array tensor(const std::string& name) const {
    const auto at = file_.tensors.find(name);
    return at == file_.tensors.end() ? Array() : at->second;
  }
  /// (in, out) of rows of the file.
  static Array in_out(const Array& rows, std::size_t first, std::size_t count) {
    Array w({rows.shape[1], count});
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < rows.shape[1]; ++j) w(j, i) = rows(first + i, j);
    return w;
  }
  static Array part(const Array& bias, std::size_t first, std::size_t count) {
    if (bias.empty()) return bias;
    Array b({count});
    for (std::size_t i = 0; i < count; ++i) b(i) = bias(first + i);
    return b;
  }

  Array linear(const Array& x, const std::string& name) const {
    const Array w = tensor(name + ".weight"), b = tensor(name + ".bias");
    Array y({x.shape[0], w.shape[0]});
    for (std::size_t t = 0; t < x.shape[0]; ++t)
      for (std::size_t i = 0; i < w.shape[0]; ++i) {
        y(t, i) = b.empty() ? 0 : b(i);
        for (std::size_t j = 0; j < x.shape[1]; ++j) y(t, i) += w(i, j) * x(t, j);
      }
    return y;
  }

  double eps() const {
    return number(traits_.norm == "rms" ? "attention.layer_norm_rms_epsilon"
                                        : "attention.layer_norm_epsilon",
                  0);
  }
  Array normed(const Array& x, const std::string& name) const {
    const Array w = tensor(name + ".weight"), b = tensor(name + ".bias");
    const std::size_t d = x.shape[1];
    Array y = x;
    for (std::size_t t = 0; t < x.shape[0]; ++t) {
      double mean = 0, square = 0;
      for (std::size_t i = 0; i < d; ++i) mean += x(t, i) / static_cast<double>(d);
      if (traits_.norm == "rms") mean = 0;
      for (std::size_t i = 0; i < d; ++i)
        square += (x(t, i) - mean) * (x(t, i) - mean) / static_cast<double>(d);
      for (std::size_t i = 0; i < d; ++i)
        y(t, i) = (x(t, i) - mean) / std::sqrt(square + eps()) * (w.empty() ? 1 : w(i)) +
                  (b.empty() ? 0 : b(i));
    }
    return y;
  }

  Array embedded(const std::vector<int>& ids) const {
    const Array tokens = tensor("token_embd.weight"), positions = tensor("position_embd.weight"),
                types = tensor("token_types.weight");
    const std::size_t d = tokens.shape[1];
    double factor = 1;
    if (is("gemma gemma2 gemma3")) factor = static_cast<float>(std::sqrt(static_cast<double>(d)));
    if (is("granite")) factor = or_1(number("embedding_scale", 0));
    if (is("minicpm")) factor = number("embedding_scale", 12);
    Array x({ids.size(), d});
    for (std::size_t t = 0; t < ids.size(); ++t)
      for (std::size_t i = 0; i < d; ++i)
        x(t, i) = tokens(static_cast<std::size_t>(ids[t]), i) * factor +
                  (positions.empty() ? 0 : positions(t, i)) + (types.empty() ? 0 : types(0u, i));
    return traits_.has("embedding_norm") ? normed(x, "token_embd_norm") : x;
  }

  /// Whether a layer has a window: of each group of `period` the last has none, 0: all have one.
  bool slides(std::size_t n) const {
    const std::size_t period =
        count("attention.sliding_window_pattern", is("gemma3")                  ? 6
                                                  : is("olmo2 cohere2 exaone4") ? 4
                                                                                : 2);
    const GgufKeyValue* const list = find("attention.sliding_window_pattern");
    if (list && std::holds_alternative<std::vector<bool>>(*list))
      return std::get<std::vector<bool>>(*list)[n];
    return period == 0 || n % period < period - 1;
  }
  std::size_t window_of_some() const {
    const bool largest = is("exaone4") && count("block_count", 0) == 64;
    return count("attention.sliding_window", is("gemma2") || largest ? 4096 : 0);
  }
  std::size_t window(std::size_t n) const {
    const std::size_t width = window_of_some();
    if (is("llama mistral3 phi3 starcoder2")) return width;
    return is("gemma2 gemma3 olmo2 gpt-oss cohere2 exaone4") && slides(n) ? width : 0;
  }

  void set_rotary(reference::Layer& layer, std::size_t n) const {
    if (traits_.rope.empty() || (is("granite") && !flag("rope.scaling.finetuned", true))) return;
    if (is("cohere2") && !slides(n)) return;
    if (is("exaone4") && window_of_some() && !slides(n)) return;
    layer.rope = traits_.rope == "halves" ? reference::Rope::half : reference::Rope::interleaved;
    layer.rope_dims = count("rope.dimension_count", static_cast<double>(layer.d_k));
    layer.rope_base = number("rope.freq_base", 10000);
    const bool own = is("gemma3") && window(n) > 0; // base, and no scaling
    if (own) layer.rope_base = number("rope.freq_base_swa", 10000);
    const std::string type = text("rope.scaling.type", "linear");
    double factor =
        number(find("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear", 0);
    if (factor == 0 || type == "none" || own || (is("olmo2") && window(n) > 0)) factor = 1;
    double attention = number("rope.scaling.attn_factor", 1);
    if (is("olmo2") && window(n) > 0) attention = 1;
    layer.rope_factor = factor, layer.rope_scaling = reference::Scaling::linear;
    if (const Array divisors = tensor("rope_freqs.weight"); !divisors.empty()) {
      layer.rope_scaling = reference::Scaling::longrope;
      layer.long_factor = layer.short_factor = divisors;
      scale(layer.long_factor, factor), scale(layer.short_factor, factor);
    } else if (type == "yarn" && factor != 1) {
      layer.rope_scaling = reference::Scaling::yarn;
      layer.rope_length =
          number("rope.scaling.original_context_length", number("context_length", 0));
      layer.beta_fast = number("rope.scaling.yarn_beta_fast", 32);
      layer.beta_slow = number("rope.scaling.yarn_beta_slow", 1);
      const auto g = [&](double m) { return 0.1 * m * std::log(factor) + 1; };
      const double log =
          is("mistral3 deepseek2") ? number("rope.scaling.yarn_log_multiplier", 0) : 0;
      attention *= is("deepseek2") && log != 0 ? 1 : g(1) / (log == 0 ? 1 : g(log));
      if (is("deepseek2")) layer.scale *= g(10 * log) * g(10 * log);
    }
    layer.attention_factor = attention;
  }

  void set_scale(reference::Layer& layer) const {
    layer.scale = 1 / std::sqrt(static_cast<double>(layer.d_k));
    const double said = number("attention.scale", 0);
    if (is("granite gemma2 gemma3") && said != 0) layer.scale = said;
    layer.temperature = is("mistral3 deepseek2") ? number("attention.temperature_scale", 0) : 0;
    layer.temperature_length =
        is("mistral3") ? number("rope.scaling.original_context_length", number("context_length", 0))
                       : number("attention.temperature_length", 0);
    if (is("gemma2")) layer.softcap = number("attn_logit_softcapping", 50);
    if (is("olmo mpt")) layer.clip = number("attention.clamp_kqv", 0);
    if (is("bloom")) layer.alibi = reference::Alibi::paper;
    if (is("mpt") && number("attention.max_alibi_bias", 0) > 0)
      layer.alibi = reference::Alibi::paper;
  }

  reference::Layer attention_of(std::size_t n, const Array& x) const {
    reference::Layer layer;
    layer.X = Array({1, x.shape[0], x.shape[1]});
    layer.X.values = x.values;
    layer.H = count("attention.head_count", 0);
    layer.H_kv = count("attention.head_count_kv", static_cast<double>(layer.H));
    const double width = number("embedding_length", 0) / static_cast<double>(layer.H);
    layer.d_k = count("attention.key_length", std::floor(width));
    layer.d_v = count("attention.value_length", std::floor(width));
    layer.causal = flag("attention.causal", true);
    if (const std::size_t W = window(n); W > 0)
      layer.window_left = static_cast<std::int64_t>(W) - 1;
    set_scale(layer);
    set_rotary(layer, n);
    const std::size_t q = layer.H * layer.d_k, k = layer.H_kv * layer.d_k,
                      v = layer.H_kv * layer.d_v;
    layer.W_o = in_out(tensor(blk(n) + "attn_output.weight"), 0, x.shape[1]);
    layer.b_o = tensor(blk(n) + "attn_output.bias");
    layer.sinks = tensor(blk(n) + "attn_sinks.weight");
    layer.q_norm_weight = tensor(blk(n) + "attn_q_norm.weight");
    layer.k_norm_weight = tensor(blk(n) + "attn_k_norm.weight");
    layer.qk_norm_eps = eps();
    if (traits_.more == "latent") {
      add_latent(layer, n);
      return layer;
    }
    std::size_t first = 0;
    for (const auto& [name, rows, W, b] : {std::tuple("attn_q", q, &layer.W_q, &layer.b_q),
                                           {"attn_k", k, &layer.W_k, &layer.b_k},
                                           {"attn_v", v, &layer.W_v, &layer.b_v}}) {
      const std::string module = blk(n) + (traits_.fused ? "attn_qkv" : name);
      *W = in_out(tensor(module + ".weight"), traits_.fused ? first : 0, rows);
      *b = part(tensor(module + ".bias"), traits_.fused ? first : 0, rows);
      first += rows;
    }
    return layer;
  }

  void add_latent(reference::Layer& layer, std::size_t n) const {
    layer.H_kv = layer.H;
    layer.d_pe = layer.rope_dims;
    layer.rope_first = layer.d_k - layer.d_pe;
    for (const auto& [name, W] : {std::pair("attn_q_a", &layer.W_q_a),
                                  {"attn_q_b", &layer.W_q},
                                  {"attn_kv_a_mqa", &layer.W_kv_a},
                                  {"attn_kv_b", &layer.W_kv_b}}) {
      const Array rows = tensor(blk(n) + name + ".weight");
      *W = in_out(rows, 0, rows.shape[0]);
    }
    layer.q_a_norm = tensor(blk(n) + "attn_q_a_norm.weight");
    layer.kv_a_norm = tensor(blk(n) + "attn_kv_a_norm.weight");
  }

  Array mlp(std::size_t n, const Array& x) const {
    const auto silu = [](double z) { return z / (1 + std::exp(-z)); };
    const auto tanh = [](double z) {
      return z / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z)));
    };
    const auto erf = [](double z) { return z / 2 * (1 + std::erf(z / std::numbers::sqrt2)); };
    Array up = linear(x, blk(n) + "ffn_up");
    if (traits_.mlp == "silu" || traits_.mlp == "gelu") {
      const Array gate = linear(x, blk(n) + "ffn_gate");
      for (std::size_t i = 0; i < up.values.size(); ++i)
        up.values[i] *= traits_.mlp == "silu" ? silu(gate.values[i]) : tanh(gate.values[i]);
    } else if (traits_.mlp == "fused") {
      const std::size_t half = up.shape[1] / 2;
      Array both({up.shape[0], half});
      for (std::size_t t = 0; t < up.shape[0]; ++t)
        for (std::size_t i = 0; i < half; ++i) both(t, i) = silu(up(t, i)) * up(t, half + i);
      up = both;
    } else {
      const auto relu2 = [](double z) { return z > 0 ? z * z : 0; };
      for (double& number : up.values)
        number = traits_.mlp == "tanh"  ? tanh(number)
                 : traits_.mlp == "erf" ? erf(number)
                                        : relu2(number);
    }
    return linear(up, blk(n) + "ffn_down");
  }

  Array block(std::size_t n, const Array& x) const {
    const std::string at = blk(n);
    const Array h = first_norm(n, x);
    Array a = attention(n, h);
    if (traits_.block == "post") {
      const Array y = normed(sum(x, a), at + "attn_output_norm");
      return normed(sum(y, mlp(n, y)), at + "layer_output_norm");
    }
    const bool parallel = is("gptneox") ? flag("use_parallel_residual", true)
                                        : traits_.block == "one" || traits_.block == "two";
    if (parallel || (is("stablelm") && !file_.tensors.contains(at + "ffn_norm.weight"))) {
      const bool two = file_.tensors.contains(at + "ffn_norm.weight");
      return sum(sum(x, a), mlp(n, two ? normed(x, at + "ffn_norm") : h));
    }
    double adds = 1;
    if (is("granite")) adds = or_1(number("residual_scale", 0));
    if (is("minicpm")) adds = number("residual_scale", 1.4 / std::sqrt(GgufSizes::layers));
    const bool seed = is("seed_oss"); // whose norm before the feed-forward has that name
    if (!seed && file_.tensors.contains(at + "post_attention_norm.weight"))
      a = normed(a, at + "post_attention_norm");
    scale(a, adds);
    const Array y = sum(x, a);
    Array f = mlp(n, traits_.block == "inside"
                         ? y
                         : normed(y, at + (seed ? "post_attention_norm" : "ffn_norm")));
    if (file_.tensors.contains(at + "post_ffw_norm.weight")) f = normed(f, at + "post_ffw_norm");
    scale(f, adds);
    return sum(y, f);
  }

  const GgufTraits& traits_;
  const GgufFile& file_;
};

} // namespace

Array gguf_logits(const GgufTraits& traits, const GgufFile& file, const std::vector<int>& ids) {
  return GgufReference(traits, file).logits(ids);
}

Array gguf_attention(const GgufTraits& traits, const GgufFile& file, std::size_t layer,
                     const Array& X) {
  const GgufReference model(traits, file);
  return model.attention(layer, model.first_norm(layer, X));
}

} // namespace mha::test
