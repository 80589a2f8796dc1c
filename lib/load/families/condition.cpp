#include <mha/load/families/condition.hpp>

#include <mha/load/families/steps.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>

namespace mha::naming {

namespace {

/// {"config": KEY}, with "is" or "default".
bool is_configured(const JsonTree& condition, const JsonTree& key, const Group& group) {
  const std::string_view name = key.as_text("config");
  if (const JsonTree* words = condition.find("is")) {
    const std::optional<std::string> value = group.configured(name);
    return value && has_word(words->as_text("is"), *value);
  }
  const JsonTree* otherwise = condition.find("default");
  return group.is_true({name}, otherwise && otherwise->as_boolean("default"));
}

bool is_beside(const JsonTree& condition, const JsonTree& name, const Group& group) {
  const JsonTree* above = condition.find("above");
  const auto levels = above ? static_cast<std::size_t>(above->as_number("above")) : 1;
  return group.beside(name.as_text("beside"), levels);
}

bool ends_with_one(const JsonTree& words, const Group& group) {
  return std::ranges::any_of(words_of(words.as_text("ends")),
                             [&](std::string_view end) { return group.prefix.ends_with(end); });
}

bool is_within(const JsonTree& words, const Group& group) {
  return std::ranges::any_of(words_of(words.as_text("within")),
                             [&](std::string_view part) { return group.within({part}); });
}

/// The kind of value that a word of a condition takes.
enum class Takes : std::uint8_t { text, number, truth, condition, conditions };

/// A word of a condition. `holds` is nullptr for an argument of another word.
struct ConditionWord {
  std::string_view name;
  Takes takes;
  bool (*holds)(Conditions& conditions, const JsonTree& condition, const JsonTree& value);
};

using C = Conditions;
using J = JsonTree;
constexpr ConditionWord words[]{
    {"model", Takes::text, [](C& c, const J&, const J& value) { return c.is_model(value); }},
    {"says", Takes::text,
     [](C& c, const J&, const J& value) { return c.group().has_key(value.text); }},
    {"configured", Takes::text,
     [](C& c, const J&, const J& value) { return c.group().configured(value.text).has_value(); }},
    {"config", Takes::text,
     [](C& c, const J& condition, const J& value) {
       return is_configured(condition, value, c.group());
     }},
    {"is", Takes::text, nullptr},
    {"default", Takes::truth, nullptr},
    {"has", Takes::text, [](C& c, const J&, const J& value) { return c.group().has(value.text); }},
    {"beside", Takes::text,
     [](C& c, const J& condition, const J& value) {
       return is_beside(condition, value, c.group());
     }},
    {"above", Takes::number, nullptr},
    {"in_file", Takes::text,
     [](C& c, const J&, const J& value) { return c.group().elsewhere(value.text) != nullptr; }},
    {"within", Takes::text,
     [](C& c, const J&, const J& value) { return is_within(value, c.group()); }},
    {"ends", Takes::text,
     [](C& c, const J&, const J& value) { return ends_with_one(value, c.group()); }},
    {"is_prefix", Takes::text,
     [](C& c, const J&, const J& value) { return c.group().prefix == value.text; }},
    {"format", Takes::text,
     [](C& c, const J&, const J& value) { return c.group().contents->format == value.text; }},
    {"number", Takes::number,
     [](C& c, const J&, const J& value) {
       return c.group().number() == static_cast<std::size_t>(value.number);
     }},
    {"test", Takes::text, [](C& c, const J&, const J& value) { return c.passes(value); }},
    {"not", Takes::condition, [](C& c, const J&, const J& value) { return !c.hold(value); }},
    {"all", Takes::conditions,
     [](C& c, const J&, const J& value) {
       return std::ranges::all_of(value.elements, [&](const J& part) { return c.hold(part); });
     }},
    {"any", Takes::conditions,
     [](C& c, const J&, const J& value) {
       return std::ranges::any_of(value.elements, [&](const J& part) { return c.hold(part); });
     }},
};

void require_number(const JsonTree& value, std::string_view word) {
  const double number = value.as_number(word);
  constexpr double most = 4096;
  if (!(number >= 0 && number <= most) || number != std::floor(number))
    value.refuse(fmt::format("{} is {}: a whole number from 0 to {} expected", word, number, most));
}

} // namespace

void require_condition(const JsonTree& condition) {
  if (!condition.is_object()) condition.refuse("a condition is an object");
  for (const auto& [name, value] : condition.members) {
    const ConditionWord* const word = find_named(words, name);
    if (!word)
      value.refuse(
          fmt::format("'{}' is not a condition{}", name, did_you_mean(name, names_of_rows(words))));
    switch (word->takes) {
    case Takes::text:
      value.as_text(name);
      break;
    case Takes::number:
      require_number(value, name);
      break;
    case Takes::truth:
      value.as_boolean(name);
      break;
    case Takes::condition:
      require_condition(value);
      break;
    case Takes::conditions:
      if (!value.is_list()) value.refuse(fmt::format("{} must be a list of conditions", name));
      std::ranges::for_each(value.elements, require_condition);
      break;
    }
    if ((name == "is" || name == "default") && !condition.find("config"))
      value.refuse(fmt::format("{} is only for config", name));
    if (name == "above" && !condition.find("beside")) value.refuse("above is only for beside");
  }
}

bool Conditions::hold(const JsonTree& condition) {
  if (!condition.is_object()) condition.refuse("a condition is an object");
  return std::ranges::all_of(condition.members, [&](const JsonMember& member) {
    const ConditionWord* const word = find_named(words, member.name);
    if (!word) member.value.refuse(fmt::format("'{}' is not a condition", member.name));
    return !word->holds || word->holds(*this, condition, member.value);
  });
}

bool Conditions::is_model(const JsonTree& words) {
  if (!types_) types_ = group_.model_types();
  return std::ranges::any_of(
      *types_, [&](const std::string& type) { return has_word(words.as_text("model"), type); });
}

bool Conditions::passes(const JsonTree& name) {
  for (const JsonTree* level : levels_)
    if (const JsonTree* const tests = level->find("tests"))
      if (const JsonTree* const own = tests->find(name.as_text("test"))) {
        constexpr std::size_t most = 32;
        if (++depth_ > most) name.refuse(fmt::format("test '{}' uses itself", name.text));
        const bool holds = hold(*own);
        --depth_;
        return holds;
      }
  const GroupTest* const test = find_named(group_tests(), name.as_text("test"));
  if (!test) name.refuse(fmt::format("there is no test '{}'", name.text));
  return test->holds(group_);
}

} // namespace mha::naming
