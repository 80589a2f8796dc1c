#pragma once
// Byte-pair encoding.

#include <mha/load/tokenizers/models.hpp>

#include <array>
#include <unordered_map>

namespace mha::tokenizers {

struct BpeSettings {
  std::optional<int> unknown; ///< the token of characters that have none; without it they vanish
  bool fuse_unk = false;      ///< several unknown characters on end are one token
  bool byte_fallback = false; ///< a character that has no token becomes its bytes, <0xE2> …
  bool ignore_merges = false; ///< a whole word of the vocabulary is taken as it is
  std::string prefix;         ///< before every piece but a word's first
  std::string suffix;         ///< behind a word's last piece
};

class Bpe : public Model {
public:
  Bpe(Vocabulary vocabulary, BpeSettings settings);

  /// The next merge; its rank is its place. Throws Error where a piece is not in the vocabulary.
  void add_merge(std::string_view left, std::string_view right);
  void cut(std::string_view word, std::vector<Cut>& tokens) const override;

private:
  struct Merged {
    int rank, id;
  };
  /// The word's characters as tokens, before any merge.
  std::vector<Cut> characters(std::string_view word) const;
  /// Appends a piece byte by byte, where the vocabulary has all of them.
  bool in_bytes(std::string_view piece, Cut place, std::vector<Cut>& list) const;
  void merge(std::vector<Cut>& tokens) const;

  BpeSettings settings_;
  std::unordered_map<std::uint64_t, Merged> merges_; ///< by the numbers of both parts
  std::size_t count_ = 0;
  std::array<std::optional<int>, 256> bytes_; ///< the tokens <0x00> to <0xFF>
};

} // namespace mha::tokenizers
