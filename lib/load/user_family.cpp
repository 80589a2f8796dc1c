#include <mha/load/user_family.hpp>

#include <mha/load/description_keys.hpp>
#include <mha/load/description_parts.hpp>
#include <mha/load/families/condition.hpp>
#include <mha/load/families/family_text.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace mha {

namespace {

/// A user's family, and the words that its row refers to.
struct UserFamily {
  JsonTree tree;
  std::string title, needs, knows, beside, sublayers;
  naming::FamilyRow row;
};

/// Throws Error for a word of the file, or of a case, that is not known.
void require_family_words(const JsonTree& tree, std::string_view what) {
  std::vector<description::Key> keys(description::top_keys.begin(), description::top_keys.end());
  keys.insert(keys.end(), description::family_keys.begin(), description::family_keys.end());
  keys.insert(keys.end(), description::case_keys.begin(), description::case_keys.end());
  description::require_known(tree, what, keys);
  for (const char* own : {"present", "recognised", "num_layers"})
    if (const JsonTree* there = tree.find(own))
      there->refuse(fmt::format("{} is not of a user's family", own));
  for (const char* object :
       {"tests", "biases", "returns", "steps", "model_steps", "settings", "sizes", "tensors"})
    if (const JsonTree* there = tree.find(object); there && !there->is_object())
      there->refuse(fmt::format("{} must be an object", object));
  for (const char* list : {"known", "always", "some_layers_lack"})
    if (const JsonTree* there = tree.find(list); there && !there->is_list())
      there->refuse(fmt::format("{} must be a list", list));
  if (const JsonTree* tests = tree.find("tests"))
    for (const auto& [name, condition] : tests->members) naming::require_condition(condition);
  for (const char* list : {"cases", "model_cases"}) {
    const JsonTree* const cases = tree.find(list);
    if (cases && !cases->is_list()) cases->refuse(fmt::format("{} must be a list", list));
    if (!cases) continue;
    for (const JsonTree& one : cases->elements) {
      require_family_words(one, "a case");
      const JsonTree* const when = one.find("when");
      if (!when) one.refuse("a case has no \"when\"");
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
    tree.refuse(
        "it is like a family whose layers share their weights, which one of a user cannot be");
  if (family->needs.empty())
    tree.refuse("\"needs\" is missing: the names that a layer's module has, by which it is found");
  row.name = row.title = family->title;
  row.needs = family->needs, row.knows = family->knows, row.beside = family->beside;
  row.sublayers = family->sublayers;
  row.models = row.whole_models = "*"; // the user chose it
  return &families.emplace(key, std::move(family)).first->second->row;
}

} // namespace mha
