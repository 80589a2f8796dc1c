#pragma once
// Tables whose rows have names.

#include <algorithm>
#include <string_view>
#include <vector>

namespace mha {

/// The name of a table's row, which may be given by a pointer.
template <class Row> std::string_view name_of_row(const Row& row) {
  if constexpr (requires { row.name; })
    return row.name;
  else
    return row->name;
}

/// The first row with that name; nullptr if there is none.
template <class Rows> auto find_named(const Rows& rows, std::string_view name) {
  const auto at =
      std::ranges::find_if(rows, [&](const auto& row) { return name_of_row(row) == name; });
  return at == std::end(rows) ? nullptr : &*at;
}

/// The names of a table's rows, in its order.
template <class Name = std::string_view, class Rows>
std::vector<Name> names_of_rows(const Rows& rows) {
  std::vector<Name> names;
  for (const auto& row : rows) names.emplace_back(name_of_row(row));
  return names;
}

} // namespace mha
