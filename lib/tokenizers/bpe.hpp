#pragma once
// Byte-pair encoding.

#include <mha/tokenizers/models.hpp>

#include <array>
#include <span>

namespace mha::tokenizers {

struct BpeSettings {
  std::optional<int> unknown; ///< the token for characters without one; otherwise they are dropped
  std::string lost_unknown;   ///< the piece of an unknown token that the vocabulary lacks, or ""
  bool fuse_unk = false;      ///< consecutive unknown characters are one token
  bool byte_fallback = false; ///< a character without a token becomes its bytes, <0xE2> …
  bool ignore_merges = false; ///< a word that is in the vocabulary is one token
  std::string prefix;         ///< before every piece except a word's first
  std::string suffix;         ///< after a word's last piece
};

/// The merges of two tokens, by id, in a flat table because a large model has half a million.
class Merges {
public:
  struct MergedPair {
    int left = 0, right = 0, merged = 0;
  };
  void reserve(std::size_t count);
  /// Adds merges, which are ranked in order. If a pair occurs twice, the later merge counts.
  void add(std::span<const MergedPair> merges);
  /// The rank of the merge of two tokens, or nothing.
  std::optional<std::uint32_t> rank_of(int left, int right) const;
  /// The result of a merge.
  int merged(std::uint32_t rank) const { return merged_[rank]; }

private:
  struct PairSlot {
    std::uint64_t pair = 0; ///< the ids of both parts
    std::uint32_t rank = 0; ///< the rank plus one; 0: the slot is free
  };
  /// The slot of a pair, or the free one where it belongs.
  std::size_t slot_of(std::uint64_t pair) const;
  void set_slots(std::size_t count);

  std::vector<int> merged_;     ///< by rank
  std::vector<PairSlot> slots_; ///< a power of two in number, a third of them free
};

class Bpe : public Model {
public:
  Bpe(Vocabulary vocabulary, BpeSettings settings);

  void reserve_merges(std::size_t count) { merges_.reserve(count); }
  /// Adds the next merge. Throws Error if a piece is not in the vocabulary.
  void add_merge(std::string_view left, std::string_view right);
  /// Adds the next merges, at most `at_once`, given by their left and right parts. Stops at the
  /// first impossible one and returns it; otherwise returns nothing.
  struct Impossible {
    std::size_t place; ///< index in the spans
    std::string why;   ///< "a merge of 'x', which is not in the vocabulary"
  };
  static constexpr std::size_t at_once = 64;
  std::optional<Impossible> add_merges(std::span<const std::string_view> left,
                                       std::span<const std::string_view> right);
  void cut(std::string_view word, std::vector<Cut>& tokens) const override;

private:
  int merged_of(std::string_view left, std::string_view right);
  /// The word's characters as tokens, before any merge.
  std::vector<Cut> characters(std::string_view word) const;
  /// Appends a piece byte by byte if the vocabulary has all its bytes.
  bool in_bytes(std::string_view piece, Cut place, std::vector<Cut>& list) const;
  void merge(std::vector<Cut>& tokens) const;

  BpeSettings settings_;
  Merges merges_;
  std::string both_;                          ///< the joined parts of the merge that is added
  int last_merged_ = 0;                       ///< the result of the previous merge
  std::array<std::optional<int>, 256> bytes_; ///< the tokens <0x00> to <0xFF>
};

} // namespace mha::tokenizers
