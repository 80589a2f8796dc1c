#include "naming/namings.hpp"

#include <array>

namespace mha::naming {

namespace {

// A family is its own file and one line here.
const std::array list{
    &llama,
    &pytorch,
};

} // namespace

std::span<const Family* const> families() { return list; }

const Family& family_named(std::string_view name) {
  std::vector<std::string_view> names;
  std::string choices;
  for (const Family* family : families()) {
    if (family->name == name) return *family;
    names.push_back(family->name);
    choices += fmt::format("{}{}", choices.empty() ? "" : ", ", family->name);
  }
  fail("no naming is called '{}'{}; there are {}", name, did_you_mean(name, names), choices);
}

} // namespace mha::naming
