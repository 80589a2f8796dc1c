#pragma once
// The names that a C++ header declares for programs: types, their public members, functions,
// enumerators, aliases.

#include <set>
#include <string>

namespace mha::test {

/// Of a header's text: "mha::Run::with", "mha::Stage::weights". Private and protected members, and
/// what a function or an initialiser has inside, are left out.
std::set<std::string> declared_names(const std::string& header);

} // namespace mha::test
