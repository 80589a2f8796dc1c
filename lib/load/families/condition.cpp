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

bool stands_beside(const JsonTree& condition, const JsonTree& name, const Group& group) {
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

} // namespace

void require_condition(const JsonTree& condition) {
  constexpr std::string_view words[]{"model",     "says",    "configured", "config", "has",
                                     "beside",    "in_file", "within",     "ends",   "not",
                                     "is_prefix", "format",  "number",     "test",   "all",
                                     "any",       "is",      "default",    "above"};
  if (!condition.is_object()) condition.refuse("a condition is an object");
  for (const auto& [word, value] : condition.members) {
    if (!is_one_of(word, words))
      value.refuse(fmt::format("'{}' is no condition{}", word, did_you_mean(word, words)));
    if (word == "not") {
      require_condition(value);
    } else if (word == "all" || word == "any") {
      if (!value.is_list()) value.refuse(fmt::format("{} must be a list of conditions", word));
      std::ranges::for_each(value.elements, require_condition);
    } else if (word == "number" || word == "above") {
      const double number = value.as_number(word);
      constexpr double most = 4096;
      if (!(number >= 0 && number <= most) || number != std::floor(number))
        value.refuse(
            fmt::format("{} is {}: a whole number from 0 to {} expected", word, number, most));
    } else if (word == "default") {
      value.as_boolean(word);
    } else {
      value.as_text(word);
    }
    if ((word == "is" || word == "default") && !condition.find("config"))
      value.refuse(fmt::format("{} is of config", word));
  }
}

bool Conditions::hold(const JsonTree& condition) {
  if (!condition.is_object()) condition.refuse("a condition is an object");
  return std::ranges::all_of(
      condition.members, [&](const JsonMember& member) { return holds_member(condition, member); });
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
        if (++depth_ > most) name.refuse(fmt::format("test '{}' asks for itself", name.text));
        const bool holds = hold(*own);
        --depth_;
        return holds;
      }
  const GroupTest* const test = find_named(group_tests(), name.as_text("test"));
  if (!test) name.refuse(fmt::format("there is no test '{}'", name.text));
  return test->holds(group_);
}

/// One member of a condition; "is", "default" and "above" belong to others.
bool Conditions::holds_member(const JsonTree& condition, const JsonMember& member) {
  const auto& [word, value] = member;
  const auto one = [&](const JsonTree& part) { return hold(part); };
  if (word == "model") return is_model(value);
  if (word == "says") return group_.says(value.as_text("says"));
  if (word == "configured") return group_.configured(value.as_text("configured")).has_value();
  if (word == "config") return is_configured(condition, value, group_);
  if (word == "has") return group_.has(value.as_text("has"));
  if (word == "beside") return stands_beside(condition, value, group_);
  if (word == "in_file") return group_.elsewhere(value.as_text("in_file")) != nullptr;
  if (word == "within") return is_within(value, group_);
  if (word == "ends") return ends_with_one(value, group_);
  if (word == "is_prefix") return group_.prefix == value.as_text("is_prefix");
  if (word == "format") return group_.contents->format == value.as_text("format");
  if (word == "number")
    return group_.number() == static_cast<std::size_t>(value.as_number("number"));
  if (word == "test") return passes(value);
  if (word == "not") return !hold(value);
  if (word == "all") return std::ranges::all_of(value.elements, one);
  if (word == "any") return std::ranges::any_of(value.elements, one);
  if (word == "is" || word == "default" || word == "above") return true;
  value.refuse(fmt::format("'{}' is no condition", word));
}

} // namespace mha::naming
