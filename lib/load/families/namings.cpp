#include <mha/load/families/namings.hpp>

#include <mha/system/named.hpp>

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
  if (const auto* family = find_named(families(), name)) return **family;
  fail("no naming is called '{}'{}", name, choices_for(name, names_of_rows(families())));
}

} // namespace mha::naming
