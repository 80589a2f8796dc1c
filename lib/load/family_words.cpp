// The keys that only families' files have, and families in users' files.
#include <mha/load/description_parts.hpp>

#include <mha/load/families/condition.hpp>
#include <mha/load/families/family_text.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace mha::description {

using naming::Bias;
using naming::BiasRule;
using naming::DescribedTensor;

namespace {

/// Reads true, false, "if_there", or {"config": KEY, "default": false}.
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

/// A text with references: "<rope> none chooses".
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

/// Reads steps by name with their arguments.
template <class Rows>
void read_steps(const JsonTree* steps, const Rows& known, std::vector<naming::DescribedStep>& to) {
  if (!steps) return;
  for (const auto& [name, arguments] : steps->members) {
    if (arguments.is_null()) continue;
    const auto* const step = find_named(known, name);
    if (!step)
      arguments.refuse(
          fmt::format("there is no step '{}'{}", name, choices_for(name, names_of_rows(known))));
    const std::vector<std::string_view> members = words_of(step->arguments);
    for (const auto& [member, value] : arguments.members)
      if (step->arguments != "*" && !is_one_of(member, members))
        value.refuse(fmt::format("'{}' is not an argument of {}{}", member, name,
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
    const JsonTree* const member = tree.find(key);
    if (!member) return;
    if (member->is_list())
      for (const JsonTree& text : member->elements) use(message_of(text));
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
    if (!known) stage.refuse(fmt::format("'{}' is not a stage", stage.text));
    (module == "attention" ? to.attention_returns : to.mlp_returns) = known;
  }
}

/// A bias of the head that is a name, not true or false, is a tensor elsewhere. With `own_bias` the
/// bias beside the head's weight counts as well.
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

namespace mha {

namespace {

/// A user's family, and the texts that its row refers to.
struct UserFamily {
  JsonTree tree;
  std::string title, needs, knows, beside, sublayers;
  naming::FamilyRow row;
};

/// Throws Error for an unknown key of the file, or of a case.
void require_family_words(const JsonTree& tree, std::string_view what) {
  std::vector<description::Key> keys(description::top_keys.begin(), description::top_keys.end());
  keys.insert(keys.end(), description::family_keys.begin(), description::family_keys.end());
  keys.insert(keys.end(), description::case_keys.begin(), description::case_keys.end());
  description::require_known(tree, what, keys);
  for (const char* own : {"present", "recognised", "num_layers"})
    if (const JsonTree* member = tree.find(own))
      member->refuse(fmt::format("{} is not for a user's family", own));
  for (const char* object :
       {"tests", "biases", "returns", "steps", "model_steps", "settings", "sizes", "tensors"})
    if (const JsonTree* member = tree.find(object); member && !member->is_object())
      member->refuse(fmt::format("{} must be an object", object));
  for (const char* list : {"known", "always", "some_layers_lack"})
    if (const JsonTree* member = tree.find(list); member && !member->is_list())
      member->refuse(fmt::format("{} must be a list", list));
  if (const JsonTree* tests = tree.find("tests"))
    for (const auto& [name, condition] : tests->members) naming::require_condition(condition);
  for (const char* list : {"cases", "model_cases"}) {
    const JsonTree* const cases = tree.find(list);
    if (cases && !cases->is_list()) cases->refuse(fmt::format("{} must be a list", list));
    if (!cases) continue;
    for (const JsonTree& entry : cases->elements) {
      require_family_words(entry, "a case");
      const JsonTree* const when = entry.find("when");
      if (!when) entry.refuse("a case has no \"when\"");
      naming::require_condition(*when);
    }
  }
}

} // namespace

const naming::FamilyRow* user_family(const io::Bytes& file, const JsonTree& tree) {
  static std::mutex lock;
  static std::map<std::pair<std::string, std::string>, std::unique_ptr<const UserFamily>> families;
  const std::lock_guard hold(lock);
  const std::pair<std::string, std::string> key(file.name, file.text());
  if (const auto at = families.find(key); at != families.end()) return &at->second->row;
  require_family_words(tree, "a family's file");
  auto family = std::make_unique<UserFamily>();
  family->tree = tree;
  naming::FamilyRow& row = family->row;
  row.tree = &family->tree;
  const auto word = [&](const char* name) { return naming::word_in(row, name); };
  family->title =
      tree.find("title") ? word("title") : std::filesystem::path(file.name).stem().string();
  family->needs = word("needs"), family->knows = word("knows"), family->beside = word("beside");
  family->knows += naming::names_in_module(row);
  family->sublayers = word("sublayers");
  if (!word("present").empty())
    tree.refuse("\"like\" names a family whose layers share their weights, which a user's family "
                "cannot do");
  if (family->needs.empty())
    tree.refuse("\"needs\" is missing: the names that a layer's module has, by which it is found");
  row.name = row.title = family->title;
  row.needs = family->needs, row.knows = family->knows, row.beside = family->beside;
  row.sublayers = family->sublayers;
  row.models = row.whole_models = "*"; // the user chose it
  return &families.emplace(key, std::move(family)).first->second->row;
}

} // namespace mha
