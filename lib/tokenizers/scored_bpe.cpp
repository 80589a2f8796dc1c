// SentencePiece's byte-pair encoding: of the pairs of neighbours whose text is a piece, the one
// with the highest score becomes it first. There is no list of merges.

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
    // A symbol that may still grow, in a chain; an empty one was merged into the one before.
    struct Symbol {
      std::size_t begin, end, before, behind;
    };
    struct Pair {
      float score;
      std::size_t left, end; ///< the place of the left one, and where the right one ends
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
      if (left >= chain.size() || chain[left].behind >= chain.size()) return;
      const std::size_t begin = chain[left].begin, end = chain[chain[left].behind].end;
      if (const auto id = vocabulary_.id_of(word.substr(begin, end - begin)))
        pairs.push({scores_[static_cast<std::size_t>(*id)], left, end});
    };
    for (std::size_t i = 0; i < chain.size(); ++i) note(i);
    while (!pairs.empty()) {
      const Pair best = pairs.top();
      pairs.pop();
      Symbol& left = chain[best.left];
      // Either may have grown since, or gone.
      if (left.begin == left.end || left.behind >= chain.size()) continue;
      Symbol& right = chain[left.behind];
      if (right.end != best.end) continue;
      left.end = right.end;
      right.begin = right.end;
      left.behind = right.behind;
      if (left.behind < chain.size()) chain[left.behind].before = best.left;
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

  /// A symbol as its piece, else as bytes, else as the unknown token.
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

  std::vector<float> scores_;                 ///< by number
  std::array<std::optional<int>, 256> bytes_; ///< the tokens <0x00> to <0xFF>
};

} // namespace

std::unique_ptr<Model> scored_bpe(Vocabulary vocabulary, std::vector<float> scores,
                                  std::optional<int> unknown) {
  return std::make_unique<ScoredBpe>(std::move(vocabulary), std::move(scores), unknown);
}

} // namespace mha::tokenizers
