// Cuts a word in the likeliest way: every piece has a score, its log probability, and the way with
// the largest sum wins.

#include <mha/tokenizers/models.hpp>
#include <mha/tokenizers/prefixes.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <array>

namespace mha::tokenizers {

namespace {

struct Scored {
  std::vector<double> scores; ///< by id
  std::optional<int> unknown;
  bool byte_fallback = false;
};

class Unigram : public Model {
public:
  Unigram(Vocabulary vocabulary, Scored scored) : scored_(std::move(scored)) {
    vocabulary_ = std::move(vocabulary), unknown_ = scored_.unknown;
    vocabulary_.each([&](int id, std::string_view piece) { pieces_.add(piece, id); });
    pieces_.finish();
    constexpr double unknown_penalty = 10;
    unknown_score_ = std::ranges::min(scored_.scores) - unknown_penalty;
    for (unsigned byte = 0; byte < 256; ++byte)
      bytes_[byte] = vocabulary_.id_of(fmt::format("<0x{:02X}>", byte));
  }

  void cut(std::string_view word, std::vector<Cut>& tokens) const override {
    const std::vector<Step> best = best_steps(word);
    std::vector<Cut> list; // from the end
    for (auto end = static_cast<std::uint32_t>(word.size()); end > 0; end = best[end].from) {
      const Step& step = best[end];
      // Consecutive unknown characters are one token.
      if (!list.empty() && step.id == scored_.unknown && list.back().id == step.id)
        list.back().begin = step.from;
      else
        list.push_back({step.id, step.from, end});
    }
    std::ranges::reverse(list);
    for (const Cut& token : list) put(word, token, tokens);
  }

private:
  /// The last token on the best way to a position.
  struct Step {
    double score = 0;
    std::uint32_t from = 0;
    int id = unreached;
  };
  static constexpr int unreached = -1;

  std::vector<Step> best_steps(std::string_view word) const {
    std::vector<Step> best(word.size() + 1);
    const auto offer = [&](std::size_t from, std::size_t to, double score, int id) {
      score += best[from].score;
      if (best[to].id == unreached || score > best[to].score)
        best[to] = {score, static_cast<std::uint32_t>(from), id};
    };
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t next = at + length_of(word[at]);
      bool alone = false; // whether the character has a token of its own
      pieces_.each(word.substr(at), [&](Prefixes::FoundEntry found) {
        offer(at, at + found.length, scored_.scores[static_cast<std::size_t>(found.value)],
              found.value);
        alone = alone || at + found.length == next;
      });
      if (!alone) {
        if (!scored_.unknown)
          fail("no token for '{}', and this tokenizer has no unknown one",
               io::shown(word.substr(at, next - at)));
        offer(at, next, unknown_score_, *scored_.unknown);
      }
      at = next;
    }
    return best;
  }

  void put(std::string_view word, const Cut& token, std::vector<Cut>& tokens) const {
    const std::string_view text = word.substr(token.begin, token.end - token.begin);
    const auto known = [&](char c) { return bytes_[static_cast<unsigned char>(c)].has_value(); };
    if (token.id != scored_.unknown) {
      tokens.push_back(token);
    } else if (const auto id =
                   vocabulary_.id_of(text)) { // several unknown characters may be a piece
      tokens.push_back({*id, token.begin, token.end});
    } else if (scored_.byte_fallback && std::ranges::all_of(text, known)) {
      for (std::uint32_t at = token.begin; at < token.end; ++at)
        tokens.push_back({*bytes_[static_cast<unsigned char>(word[at])], at, at + 1});
    } else {
      tokens.push_back(token);
    }
  }

  Scored scored_;
  double unknown_score_ = 0;
  Prefixes pieces_;
  std::array<std::optional<int>, 256> bytes_; ///< the tokens <0x00> to <0xFF>
};

} // namespace

std::unique_ptr<Model> unigram(Fields& fields, Pipeline& parts) {
  Vocabulary vocabulary;
  Scored scored;
  const JsonNode node = fields.need("vocab");
  std::string decoded;
  node.each_element("the vocabulary of a Unigram model", [&](const JsonNode& entry) {
    const int id = static_cast<int>(scored.scores.size());
    if (id > most_id) entry.refuse("more pieces than any model has");
    std::size_t count = 0;
    entry.each_element("a piece with its score", [&](const JsonNode& part) {
      if (++count == 1) {
        const std::string_view piece = part.text("a piece", decoded);
        if (!vocabulary.add(piece, id))
          entry.refuse(
              fmt::format("the piece '{}' appears twice in the vocabulary", io::shown(piece)));
      } else if (count == 2) {
        scored.scores.push_back(part.number("a score"));
      }
    });
    if (count != 2) entry.refuse("a piece and its score expected");
  });
  vocabulary.finish();
  if (scored.scores.empty()) node.refuse("a vocabulary without pieces");
  if (const auto unknown = fields.find("unk_id")) {
    scored.unknown = unknown->integer("unk_id", static_cast<int>(scored.scores.size()) - 1);
  }
  parts.byte_fallback = scored.byte_fallback = fields.boolean("byte_fallback", false);
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scored));
}

} // namespace mha::tokenizers
