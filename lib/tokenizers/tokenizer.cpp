#include <mha/tokenizers/tokenizer.hpp>

#include <mha/files/text.hpp>
#include <mha/system/error.hpp>
#include <mha/system/words.hpp>
#include <mha/tokenizers/parts.hpp>
#include <mha/tokenizers/special_tokens.hpp>
#include <mha/tokenizers/text_time.hpp>

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace mha::tokenizers {

namespace {

/// Caches the tokens of each distinct word of a text, because most words occur many times.
class WordCache {
public:
  explicit WordCache(const Model& model) : model_(model) {}
  const std::vector<Cut>& cut(const std::string& word) {
    constexpr std::size_t longest = 256, most = 1 << 16;
    if (word.size() > longest || words_.size() > most) return fresh(word, uncached_);
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
  std::vector<Cut> uncached_; ///< of a word that is too long to keep, or beyond the cache's size
};

std::optional<std::string_view> piece_in(const Pipeline& parts, int id) {
  if (const AddedToken* token = parts.added->find(id)) return token->content;
  return parts.model->vocabulary().piece_of(id);
}

Token token_of(int id, ByteRange span) {
  return {id, span.begin, span.end};
}

/// Applies the pre-tokenizers from index `first` on, each to the pieces of the previous one, and
/// passes the pieces of the last one to `take`.
struct PreTokenizerChain {
  const PreTokenizer& steps;
  std::size_t first;
  const TakeText& take;

  void cut(AlignedText&& piece) const {
    if (piece.bytes.empty()) return;
    if (first == steps.size()) return take(std::move(piece));
    const PreTokenizerChain rest{steps, first + 1, take};
    steps[first](std::move(piece), [&rest](AlignedText&& part) { rest.cut(std::move(part)); });
  }
};

/// Passes the added tokens and the words of a text to `take`.
void cut_into_words(const Pipeline& parts, AlignedText text, const TakeText& take) {
  const PreTokenizerChain words{parts.pre_tokenizer, 0, take};
  const TakeText take_part = [&](AlignedText&& part) {
    if (part.id)
      take(std::move(part));
    else
      words.cut(std::move(part));
  };
  parts.added->cut(std::move(text), false, [&](AlignedText&& written) {
    if (written.id) return take(std::move(written));
    if (parts.normalizer) parts.normalizer(written);
    parts.added->cut(std::move(written), true, take_part);
  });
}

/// The parts of a text for which the vocabulary has no pieces.
class UncoveredText {
public:
  struct List {
    std::vector<std::string> first; ///< a few of them
    std::size_t count = 0;

    void add(std::string_view text) {
      constexpr std::size_t shown = 3;
      if (++count <= shown) first.emplace_back(text);
    }
  };
  List unknown, dropped;

  void record(std::string_view word, const std::vector<Cut>& cuts, const Model& model) {
    std::uint32_t at = 0; // bytes of the word that are in a token
    for (const Cut& cut : cuts) {
      if (cut.begin > at) dropped.add(word.substr(at, cut.begin - at));
      // The unknown token may be an ordinary piece, "?" or "<unk>", that occurs in the text.
      const std::string_view text = word.substr(cut.begin, cut.end - cut.begin);
      if (cut.id == model.unknown() && text != model.vocabulary().piece_of(cut.id))
        unknown.add(text);
      at = std::max(at, cut.end);
    }
    if (at < word.size()) dropped.add(word.substr(at));
  }
};

/// "'x', 'y' and 3 more"
std::string list_of(const UncoveredText::List& words) {
  std::string list = "'" + joined_texts(words.first, "', '", io::shown) + "'";
  if (words.count > words.first.size())
    list += fmt::format(" and {} more", words.count - words.first.size());
  return list;
}

void note_missing(const UncoveredText& missing, const Pipeline& parts, std::vector<Note>& notes) {
  if (missing.unknown.count > 0)
    notes.push_back(warning(fmt::format("the vocabulary has no pieces for {}: {} as {}",
                                        list_of(missing.unknown),
                                        missing.unknown.count == 1 ? "read" : "each is read",
                                        *piece_in(parts, *parts.model->unknown()))));
  if (missing.dropped.count > 0)
    notes.push_back(
        warning(fmt::format("the vocabulary has no pieces for {}, and no unknown token: "
                            "left out of the text",
                            list_of(missing.dropped))));
}

/// Appends the tokens of a text.
void put_tokens(const Pipeline& parts, AlignedText text, UncoveredText& missing,
                std::vector<Token>& tokens) {
  WordCache cache(*parts.model);
  cut_into_words(parts, std::move(text), [&](AlignedText&& word) {
    if (word.id) {
      tokens.push_back(token_of(*word.id, word.span(0, word.bytes.size())));
      return;
    }
    if (word.bytes.size() > std::numeric_limits<std::uint32_t>::max())
      fail("a word of {} bytes, more than can be cut into tokens", word.bytes.size());
    const std::vector<Cut>& cuts = cache.cut(word.bytes);
    missing.record(word.bytes, cuts, *parts.model);
    for (const Cut& cut : cuts) tokens.push_back(token_of(cut.id, word.span(cut.begin, cut.end)));
  });
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
        warning(fmt::format("{} of the text {} not UTF-8; read as U+FFFD",
                            counted(replaced, "byte sequences"), replaced == 1 ? "is" : "are")));
  if (text.starts_with("\xEF\xBB\xBF"))
    encoding.notes.push_back(warning("the text begins with a byte order mark (EF BB BF), which is "
                                     "cut into tokens like the rest; "
                                     "remove it from the file if it is not meant"));
  const TextTime time(text.size());
  UncoveredText missing;
  const TokenTemplate post_template = special.none  ? TokenTemplate{std::nullopt}
                                      : special.bos ? with_bos(parts, *special.bos)
                                                    : parts.post_template;
  const auto end = static_cast<std::uint32_t>(text.size());
  std::vector<Token>& tokens = encoding.tokens;
  std::optional<std::size_t> first; // index of the text's own tokens, once they are appended
  std::size_t last = 0;
  for (const auto& id : post_template) {
    if (id) {
      tokens.push_back(token_of(*id, first ? ByteRange{end, end} : ByteRange{0, 0}));
    } else if (!first) {
      first = tokens.size();
      put_tokens(parts, std::move(whole), missing, tokens);
      last = tokens.size();
    } else {
      tokens.reserve(tokens.size() + last - *first);
      for (std::size_t i = *first; i < last; ++i) tokens.push_back(tokens[i]);
    }
  }
  note_missing(missing, parts, encoding.notes);
  if (parts.ignored_max_length && encoding.tokens.size() > *parts.ignored_max_length)
    encoding.notes.emplace_back(
        fmt::format("tokenizer.json would cut the text to {}; all {} are kept",
                    counted(*parts.ignored_max_length, "tokens"), encoding.tokens.size()));
  return encoding;
}

std::optional<int> Tokenizer::id_of(std::string_view piece) const {
  if (const AddedToken* token = parts_->added->find(piece)) return token->id;
  return parts_->model->vocabulary().id_of(piece);
}

std::optional<std::string> Tokenizer::piece_of(int id) const {
  const auto piece = piece_in(*parts_, id);
  return piece ? std::optional<std::string>(*piece) : std::nullopt;
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

int Tokenizer::type_id() const {
  return parts_->type_id;
}
const std::vector<Note>& Tokenizer::notes() const {
  return parts_->notes;
}

bool Tokenizer::is_special(int id) const {
  const AddedToken* token = parts_->added->find(id);
  return token && token->special;
}

} // namespace mha::tokenizers
