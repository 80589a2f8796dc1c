#pragma once
// A vocabulary: the ids of a tokenizer's pieces. A large model has a quarter of a million pieces,
// so their bytes are stored contiguously, and a hash table with open addressing finds them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mha::tokenizers {

/// The largest accepted id: no model has as many embeddings, so a larger one means a damaged file.
constexpr int most_id = (1 << 24) - 1;

class Vocabulary {
public:
  /// Reserves memory for `count` pieces of `bytes` bytes in all, including four for each length.
  void reserve(std::size_t count, std::size_t bytes);
  /// Adds a piece; returns false and keeps the old id if the vocabulary already has it.
  bool add(std::string_view piece, int id);
  /// Sorts the pieces by id; must be called after the last one was added. Returns an id that two
  /// pieces share, or nothing.
  std::optional<int> finish();

  std::optional<int> id_of(std::string_view piece) const;
  /// The ids of many pieces, -1 for a text that is not a piece. The slots are prefetched together,
  /// so that cache misses overlap.
  void ids_of(std::span<const std::string_view> pieces, std::span<int> ids) const;
  /// The piece with an id, or nothing.
  std::optional<std::string_view> piece_of(int id) const;
  std::size_t count() const { return entries_.size(); }
  /// One more than the largest id.
  int size() const { return entries_.empty() ? 0 : entries_.back().id + 1; }
  /// Calls visit(id, piece) for all pieces in the order of their ids.
  template <class Visit> void each(const Visit& visit) const {
    for (const VocabularyEntry& entry : entries_) visit(entry.id, text_of(entry));
  }

private:
  struct VocabularyEntry {
    int id;
    std::uint32_t begin, length; ///< of its bytes
  };
  struct VocabularySlot {
    std::uint64_t key = 0;   ///< the piece itself if it is short, otherwise a hash of it
    std::uint32_t begin = 0; ///< of its bytes; 0: the slot is free
    int id = 0;
  };
  std::string_view text_of(const VocabularyEntry& entry) const {
    return std::string_view(bytes_).substr(entry.begin, entry.length);
  }
  /// The slot of a piece, or the free one where it belongs.
  std::size_t slot_of(std::string_view piece, std::uint64_t key) const;
  /// Whether the bytes at `begin`, with the length before them, are those of `piece`.
  bool holds(std::string_view piece, std::uint32_t begin) const;
  /// Makes the table `count` slots large, a power of two, and moves the pieces into it.
  void set_slots(std::size_t count);

  std::string bytes_;                    ///< of all pieces, each after its length
  std::vector<VocabularyEntry> entries_; ///< in the order of their ids, once finished
  std::vector<VocabularySlot> slots_;    ///< a power of two in number, at least a third free
};

} // namespace mha::tokenizers
