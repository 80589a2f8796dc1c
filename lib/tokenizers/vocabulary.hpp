#pragma once
// Pieces and their numbers. A large model has a quarter of a million: their bytes lie on end, and a
// flat table of hashes finds them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mha::tokenizers {

/// Larger numbers than any model has rows: such a claim is a mistake.
constexpr int most_id = (1 << 24) - 1;

class Vocabulary {
public:
  /// Room for so many pieces, of so many bytes together with four each.
  void reserve(std::size_t count, std::size_t bytes);
  /// False where the piece is there already.
  bool add(std::string_view piece, int id);
  /// To be called when all are there. A number that two pieces have, or nothing.
  std::optional<int> finish();

  std::optional<int> id_of(std::string_view piece) const;
  /// The numbers of many pieces, -1 of those that are none: they wait for memory together.
  void ids_of(std::span<const std::string_view> pieces, std::span<int> ids) const;
  /// The piece of a number, or nothing.
  std::optional<std::string_view> piece_of(int id) const;
  std::size_t count() const { return entries_.size(); }
  /// One more than the largest number.
  int size() const { return entries_.empty() ? 0 : entries_.back().id + 1; }
  /// Calls visit(id, piece) for all pieces in the order of their numbers.
  template <class Visit> void each(const Visit& visit) const {
    for (const Entry& entry : entries_) visit(entry.id, text_of(entry));
  }

private:
  struct Entry {
    int id;
    std::uint32_t begin, length; ///< of its bytes
  };
  struct Slot {
    std::uint64_t key = 0;   ///< the piece itself where it is short, else a hash of it
    std::uint32_t begin = 0; ///< of its bytes; 0: the slot is free
    int id = 0;
  };
  std::string_view text_of(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.begin, entry.length);
  }
  /// The slot of a piece, or the free one that it would take.
  std::size_t slot_of(std::string_view piece, std::uint64_t key) const;
  bool is_at(std::string_view piece, std::uint32_t begin) const;
  /// As many slots, a power of two; those that are taken are moved.
  void set_slots(std::size_t count);

  std::string bytes_;          ///< of all pieces, each behind its length
  std::vector<Entry> entries_; ///< in the order of their numbers, once finished
  std::vector<Slot> slots_;    ///< a power of two of them, a third of them free
};

} // namespace mha::tokenizers
