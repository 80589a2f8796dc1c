// Rotation by GGUF's keys and tensors, with llama.cpp's defaults for missing ones.

#include <mha/files/text.hpp>
#include <mha/formats/gguf_settings.hpp>
#include <mha/formats/gguf_tables.hpp>
#include <mha/maths/functions.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha::io {

namespace {

constexpr std::string_view scaled_otherwise =
    "which is not computed here: a scaling without it expected";

/// "1,1.25,…": the numbers of a small tensor, multiplied by a factor.
std::string factors_text(const GgufSettings& settings, const GgufTensor& tensor, double factor) {
  constexpr std::size_t most = 4096;
  if (tensor.dtype != DType::f32 || tensor.blocks || tensor.shape.size() != 1 ||
      tensor.shape[0] > most)
    fail("{}: {} is {} of {}: at most {} numbers of F32 expected", shown(settings.file().name),
         shown(tensor.name), to_string(tensor.shape), tensor.type, most);
  const Tensor numbers = tensor.read();
  std::span<const float> used = numbers.as<float>();
  // In Step-3.5's layers without a window only half of a head turns, the other half of the tensor
  // is unused.
  if (settings.is("step35")) used = used.first(used.size() / 2);
  std::string list;
  for (const float number : used)
    list += fmt::format("{}{}", list.empty() ? "" : ",",
                        factor == 1 ? number_text(number) : number_text(number * factor));
  return list;
}

/// The width of a head's queries and keys.
std::optional<double> head_width(const GgufSettings& settings) {
  if (const auto width = settings.number("attention.key_length")) return width;
  const auto heads = settings.number("attention.head_count"),
             all = settings.number("embedding_length");
  return heads && all && *heads > 0 ? std::optional(*all / *heads) : std::nullopt;
}

/// The number of rotated dimensions: without the key the whole head is rotated, even in models that
/// usually rotate a part.
void take_dimensions(GgufSettings& settings) {
  const std::optional<double> width = head_width(settings),
                              rotated = settings.number("rope.dimension_count");
  if (!rotated && width && settings.is("stablelm gptneox phi2 nemotron glm4 glm4moe"))
    settings.set_number("rotary_dim", *width);
  if (!rotated && settings.is("deepseek2"))
    settings.doubt("rope.dimension_count", "is missing: it is inferred from the tensors");
  // Neighbouring pairs are turned into halves, which works only for whole heads.
  const GgufArchitecture* const known = find_gguf_architecture(settings.architecture());
  if (known && known->neighbours && rotated && width && *rotated != *width)
    settings.refuse(
        "rope.dimension_count",
        fmt::format("which is not computed here: a whole head, {} numbers, expected", *width));
}

/// A key for layers with a window, the one for the others, and the architectures in which they may
/// differ.
struct OfWindow {
  std::string_view own, others, may_differ;
};
constexpr OfWindow of_window[]{
    {"rope.freq_base_swa", "rope.freq_base", "gemma3 laguna mimo2 step35 gemma4"},
    {"rope.dimension_count_swa", "rope.dimension_count", "laguna step35 gemma4"},
    {"attention.key_length_swa", "attention.key_length", "gemma4"},
    {"attention.value_length_swa", "attention.value_length", "gemma4"}};

/// Refuses a base or a width of their own in layers with a window.
void take_window_rotary(GgufSettings& settings) {
  if (!settings.is(gguf_alternating)) return;
  for (const OfWindow& row : of_window) {
    const auto own = settings.number(row.own);
    const bool is_base = row.own == "rope.freq_base_swa";
    const double usual = is_base ? 10000 : head_width(settings).value_or(own.value_or(0));
    if (own && !settings.is(row.may_differ) && *own != settings.number(row.others).value_or(usual))
      settings.refuse(row.own, fmt::format("which is not computed here: the {} in the other layers "
                                           "expected",
                                           is_base ? "base" : "width"));
  }
}

/// Sections of the rotation for time, height and width; a fourth section must be 0 for text.
void take_sections(GgufSettings& settings) {
  const GgufValue* const list =
      settings.is("qwen2vl glm4 glm4moe") ? settings.value("rope.dimension_sections") : nullptr;
  if (!list) return;
  std::string sections;
  double sum = 0;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const double size = static_cast<double>(list->integer(i).value_or(0));
    sections += fmt::format("{}{}", i > 0 ? "," : "", size);
    sum += size;
  }
  // A text's tokens have one position, and GLM-4.5's rows are in halves with sections or without.
  const bool has_fourth = list->count > 4 || list->integer(3).value_or(0) != 0;
  if (settings.is("glm4moe") && !has_fourth) return;
  // GLM-4V's files with sections store the rows of q and k as halves.
  if (settings.is("glm4") && sum > 0)
    settings.refuse("rope.dimension_sections",
                    "which is not computed here for this architecture: 0 of each expected");
  else if (has_fourth)
    settings.refuse("rope.dimension_sections",
                    "which is not computed here: time, height and width, and 0, expected");
  else if (sum > 0)
    settings.set("rope_scaling.mrope_section", sections);
}

/// Combines rope.scaling.*, rope_freqs and rope_factors to one scaling.
class GgufScaling {
public:
  /// Reads all keys, so that those without an effect count as read.
  explicit GgufScaling(GgufSettings& settings) : settings_(settings) {
    type_ = settings.text("rope.scaling.type").value_or("linear");
    // A factor of 0 means none. Old files have the key rope.scale_linear.
    const bool old = !settings.value("rope.scaling.factor");
    const std::optional<double> old_factor = settings.number_but_0("rope.scale_linear");
    factor_ = (old ? old_factor : settings.number_but_0("rope.scaling.factor")).value_or(1);
    if (type_ == "none") factor_ = 1;
    attention_ = settings.number("rope.scaling.attn_factor").value_or(1);
    original_ = settings.number("rope.scaling.original_context_length");
    if (!original_) original_ = settings.number("context_length");
    for (const char* key : {"beta_fast", "beta_slow", "ext_factor", "attn_factor"})
      settings.value(std::string("rope.scaling.yarn_") + key);
    if (settings.is("mistral3 deepseek2")) settings.value("rope.scaling.yarn_log_multiplier");
  }

  void take() {
    take_alpha();
    const GgufTensor *const lengths = settings_.tensor("rope_factors_long.weight"),
                            *const shorts = settings_.tensor("rope_factors_short.weight"),
                            *const divisors = settings_.tensor("rope_freqs.weight");
    const bool divides = (lengths && shorts) || divisors;
    if (!lengths != !shorts)
      settings_.refuse_tensor(
          (lengths ? lengths : shorts)->name,
          "has no counterpart, which is not computed here: one for long and one "
          "for short texts expected");
    if (divides && settings_.is("afmoe bailingmoe2 laguna mimo2"))
      settings_.refuse_tensor((divisors ? divisors : lengths)->name,
                              "is not read by llama.cpp for this architecture: a file without it "
                              "expected");
    if (divides && settings_.is("gemma3"))
      settings_.refuse_tensor(
          (divisors ? divisors : lengths)->name,
          "is for layers with and without a window, which is not computed here");
    if (divides && type_ == "yarn" && factor_ != 1)
      settings_.refuse("rope.scaling.type", "beside divisors of the frequencies, which is not "
                                            "computed here: one of the two expected");
    if (lengths && shorts)
      divide(*lengths, *shorts, original_);
    else if (divisors) // LLaMA 3's scaling as its resulting divisors, for any length
      divide(*divisors, *divisors, settings_.number("context_length").value_or(8192));
    else if (type_ == "yarn" && factor_ != 1)
      take_yarn();
    else if (is_known() && (factor_ != 1 || attention_ != 1))
      set_kind("linear"), set_attention(1);
    else if (!is_known())
      settings_.refuse("rope.scaling.type",
                       "which is not known here: none, linear, yarn or longrope expected");
    if (settings_.is("deepseek2")) refuse_of_latent();
    // llama.cpp applies the factor to both kinds of layers, but scales their frequencies
    // separately.
    if (settings_.is("gemma3") && attention_ != 1)
      settings_.refuse("rope.scaling.attn_factor", scaled_otherwise);
    take_temperature();
  }

private:
  /// Hunyuan's factor alpha of the base: base · alpha^(d / (d − 2)), d the width of a head.
  void take_alpha() {
    if (!settings_.is("hunyuan-dense")) return;
    const auto alpha = settings_.number_but_0("rope.scaling.alpha");
    const auto width = head_width(settings_);
    if (!alpha || !width || *width <= 2) return;
    const double base = settings_.number("rope.freq_base").value_or(10000);
    settings_.set_number("rope_theta", base * maths::pow(*alpha, *width / (*width - 2)));
  }
  bool is_known() const {
    return type_ == "none" || type_ == "linear" || type_ == "yarn" || type_ == "longrope";
  }
  void set_kind(std::string_view kind) {
    settings_.set("rope_scaling.rope_type", kind);
    settings_.set_number("rope_scaling.factor", factor_);
  }
  /// The file's factor of cosines and sines multiplies the factor that belongs to the kind.
  void set_attention(double own) {
    if (attention_ != 1) settings_.set_number("rope_scaling.attention_factor", attention_ * own);
  }
  void set_original(std::optional<double> original) {
    if (original) settings_.set_number("rope_scaling.original_max_position_embeddings", *original);
  }

  /// Sets a divisor for each frequency. Without the key the attention factor is 1.
  void divide(const GgufTensor& in_long, const GgufTensor& in_short,
              std::optional<double> original) {
    settings_.set("rope_scaling.rope_type", "longrope");
    settings_.set("rope_scaling.long_factor", factors_text(settings_, in_long, factor_));
    settings_.set("rope_scaling.short_factor", factors_text(settings_, in_short, factor_));
    settings_.set_number("rope_scaling.attention_factor", attention_);
    set_original(original);
    if (!settings_.value("context_length")) settings_.set_number("rope_scaling.factor", 1);
  }

  void take_yarn() {
    set_kind("yarn");
    set_original(original_);
    for (const auto& [key, name] :
         {std::pair("rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast"),
          {"rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow"}})
      if (const auto turns = settings_.number(key)) settings_.set_number(name, *turns);
    // DeepSeek's converter writes a tenth of mscale_all_dim, which is equal to mscale. Mistral's
    // converter writes mscale_all_dim itself, with an mscale of 1.
    const bool latent = settings_.is("deepseek2");
    double mscale = 0, all = 0;
    if (settings_.is("deepseek2 mistral3"))
      all = settings_.number("rope.scaling.yarn_log_multiplier").value_or(0) * (latent ? 10 : 1);
    if (all != 0) {
      mscale = latent ? all : 1;
      settings_.set_number("rope_scaling.mscale", mscale);
      settings_.set_number("rope_scaling.mscale_all_dim", all);
    }
    const auto g = [&](double m) { return 0.1 * m * maths::log(std::max(factor_, 1.0)) + 1; };
    set_attention(all != 0 ? g(mscale) / g(all) : g(1));
    if (const auto part = settings_.number("rope.scaling.yarn_ext_factor");
        part && *part >= 0 && *part != 1)
      settings_.refuse("rope.scaling.yarn_ext_factor", scaled_otherwise);
    // The converter writes the published factor there, and llama.cpp computes its own instead.
    const double own = attention_ * (all != 0 ? g(mscale) / g(all) : g(1));
    if (const auto given = settings_.number("rope.scaling.yarn_attn_factor");
        given && std::abs(*given - own) > 1e-3)
      settings_.doubt("rope.scaling.yarn_attn_factor",
                      fmt::format("is {}, which llama.cpp does not read: as there, cosines and "
                                  "sines are multiplied by {:.4g}",
                                  *given, own));
  }

  /// Refuses scalings that latent attention would also apply to the scores.
  void refuse_of_latent() {
    if (attention_ != 1) settings_.refuse("rope.scaling.attn_factor", scaled_otherwise);
    if (factor_ != 1 && type_ != "yarn")
      settings_.refuse(settings_.value("rope.scaling.factor") ? "rope.scaling.factor"
                                                              : "rope.scale_linear",
                       "without yarn, which is not computed here for this architecture");
  }

  /// Queries are multiplied by 1 + β ln(1 + ⌊position / length⌋).
  void take_temperature() {
    if (!settings_.is("mistral3 deepseek2")) return;
    const auto beta = settings_.number_but_0("attention.temperature_scale");
    const auto length =
        settings_.is("deepseek2") ? settings_.number("attention.temperature_length") : std::nullopt;
    if (!beta) return;
    settings_.copy("attention.temperature_scale", "rope_scaling.llama_4_scaling_beta");
    if (settings_.is("mistral3")) return set_original(original_);
    if (length && (!original_ || *original_ == *length))
      set_original(length);
    else
      settings_.refuse("attention.temperature_scale", "which is not computed here");
  }

  GgufSettings& settings_;
  std::string type_;
  double factor_ = 1, attention_ = 1;
  std::optional<double> original_;
};

} // namespace

void take_gguf_rotary(GgufSettings& settings) {
  GgufScaling scaling(settings);
  if (settings.is(gguf_unrotated)) return;
  if (!settings.value("rope.freq_base"))
    settings.set(settings.is("gptneox") ? "rotary_emb_base" : "rope_theta", "10000");
  // Granite's files switch the rotation off by this key; it has no effect in other architectures.
  if (settings.is("granite granitemoe") && !settings.flag("rope.scaling.finetuned").value_or(true))
    settings.set("rope", "none");
  take_dimensions(settings);
  take_window_rotary(settings);
  take_sections(settings);
  if (!settings.is("gemma4")) scaling.take();
}

} // namespace mha::io
