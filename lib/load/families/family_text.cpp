#include <mha/load/families/family_text.hpp>

#include <mha/load/described_file.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/families/condition.hpp>
#include <mha/load/read_description.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <map>
#include <mutex>

namespace mha::naming {

namespace {

/// Keys that select other entries, and keys whose texts are collected instead of replaced.
constexpr std::string_view of_cases[]{"cases", "model_cases", "when", "like", "tests"},
    texts_of_cases[]{"note", "warn", "refuse"};

bool is_among(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// Merges `from` into `to`: objects member by member; any other value replaces the old one.
void merge(JsonTree& to, const JsonTree& from, bool top) {
  for (const auto& [name, value] : from.members) {
    if (top && is_among(name, of_cases)) continue;
    JsonTree* old = nullptr;
    for (JsonMember& member : to.members)
      if (member.name == name) old = &member.value;
    if (!old) {
      to.members.push_back({name, value});
    } else if (top && name == "known") {
      old->elements.insert(old->elements.end(), value.elements.begin(), value.elements.end());
    } else if (top && is_among(name, texts_of_cases)) {
      old->elements.push_back(value);
    } else if (old->is_object() && value.is_object()) {
      merge(*old, value, false);
    } else {
      *old = value;
    }
    if (!old && top && is_among(name, texts_of_cases)) {
      JsonTree list;
      list.kind = JsonTree::Kind::list, list.where = value.where, list.elements.push_back(value);
      to.members.back().value = std::move(list);
    }
  }
}

JsonTree tree_of_text(std::string_view name, std::string_view text) {
  io::Bytes bytes;
  bytes.name = fmt::format("{}.json", name), bytes.size = text.size();
  bytes.data = {std::shared_ptr<void>(), reinterpret_cast<const std::byte*>(text.data())};
  return read_json_tree(bytes, false);
}

/// The text of a file, parsed on first use; nullptr if there is no file of this name.
const JsonTree* tree_of(std::string_view name) {
  static std::mutex lock;
  static std::map<std::string_view, JsonTree> trees;
  const std::lock_guard hold(lock);
  if (const auto at = trees.find(name); at != trees.end()) return &at->second;
  const FamilyText* const text = find_named(family_texts(), name);
  return text ? &trees.emplace(text->name, tree_of_text(name, text->text)).first->second : nullptr;
}

Levels levels_of(const FamilyRow& family) {
  Levels levels{family.tree ? family.tree : tree_of(family.name)};
  while (const JsonTree* like = levels.front()->find("like")) {
    const std::string& name = like->as_text("like");
    const JsonTree* const tree = tree_of(name);
    if (!tree)
      like->refuse(fmt::format("no family is called '{}'{}", name,
                               choices_for(name, names_of_rows(family_texts()))));
    levels.insert(levels.begin(), tree);
  }
  return levels;
}

/// Appends the names of tensors in attention's module that a file or one of its cases has.
void add_names(const JsonTree& tree, std::string& to) {
  if (const JsonTree* const tensors = tree.find("tensors"))
    for (const auto& [key, tensor] : tensors->members)
      for (const char* word : {"name", "bias"}) {
        const JsonTree* const name = tensor.is_object()                 ? tensor.find(word)
                                     : std::string_view(word) == "name" ? &tensor
                                                                        : nullptr;
        if (!name || !name->is_text() || !is_of_attention(key)) continue;
        for (const std::string_view choice : split_at(name->text, '|'))
          if (choice.find('{') == choice.npos)
            to += fmt::format(" {} {}", choice, bias_beside(std::string(choice)));
      }
  for (const char* list : {"cases", "model_cases"})
    if (const JsonTree* const cases = tree.find(list))
      for (const JsonTree& choice : cases->elements) add_names(choice, to);
}

struct Case {
  const JsonTree* tree;
  bool holds;
};

std::vector<Case> cases_of(const JsonTree& level, Conditions& conditions, bool whole) {
  std::vector<Case> cases;
  for (const std::string_view list : {"cases", "model_cases"}) {
    const JsonTree* const of_level = list == "cases" || whole ? level.find(list) : nullptr;
    if (!of_level) continue;
    for (const JsonTree& choice : of_level->elements) {
      const JsonTree* const when = choice.find("when");
      if (!when) choice.refuse("a case without \"when\"");
      cases.push_back({&choice, conditions.hold(*when)});
    }
  }
  return cases;
}

} // namespace

bool is_recognised(const FamilyRow& family, const Group& group) {
  if (family.recognised.empty()) return true;
  static std::mutex lock;
  static std::map<std::string_view, JsonTree> trees;
  const JsonTree* when = nullptr;
  {
    const std::lock_guard hold(lock);
    const auto at = trees.find(family.name);
    when = &(at != trees.end()
                 ? at
                 : trees.emplace(family.name, tree_of_text(family.name, family.recognised)).first)
                ->second;
  }
  return Conditions(group, Levels{}).hold(*when);
}

std::string layers_of(const FamilyRow& family) {
  return std::string(layers_word(word_in(family, "layers")));
}

std::string word_in(const FamilyRow& family, std::string_view word) {
  const Levels levels = levels_of(family);
  for (auto level = levels.rbegin(); level != levels.rend(); ++level)
    if (const JsonTree* const value = (*level)->find(word)) return value->as_text(word);
  return "";
}

std::string names_in_module(const FamilyRow& family) {
  std::string names;
  for (const JsonTree* const level : levels_of(family)) add_names(*level, names);
  return names;
}

const FamilyRow& family_named(std::string_view name) {
  if (const auto* family = find_named(families(), name)) return **family;
  fail("no naming is called '{}'{}", name, choices_for(name, names_of_rows(families())));
}

const Description& description_of(const FamilyRow& family, const Group& group, bool whole) {
  static std::mutex lock;
  static std::map<std::pair<const FamilyRow*, std::string>, std::shared_ptr<const Description>>
      made;
  const Levels levels = levels_of(family);
  Conditions conditions(group, levels);
  std::vector<std::vector<Case>> cases;
  std::string key(1, whole ? '+' : ' ');
  for (const JsonTree* level : levels) {
    cases.push_back(cases_of(*level, conditions, whole));
    for (const Case& choice : cases.back()) key += choice.holds ? '1' : '0';
  }
  const std::lock_guard hold(lock);
  std::shared_ptr<const Description>& description = made[{&family, key}];
  if (description) return *description;
  JsonTree tree;
  tree.kind = JsonTree::Kind::object, tree.where = levels.back()->where;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    merge(tree, *levels[level], true);
    for (const Case& choice : cases[level])
      if (choice.holds) merge(tree, *choice.tree, true);
  }
  description = described_family(tree, family);
  return *description;
}

} // namespace mha::naming
