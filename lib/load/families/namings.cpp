#include <mha/load/families/namings.hpp>

#include <array>

namespace mha::naming {

namespace {

#define MHA_ADDRESS_OF_FAMILY(name) &name,
const std::array list{MHA_FAMILIES(MHA_ADDRESS_OF_FAMILY)};
#undef MHA_ADDRESS_OF_FAMILY

} // namespace

std::span<const Family* const> families() {
  return list;
}

const Family& family_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Family* family : families()) {
    if (family->name == name) return *family;
    names.push_back(family->name);
  }
  fail("no naming is called '{}'{}", name, choices_for(name, names));
}

} // namespace mha::naming
