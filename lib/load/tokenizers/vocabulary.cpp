#include <mha/load/tokenizers/vocabulary.hpp>

#include <algorithm>

namespace mha::tokenizers {

bool Vocabulary::add(std::string piece, int id) {
  const auto [at, is_new] = ids_.emplace(std::move(piece), id);
  if (is_new) pieces_.emplace_back(id, &at->first);
  return is_new;
}

std::optional<int> Vocabulary::finish() {
  std::ranges::sort(pieces_, {}, [](const auto& entry) { return entry.first; });
  const auto twice =
      std::ranges::adjacent_find(pieces_, {}, [](const auto& entry) { return entry.first; });
  return twice == pieces_.end() ? std::nullopt : std::optional(twice->first);
}

std::optional<int> Vocabulary::id_of(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Vocabulary::piece_of(int id) const {
  const auto found =
      std::ranges::lower_bound(pieces_, id, {}, [](const auto& entry) { return entry.first; });
  return found == pieces_.end() || found->first != id ? nullptr : found->second;
}

} // namespace mha::tokenizers
