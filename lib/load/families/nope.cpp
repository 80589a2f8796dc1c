// SmolLM 3 and EXAONE 4: LLaMA's names; some layers do not rotate (NoPE). SmolLM 3 lists them, in
// EXAONE 4 they are those without a window. EXAONE 4 normalises queries and keys, and after
// attention.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

/// Whether SmolLM 3's layer rotates: no_rope_layers has 1 for those that do (sic), else every
/// fourth does not.
std::optional<bool> rotates(const Group& group) {
  const std::optional<std::size_t> layer = group.number();
  const std::size_t interval = group.configured_count({"no_rope_layer_interval"}, 1).value_or(4);
  if (!layer) return std::nullopt;
  if (const std::optional<std::string> list = group.configured("no_rope_layers"))
    if (const std::optional<std::string> one = element(*list, *layer)) return *one != "0";
  return (*layer + 1) % interval != 0;
}

void set_alternating_rotary(Translation& to, std::optional<bool> rotates, double base) {
  if (rotates.value_or(true))
    set_rotary(to, {.style = "half", .base = base});
  else
    set_no_rotary(to);
  if (!rotates)
    to.warn(message(
        "some layers of this model do not rotate, and no number says which layer this is: taken "
        "as one that does; <rope> none chooses"));
}

bool recognises_smollm3(const Group& group) {
  return group.is_model({"smollm3"});
}
void translate_smollm3(const Group& group, Translation& to) {
  take_llama(to);
  set_alternating_rotary(to, rotates(group), 2e6);
  set_window(to, [](const Group& of, std::size_t) { return !rotates(of).value_or(true); });
}

bool recognises_exaone4(const Group& group) {
  return group.is_model({"exaone4"});
}
void translate_exaone4(const Group& group, Translation& to) {
  take_llama(to);
  require_qk_norm(group);
  to.set_post_norm();
  const bool hybrid = group.configured("sliding_window").has_value();
  set_alternating_rotary(to, hybrid ? is_sliding(group, all_but_every_fourth) : std::optional(true),
                         1e6);
  set_window(to, all_but_every_fourth);
}

void settle_smollm3(const Group& group, ModelRecord& record) {
  record.mlp_bias = group.is_true({"mlp_bias"}) ? Bias::always : Bias::never;
}

constexpr ModelRecord of_smollm3() {
  ModelRecord record = llama_model("smollm3");
  record.tied = true;
  record.settle = settle_smollm3;
  return record;
}
constexpr ModelRecord smollm3_record = of_smollm3();

constexpr ModelRecord exaone4_record = llama_model_normed_after("exaone4");

} // namespace

const Family smollm3{"smollm3",   "SmolLM 3",         smollm3_record.models, llama_needs,
                     llama_knows, recognises_smollm3, translate_smollm3,     &smollm3_record};
const Family exaone4{"exaone4",   "EXAONE 4",         exaone4_record.models, llama_needs,
                     llama_knows, recognises_exaone4, translate_exaone4,     &exaone4_record};

} // namespace mha::naming
