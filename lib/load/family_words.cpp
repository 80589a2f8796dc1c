#include <mha/load/family_words.hpp>

#include <mha/load/families/steps.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::description {

using naming::Bias;
using naming::BiasRule;
using naming::DescribedTensor;

namespace {

/// true, false, "if_there", or {"config": KEY, "default": false}.
BiasRule rule_of(const JsonTree& tree) {
  BiasRule rule;
  if (tree.is_boolean()) {
    rule.fixed = tree.is_true() ? Bias::always : Bias::never;
  } else if (tree.is_object()) {
    for (const auto& [member, value] : tree.members)
      if (member != "config" && member != "default")
        value.refuse(fmt::format("'{}' in a rule of biases: config and default expected", member));
    const JsonTree *key = tree.find("config"), *otherwise = tree.find("default");
    if (!key) tree.refuse("a rule of biases is an object without \"config\"");
    rule.key = key->as_text("config");
    rule.otherwise = otherwise && otherwise->as_boolean("default");
  } else if (tree.as_text("a rule of biases") != "if_there") {
    tree.refuse("true, false, \"if_there\" or {\"config\": KEY, \"default\": false} expected");
  }
  return rule;
}

std::vector<std::string> words_in(const JsonTree* list) {
  std::vector<std::string> words;
  if (list)
    for (const JsonTree& name : list->elements) words.push_back(name.as_text("a name"));
  return words;
}

/// A text of the file with its references: "<rope> none chooses".
Message message_of(const JsonTree& text) {
  return Message::of_marked(mha::detail::with_marks(text.as_text("a text")));
}

void read_rules(const JsonTree& tree, naming::Description& to) {
  const JsonTree* const rules = tree.find("biases");
  if (!rules) return;
  for (const auto& [key, rule_tree] : rules->members) {
    BiasRule* const rule = key == "qkv"      ? &to.qkv_bias
                           : key == "output" ? &to.output_bias
                           : key == "mlp"    ? &to.mlp_bias
                           : key == "norms"  ? &to.norm_bias
                                             : nullptr;
    if (!rule) rule_tree.refuse(fmt::format("'{}': qkv, output, mlp or norms expected", key));
    *rule = rule_of(rule_tree);
  }
}

/// Steps by their names, with the arguments that each knows.
template <class Rows>
void read_steps(const JsonTree* there, const Rows& known, std::vector<naming::DescribedStep>& to) {
  if (!there) return;
  for (const auto& [name, arguments] : there->members) {
    if (arguments.is_null()) continue;
    const auto* const step = find_named(known, name);
    if (!step)
      arguments.refuse(
          fmt::format("there is no step '{}'{}", name, choices_for(name, names_of_rows(known))));
    const std::vector<std::string_view> members = words_of(step->arguments);
    for (const auto& [member, value] : arguments.members)
      if (step->arguments != "*" && !is_one_of(member, members))
        value.refuse(fmt::format("'{}' is no argument of {}{}", member, name,
                                 members.empty() ? std::string(", which has none")
                                                 : choices_for(member, members)));
    to.push_back({name, arguments});
  }
}

void read_steps(const JsonTree& tree, naming::Description& to) {
  read_steps(tree.find("steps"), naming::layer_steps(), to.steps);
  read_steps(tree.find("model_steps"), naming::model_steps(), to.model_steps);
  if (const JsonTree* known = tree.find("known"))
    for (const JsonTree& key : known->elements)
      to.known_keys.push_back(key.as_text("a key of config.json"));
}

void read_texts(const JsonTree& tree, naming::Description& to) {
  const auto each = [&](const char* key, const auto& use) {
    const JsonTree* const there = tree.find(key);
    if (!there) return;
    if (there->is_list())
      for (const JsonTree& text : there->elements) use(message_of(text));
  };
  each("note", [&](Message text) { to.notes.emplace_back(std::move(text)); });
  each("warn", [&](Message text) { to.notes.push_back(warning(std::move(text))); });
  each("refuse", [&](Message text) { to.refusals.push_back(std::move(text)); });
}

void read_returns(const JsonTree& tree, naming::Description& to) {
  const JsonTree* const returns = tree.find("returns");
  if (!returns) return;
  for (const auto& [module, stage] : returns->members) {
    if (module != "attention" && module != "mlp")
      stage.refuse(fmt::format("'{}' returns a stage: attention or mlp expected", module));
    const std::optional<Stage> known = find_stage(stage.as_text("a stage"));
    if (!known) stage.refuse(fmt::format("'{}' is no stage", stage.text));
    (module == "attention" ? to.attention_returns : to.mlp_returns) = known;
  }
}

/// A name of the bias in the place of true and false is one of a tensor elsewhere, beside which the
/// head's own counts where `own_bias` says so.
void read_head_bias(const JsonTree& tree, naming::Description& to) {
  const JsonTree* const head = tree.find("head");
  if (!head || head->is_null()) return;
  if (const JsonTree* own = head->find("own_vocabulary"))
    to.own_vocabulary = own->as_boolean("own_vocabulary");
  DescribedTensor& decoder = to.tensors.at("head");
  if (!decoder.bias || decoder.bias->empty()) return;
  DescribedTensor other;
  other.key = "head.bias", other.where = decoder.where, other.name = *decoder.bias;
  to.tensors.emplace(other.key, std::move(other));
  const JsonTree* own = head->find("own_bias");
  decoder.bias = "";
  if (own && own->as_boolean("own_bias")) decoder.bias.reset();
}

} // namespace

void read_family_words(const JsonTree& tree, naming::Description& to) {
  to.always = words_in(tree.find("always"));
  if (const JsonTree* attention = tree.find("attention"))
    to.attention_depth =
        static_cast<std::size_t>(std::ranges::count(attention->as_text("attention"), '.'));
  read_rules(tree, to), read_steps(tree, to), read_texts(tree, to), read_returns(tree, to);
  read_head_bias(tree, to);
  if (const JsonTree* predicts = tree.find("predicts")) {
    to.predicts_next = predicts->as_text("predicts") == "next";
    if (!to.predicts_next && predicts->text != "masked")
      predicts->refuse(fmt::format("predicts is '{}': next or masked expected", predicts->text));
  }
}

} // namespace mha::description
