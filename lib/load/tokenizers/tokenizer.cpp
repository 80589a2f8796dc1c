#include <mha/load/tokenizers/tokenizer.hpp>

#include <mha/files/text.hpp>
#include <mha/load/tokenizers/parts.hpp>
#include <mha/load/tokenizers/special_tokens.hpp>
#include <mha/system/error.hpp>

#include <algorithm>
#include <unordered_map>

namespace mha::tokenizers {

namespace {

/// What a model made of the words of one text: most words come again and again.
class WordCache {
public:
  explicit WordCache(const Model& model) : model_(model) {}
  const std::vector<Cut>& cut(const std::string& word) {
    constexpr std::size_t longest = 256, most = 1 << 18;
    if (word.size() > longest || words_.size() > most) return fresh(word, other_);
    const auto [at, is_new] = words_.try_emplace(word);
    return is_new ? fresh(word, at->second) : at->second;
  }

private:
  const std::vector<Cut>& fresh(const std::string& word, std::vector<Cut>& tokens) {
    tokens.clear();
    model_.cut(word, tokens);
    return tokens;
  }
  const Model& model_;
  std::unordered_map<std::string, std::vector<Cut>> words_;
  std::vector<Cut> other_; ///< of a word that is not kept
};

const std::string* piece_in(const Pipeline& parts, int id) {
  if (const AddedToken* token = parts.added->find(id)) return &token->content;
  return parts.model->vocabulary().piece_of(id);
}

Token token_of(const Pipeline& parts, int id, ByteRange span) {
  const std::string* piece = piece_in(parts, id);
  return {id, piece ? *piece : "", span.begin, span.end};
}

/// The pieces of a text between which the model sees nothing: added tokens, and words.
std::vector<AlignedText> words_of(const Pipeline& parts, AlignedText text) {
  std::vector<AlignedText> words;
  for (AlignedText& written : parts.added->cut(std::move(text), false)) {
    if (written.id) {
      words.push_back(std::move(written));
      continue;
    }
    if (parts.normalizer) parts.normalizer(written);
    for (AlignedText& piece : parts.added->cut(std::move(written), true))
      words.push_back(std::move(piece));
  }
  if (parts.pre_tokenizer) parts.pre_tokenizer(words);
  return words;
}

/// What of a text the vocabulary has no pieces for.
struct Missing {
  std::vector<std::string> unknown, dropped;

  void look_at(const std::string& word, const std::vector<Cut>& cuts,
               std::optional<int> unknown_id) {
    std::size_t at = 0; // bytes of the word that are in a token
    for (const Cut& cut : cuts) {
      if (cut.begin > at) dropped.push_back(word.substr(at, cut.begin - at));
      if (cut.id == unknown_id) unknown.push_back(word.substr(cut.begin, cut.end - cut.begin));
      at = std::max(at, cut.end);
    }
    if (at < word.size()) dropped.push_back(word.substr(at));
  }
};

/// "'x', 'y' and 3 more"
std::string list_of(const std::vector<std::string>& words) {
  constexpr std::size_t most = 3;
  std::string list;
  for (std::size_t i = 0; i < std::min(most, words.size()); ++i)
    list += fmt::format("{}'{}'", i > 0 ? ", " : "", io::shown(words[i]));
  if (words.size() > most) list += fmt::format(" and {} more", words.size() - most);
  return list;
}

void tell(const Missing& missing, const Pipeline& parts, std::vector<Note>& notes) {
  const std::size_t unknown = missing.unknown.size();
  if (unknown > 0)
    notes.push_back(warning(fmt::format(
        "the vocabulary has no pieces for {}: {} as {}", list_of(missing.unknown),
        unknown == 1 ? "read" : "each is read", *piece_in(parts, *parts.model->unknown()))));
  if (!missing.dropped.empty())
    notes.push_back(
        warning(fmt::format("the vocabulary has no pieces for {}, and no unknown token: "
                            "left out of the text",
                            list_of(missing.dropped))));
}

std::vector<Token> tokens_of(const Pipeline& parts, const std::vector<AlignedText>& words,
                             Missing& missing) {
  std::vector<Token> tokens;
  WordCache cache(*parts.model);
  for (const AlignedText& word : words) {
    if (word.id) {
      tokens.push_back(token_of(parts, *word.id, word.span(0, word.bytes.size())));
      continue;
    }
    if (word.bytes.empty()) continue;
    const std::vector<Cut>& cuts = cache.cut(word.bytes);
    missing.look_at(word.bytes, cuts, parts.model->unknown());
    for (const Cut& cut : cuts)
      tokens.push_back(token_of(parts, cut.id, word.span(cut.begin, cut.end)));
  }
  return tokens;
}

} // namespace

std::vector<int> Encoding::ids() const {
  std::vector<int> list;
  for (const Token& token : tokens) list.push_back(token.id);
  return list;
}

Encoding Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  const Pipeline& parts = *parts_;
  Encoding encoding;
  std::size_t replaced = 0;
  AlignedText whole = aligned(text, replaced);
  if (replaced > 0)
    encoding.notes.push_back(
        warning(fmt::format("{} of the text {} no UTF-8; read as U+FFFD",
                            counted(replaced, "byte sequences"), replaced == 1 ? "is" : "are")));
  Missing missing;
  std::vector<Token> inner = tokens_of(parts, words_of(parts, std::move(whole)), missing);
  tell(missing, parts, encoding.notes);
  const Frame frame = special.none  ? Frame{std::nullopt}
                      : special.bos ? with_bos(parts, *special.bos)
                                    : parts.frame;
  const auto end = static_cast<std::uint32_t>(text.size());
  bool before = true; // the text is yet to come
  for (const auto& id : frame) {
    if (id)
      encoding.tokens.push_back(
          token_of(parts, *id, before ? ByteRange{0, 0} : ByteRange{end, end}));
    else
      encoding.tokens.insert(encoding.tokens.end(), inner.begin(), inner.end());
    before = before && id;
  }
  if (parts.truncates && encoding.tokens.size() > *parts.truncates)
    encoding.notes.emplace_back(
        fmt::format("tokenizer.json would cut the text to {}; all {} are kept",
                    counted(*parts.truncates, "tokens"), encoding.tokens.size()));
  return encoding;
}

std::optional<int> Tokenizer::id_of(std::string_view piece) const {
  if (const AddedToken* token = parts_->added->find(piece)) return token->id;
  return parts_->model->vocabulary().id_of(piece);
}

std::optional<std::string> Tokenizer::piece_of(int id) const {
  const std::string* piece = piece_in(*parts_, id);
  return piece ? std::optional(*piece) : std::nullopt;
}

int Tokenizer::size() const {
  const auto& added = parts_->added->tokens();
  return std::max(parts_->model->vocabulary().size(), added.empty() ? 0 : added.back().id + 1);
}

std::optional<int> Tokenizer::bos() const {
  return parts_->bos;
}
std::optional<int> Tokenizer::eos() const {
  return parts_->eos;
}
std::optional<int> Tokenizer::mask() const {
  return parts_->mask;
}

bool Tokenizer::is_special(int id) const {
  const AddedToken* token = parts_->added->find(id);
  return token && token->special;
}

} // namespace mha::tokenizers
