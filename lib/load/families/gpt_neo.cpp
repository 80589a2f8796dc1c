// GPT-Neo: attn.attention.{q,k,v,out}_proj (out, in); the scores are not scaled; local layers see a
// window of window_size keys.

#include <mha/load/families/gpt2.hpp>
#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/system/characters.hpp>

namespace mha::naming {

namespace {

bool is_gpt_neo(const Group& group) {
  return group.is_model({"gpt_neo"}) || group.prefix.ends_with("attn.attention.");
}

/// attention_layers ("global,local,…"), or attention_types: [[["global", "local"], 12]] — patterns,
/// each repeated, one after the other.
std::optional<std::string> kind_of(const Group& group, std::size_t layer) {
  if (const auto layers = group.configured("attention_layers")) return element(*layers, layer);
  const std::string text = group.configured("attention_types").value_or("");
  std::vector<std::string> pattern;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      const std::size_t end = std::min(text.find('"', at + 1), text.size());
      pattern.push_back(text.substr(at + 1, end - at - 1));
      at = end + 1;
    } else if (is_digit(text[at])) {
      std::size_t times = 0;
      for (; at < text.size() && is_digit(text[at]); ++at)
        times =
            std::min<std::size_t>(times * 10 + static_cast<std::size_t>(text[at] - '0'), 1000000);
      if (layer < times * pattern.size()) return pattern[layer % pattern.size()];
      layer -= times * pattern.size();
      pattern.clear();
    } else {
      ++at;
    }
  }
  return std::nullopt;
}

void translate_gpt_neo(const Group& group, Translation& to) {
  to.take_projections("q_proj", "k_proj", "v_proj", "out_proj");
  to.pass_over({"bias"}, "the causal mask's buffer, not a bias");
  to.pass_over({"masked_bias"}, "what the mask fills in, not a bias");
  to.set_from_config("num_heads", {"num_heads", "num_attention_heads"});
  to.set("scale", "none");
  to.set("causal", "true");
  const std::size_t window = group.configured_count({"window_size"}, 1).value_or(256);
  group.configured("attention_types"); // where attention_layers says the same
  const std::optional<std::size_t> layer = group.number();
  const std::optional<std::string> kind = layer ? kind_of(group, *layer) : std::nullopt;
  if (!kind)
    to.warn(
        message("config.json does not say whether this layer is local or global: taken as global; "
                "<window_left> 255 makes it local, as these models are"));
  if (kind && *kind == "local") to.set("window_left", fmt::format("{}", window - 1), "config.json");
  to.normalises(NormKind::layer, {group.parent(2) + "ln_1"}, {"layer_norm_epsilon"}, 1e-5);
}

constexpr ModelRecord of_gpt_neo() {
  ModelRecord record = gpt2_model_with_biases("gpt_neo", "gelu_new");
  record.always = "ln_1.bias ln_2.bias attn.attention.out_proj.bias";
  return record;
}
constexpr ModelRecord gpt_neo_record = of_gpt_neo();

} // namespace

const Family gpt_neo{"gpt_neo",
                     "GPT-Neo",
                     gpt_neo_record.models,
                     "q_proj.weight k_proj.weight v_proj.weight out_proj.weight",
                     "q_proj.bias k_proj.bias v_proj.bias out_proj.bias bias masked_bias",
                     is_gpt_neo,
                     translate_gpt_neo,
                     &gpt_neo_record};

} // namespace mha::naming
