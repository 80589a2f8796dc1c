#pragma once
// One function that writes a map's entries to fields or reads them.

#include <cstddef>
#include <utility>

namespace mha {

/// Visits the number of entries, then calls `visit(key, value)` for each, which visits the fields
/// of both. Entries that are read are added to the map. `fields` has writes() and field(number).
template <class Fields, class Map, class Visit>
void visit_entries(Fields& fields, Map& map, const Visit& visit) {
  std::size_t count = map.size();
  fields.field(count);
  if (fields.writes())
    for (auto& [key, value] : map) {
      auto own = key;
      visit(own, value);
    }
  else
    for (; count > 0; --count) {
      typename Map::key_type key{};
      typename Map::mapped_type value{};
      visit(key, value);
      map.insert_or_assign(key, std::move(value));
    }
}

} // namespace mha
