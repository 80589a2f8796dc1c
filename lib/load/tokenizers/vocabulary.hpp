#pragma once
// Pieces and their numbers.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mha::tokenizers {

/// Larger numbers than any model has rows: such a claim is a mistake.
constexpr int most_id = (1 << 24) - 1;

/// Lets maps of strings be asked with views.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

class Vocabulary {
public:
  /// False where the piece is there already.
  bool add(std::string piece, int id);
  /// To be called when all are there. A number that two pieces have, or nothing.
  std::optional<int> finish();

  std::optional<int> id_of(std::string_view piece) const;
  /// The piece of a number, or nullptr.
  const std::string* piece_of(int id) const;
  std::size_t count() const { return ids_.size(); }
  /// One more than the largest number.
  int size() const { return pieces_.empty() ? 0 : pieces_.back().first + 1; }
  /// The pieces in the order of their numbers.
  const std::vector<std::pair<int, const std::string*>>& pieces() const { return pieces_; }

private:
  std::unordered_map<std::string, int, TextHash, std::equal_to<>> ids_;
  std::vector<std::pair<int, const std::string*>> pieces_;
};

} // namespace mha::tokenizers
