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

/// Words that say when others hold, and texts that add up.
constexpr std::string_view of_cases[]{"cases", "model_cases", "when", "like", "tests"},
    texts_of_cases[]{"note", "warn", "refuse"};

bool is_among(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// Puts `from` over `to`: objects member by member, all else in the place of what was there.
void merge(JsonTree& to, const JsonTree& from, bool top) {
  for (const auto& [name, value] : from.members) {
    if (top && is_among(name, of_cases)) continue;
    JsonTree* there = nullptr;
    for (JsonMember& member : to.members)
      if (member.name == name) there = &member.value;
    if (!there) {
      to.members.push_back({name, value});
    } else if (top && name == "known") {
      there->elements.insert(there->elements.end(), value.elements.begin(), value.elements.end());
    } else if (top && is_among(name, texts_of_cases)) {
      there->elements.push_back(value);
    } else if (there->is_object() && value.is_object()) {
      merge(*there, value, false);
    } else {
      *there = value;
    }
    if (!there && top && is_among(name, texts_of_cases)) {
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

/// The parsed text of a file, once it was needed; nullptr: no file is called so.
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

/// The names in attention's module of the tensors that a file, or one of its cases, says.
void add_names(const JsonTree& tree, std::string& to) {
  if (const JsonTree* const tensors = tree.find("tensors"))
    for (const auto& [key, tensor] : tensors->members)
      for (const char* word : {"name", "bias"}) {
        const JsonTree* const name = tensor.is_object()                 ? tensor.find(word)
                                     : std::string_view(word) == "name" ? &tensor
                                                                        : nullptr;
        if (!name || !name->is_text() || !is_of_attention(key)) continue;
        for (const std::string_view one : split_at(name->text, '|'))
          if (one.find('{') == one.npos)
            to += fmt::format(" {} {}", one, bias_beside(std::string(one)));
      }
  for (const char* list : {"cases", "model_cases"})
    if (const JsonTree* const cases = tree.find(list))
      for (const JsonTree& one : cases->elements) add_names(one, to);
}

struct Case {
  const JsonTree* tree;
  bool holds;
};

std::vector<Case> cases_of(const JsonTree& level, Conditions& conditions, bool whole) {
  std::vector<Case> cases;
  for (const std::string_view list : {"cases", "model_cases"}) {
    const JsonTree* const there = list == "cases" || whole ? level.find(list) : nullptr;
    if (!there) continue;
    for (const JsonTree& one : there->elements) {
      const JsonTree* const when = one.find("when");
      if (!when) one.refuse("a case without \"when\"");
      cases.push_back({&one, conditions.hold(*when)});
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
    if (const JsonTree* const there = (*level)->find(word)) return there->as_text(word);
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

const Description& said_of(const FamilyRow& family, const Group& group, bool whole) {
  static std::mutex lock;
  static std::map<std::pair<const FamilyRow*, std::string>, std::shared_ptr<const Description>>
      made;
  const Levels levels = levels_of(family);
  Conditions conditions(group, levels);
  std::vector<std::vector<Case>> cases;
  std::string key(1, whole ? '+' : ' ');
  for (const JsonTree* level : levels) {
    cases.push_back(cases_of(*level, conditions, whole));
    for (const Case& one : cases.back()) key += one.holds ? '1' : '0';
  }
  const std::lock_guard hold(lock);
  std::shared_ptr<const Description>& description = made[{&family, key}];
  if (description) return *description;
  JsonTree tree;
  tree.kind = JsonTree::Kind::object, tree.where = levels.back()->where;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    merge(tree, *levels[level], true);
    for (const Case& one : cases[level])
      if (one.holds) merge(tree, *one.tree, true);
  }
  description = described_family(tree, family);
  return *description;
}

} // namespace mha::naming
