// SentencePiece's byte-pair encoding without a list of merges: of the neighbours whose joined text
// is a piece, those with the highest score are merged first.

#include <mha/tokenizers/gguf.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <array>
#include <queue>

namespace mha::tokenizers {

namespace {

class ScoredBpe : public Model {
public:
  ScoredBpe(Vocabulary vocabulary, std::vector<float> scores, std::optional<int> unknown)
      : scores_(std::move(scores)) {
    vocabulary_ = std::move(vocabulary), unknown_ = unknown;
    for (unsigned byte = 0; byte < 256; ++byte)
      bytes_[byte] = vocabulary_.id_of(fmt::format("<0x{:02X}>", byte));
  }

  void cut(std::string_view word, std::vector<Cut>& tokens) const override {
    // A symbol that may still grow, in a linked list; an empty one was merged into the previous
    // one.
    struct Symbol {
      std::size_t begin, end, before, after;
    };
    struct Pair {
      float score;
      std::size_t left, end; ///< index of the left symbol, end of the right one
      bool operator<(const Pair& other) const {
        return score != other.score ? score < other.score : left > other.left;
      }
    };
    std::vector<Symbol> chain;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t next = at + length_of(word[at]), i = chain.size();
      chain.push_back({at, next, i - 1, i + 1});
      at = next;
    }
    std::priority_queue<Pair> pairs;
    const auto note = [&](std::size_t left) {
      if (left >= chain.size() || chain[left].after >= chain.size()) return;
      const std::size_t begin = chain[left].begin, end = chain[chain[left].after].end;
      if (const auto id = vocabulary_.id_of(word.substr(begin, end - begin)))
        pairs.push({scores_[static_cast<std::size_t>(*id)], left, end});
    };
    for (std::size_t i = 0; i < chain.size(); ++i) note(i);
    while (!pairs.empty()) {
      const Pair best = pairs.top();
      pairs.pop();
      Symbol& left = chain[best.left];
      // Either may have grown or been merged since.
      if (left.begin == left.end || left.after >= chain.size()) continue;
      Symbol& right = chain[left.after];
      if (right.end != best.end) continue;
      left.end = right.end;
      right.begin = right.end;
      left.after = right.after;
      if (left.after < chain.size()) chain[left.after].before = best.left;
      note(left.before);
      note(best.left);
    }
    for (const Symbol& symbol : chain)
      if (symbol.begin < symbol.end) put(word, symbol.begin, symbol.end, tokens);
  }

private:
  static Cut made(int id, std::size_t begin, std::size_t end) {
    Cut cut;
    cut.id = id;
    cut.begin = static_cast<decltype(cut.begin)>(begin);
    cut.end = static_cast<decltype(cut.end)>(end);
    return cut;
  }

  /// Appends a symbol as its piece, or else as bytes, or else as the unknown token.
  void put(std::string_view word, std::size_t begin, std::size_t end,
           std::vector<Cut>& tokens) const {
    const std::string_view text = word.substr(begin, end - begin);
    const auto byte_of = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
    if (const auto id = vocabulary_.id_of(text)) {
      tokens.push_back(made(*id, begin, end));
    } else if (std::ranges::all_of(text, [&](char c) { return byte_of(c).has_value(); })) {
      for (std::size_t i = begin; i < end; ++i) tokens.push_back(made(*byte_of(word[i]), i, i + 1));
    } else if (unknown_) {
      tokens.push_back(made(*unknown_, begin, end));
    } else {
      fail("no token for '{}', and this tokenizer has no unknown one", io::shown(text));
    }
  }

  std::vector<float> scores_;                 ///< by id
  std::array<std::optional<int>, 256> bytes_; ///< the tokens <0x00> to <0xFF>
};

} // namespace

std::unique_ptr<Model> scored_bpe(Vocabulary vocabulary, std::vector<float> scores,
                                  std::optional<int> unknown) {
  return std::make_unique<ScoredBpe>(std::move(vocabulary), std::move(scores), unknown);
}

} // namespace mha::tokenizers
