#pragma once
// Byte-pair encoding.

#include <mha/tokenizers/models.hpp>

#include <array>
#include <span>

namespace mha::tokenizers {

struct BpeSettings {
  std::optional<int> unknown; ///< the token of characters that have none; without it they vanish
  std::string lost_unknown;   ///< the same, named though the vocabulary lacks it; else ""
  bool fuse_unk = false;      ///< several unknown characters on end are one token
  bool byte_fallback = false; ///< a character that has no token becomes its bytes, <0xE2> …
  bool ignore_merges = false; ///< a whole word of the vocabulary is taken as it is
  std::string prefix;         ///< before every piece but a word's first
  std::string suffix;         ///< behind a word's last piece
};

/// What two tokens become, by their numbers: a flat table, as a large model has half a million.
class Merges {
public:
  struct MergedPair {
    int left = 0, right = 0, merged = 0;
  };
  /// Room for so many.
  void reserve(std::size_t count);
  /// The next ones; the rank of each is its place. Of the same two parts twice, the later counts.
  void add(std::span<const MergedPair> merges);
  /// The rank of the merge of two tokens, or nothing.
  std::optional<std::uint32_t> rank_of(int left, int right) const;
  /// What a merge becomes.
  int merged(std::uint32_t rank) const { return merged_[rank]; }

private:
  struct Slot {
    std::uint64_t pair = 0; ///< the numbers of both parts
    std::uint32_t rank = 0; ///< one more than it; 0: the slot is free
  };
  /// The slot of two parts, or the free one that they would take.
  std::size_t slot_of(std::uint64_t pair) const;
  void set_slots(std::size_t count);

  std::vector<int> merged_; ///< by rank
  std::vector<Slot> slots_; ///< a power of two of them, a third of them free
};

class Bpe : public Model {
public:
  Bpe(Vocabulary vocabulary, BpeSettings settings);

  /// Room for so many merges.
  void reserve_merges(std::size_t count) { merges_.reserve(count); }
  /// The next merge; its rank is its place. Throws Error where a piece is not in the vocabulary.
  void add_merge(std::string_view left, std::string_view right);
  /// The next merges, a few at a time, by their left parts and their right ones; the rank of each
  /// is its place. Those that are possible are added; nothing is returned where all are, else the
  /// place of the first that is not.
  struct Impossible {
    std::size_t place;
    std::string why; ///< "a merge of 'x', which is not in the vocabulary"
  };
  static constexpr std::size_t at_once = 64;
  std::optional<Impossible> add_merges(std::span<const std::string_view> left,
                                       std::span<const std::string_view> right);
  void cut(std::string_view word, std::vector<Cut>& tokens) const override;

private:
  int merged_of(std::string_view left, std::string_view right);
  /// The word's characters as tokens, before any merge.
  std::vector<Cut> characters(std::string_view word) const;
  /// Appends a piece byte by byte, where the vocabulary has all of them.
  bool in_bytes(std::string_view piece, Cut place, std::vector<Cut>& list) const;
  void merge(std::vector<Cut>& tokens) const;

  BpeSettings settings_;
  Merges merges_;
  std::string both_;                          ///< the two parts of the merge that is added
  int last_merged_ = 0;                       ///< what the merge before became
  std::array<std::optional<int>, 256> bytes_; ///< the tokens <0x00> to <0xFF>
};

} // namespace mha::tokenizers
