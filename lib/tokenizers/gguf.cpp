#include <mha/tokenizers/gguf.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/gguf.hpp>
#include <mha/tokenizers/bpe.hpp>
#include <mha/tokenizers/models.hpp>
#include <mha/tokenizers/normalizers.hpp>
#include <mha/tokenizers/pre_tokenizers.hpp>
#include <mha/tokenizers/regex.hpp>
#include <mha/tokenizers/split.hpp>

#include <algorithm>
#include <filesystem>

namespace mha::tokenizers {

namespace {

constexpr std::string_view blank_mark = "▁";

/// The values of tokenizer.ggml.token_type that matter here.
enum TokenType : std::int64_t { unknown_type = 2, control_type = 3, user_type = 4 };

class GgufTokenizer {
public:
  explicit GgufTokenizer(const io::Gguf& file) : file_(file), where_(io::shown(file.name)) {
    parts_->name = file.name;
    read_tokens();
    const auto kind = file.text("tokenizer.ggml.model");
    if (!kind) fail("{}: no tokenizer in this file: no tokenizer.ggml.model", where_);
    if (*kind == "gpt2")
      read_byte_level();
    else if (*kind == "llama")
      read_sentence_piece();
    else if (*kind == "bert")
      read_word_piece();
    else
      fail("{}: the tokenizer '{}' is not read here: gpt2, llama and bert are; give the tokens' "
           "numbers: <ids>",
           where_, io::shown(*kind));
    add_special();
    read_template();
  }
  std::shared_ptr<Pipeline> parts() const { return parts_; }

private:
  static std::string key(std::string_view name) { return fmt::format("tokenizer.ggml.{}", name); }

  /// The array of a key, which must have an element for each token, or nullptr.
  const io::GgufValue* array(std::string_view name) const {
    const io::GgufValue* list = file_.find(key(name));
    if (list && (!list->is_array || list->count < texts_.size()))
      fail("{}: {} must be a list with an entry for each of the {} tokens", where_, key(name),
           texts_.size());
    return list;
  }

  std::int64_t type_of(std::size_t id) const {
    return types_ ? types_->integer(id).value_or(1) : 1;
  }

  void read_tokens() {
    const io::GgufValue* list = file_.find(key("tokens"));
    const auto add = [&](std::string_view text) {
      if (io::invalid_utf8(text) != std::string::npos)
        fail("{}: token {} is not UTF-8", where_, texts_.size());
      texts_.push_back(text.empty() ? fmt::format("[EMPTY_{}]", texts_.size()) : std::string(text));
    };
    if (!list || list->count > most_id || !list->each_text(add))
      fail("{}: {} must be a list of texts, the vocabulary", where_, key("tokens"));
    types_ = array("token_type");
  }

  Vocabulary vocabulary() const {
    Vocabulary result;
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (!result.add(texts_[id], static_cast<int>(id)))
        fail("{}: token {}: the piece '{}' appears twice", where_, id, io::shown(texts_[id]));
    result.finish();
    return result;
  }

  std::optional<int> id(std::string_view name) const {
    const auto number = file_.integer(key(name));
    if (!number) return std::nullopt;
    if (*number < 0 || *number >= static_cast<std::int64_t>(texts_.size()))
      fail("{}: {} is {}, but there are {} tokens", where_, key(name), *number, texts_.size());
    return static_cast<int>(*number);
  }

  void read_byte_level() {
    const auto name = file_.text(key("pre"));
    if (!name)
      fail("{}: no {}, which names the way to cut words: give the tokens' numbers: <ids>", where_,
           key("pre"));
    const GgufWords& words = gguf_words(where_, *name);
    adds_bos_ = words.bos, adds_sep_ = words.sep;
    BpeSettings settings;
    settings.ignore_merges = words.whole_words;
    auto model = std::make_unique<Bpe>(vocabulary(), settings);
    std::size_t number = 0;
    const auto add = [&](std::string_view merge) {
      // A piece may itself begin with a blank.
      const std::size_t blank = merge.find(' ', 1);
      if (blank == std::string_view::npos)
        fail("{}: merge {}: two pieces with a blank between expected", where_, number);
      try {
        model->add_merge(merge.substr(0, blank), merge.substr(blank + 1));
      } catch (const Error& error) {
        fail("{}: merge {}: {}", where_, number, error.message());
      }
      ++number;
    };
    const io::GgufValue* merges = file_.find(key("merges"));
    if (!merges || !merges->each_text(add))
      fail("{}: {} must be a list of texts, as the tokenizer is gpt2's", where_, key("merges"));
    parts_->model = std::move(model);
    parts_->byte_level = true;
    for (const std::string_view pattern : words.patterns)
      parts_->pre_tokenizer.push_back(
          split_at([regex = Regex(std::string(pattern))](
                       std::string_view text) { return regex.matches(text); },
                   Behavior::isolated));
    for (PreTokenize& step : byte_level_words(false, false))
      parts_->pre_tokenizer.push_back(std::move(step));
  }

  void read_sentence_piece() {
    adds_bos_ = true;
    std::vector<float> scores;
    const io::GgufValue* list = array("scores");
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      const auto score = list ? list->number(id) : std::nullopt;
      if (!score)
        fail("{}: {} must be a list of numbers, one for each token", where_, key("scores"));
      scores.push_back(static_cast<float>(*score));
    }
    parts_->model = scored_bpe(vocabulary(), std::move(scores),
                               id("unknown_token_id").value_or(texts_.empty() ? -1 : 0));
    parts_->marks_spaces = true;
    parts_->byte_fallback = true;
    const bool prefix = file_.boolean(key("add_space_prefix")).value_or(true);
    if (file_.boolean(key("remove_extra_whitespaces")).value_or(false))
      fail("{}: {} is not supported; give the tokens' numbers: <ids>", where_,
           key("remove_extra_whitespaces"));
    parts_->normalizer = [prefix](AlignedText& text) {
      if (prefix) text.prepend(" ");
      AlignedText marked;
      marked.begin = text.begin;
      for (std::size_t i = 0; i < text.bytes.size(); ++i)
        if (text.bytes[i] == ' ')
          marked.put(blank_mark, text.from[i]);
        else
          marked.keep(text, i, i + 1);
      text = std::move(marked);
    };
  }

  /// The converter put ▁ before pieces that begin a word and removed ## from the others.
  void read_word_piece() {
    adds_bos_ = adds_sep_ = true;
    bool lower = true; // until a piece has a capital
    for (std::string& text : texts_) {
      if (text.starts_with('[') && text.ends_with(']') && text.size() > 1) continue;
      if (text.starts_with(blank_mark))
        text.erase(0, blank_mark.size());
      else
        text.insert(0, "##");
      lower = lower && std::ranges::none_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
    }
    const auto unknown = id("unknown_token_id");
    const std::string piece = unknown ? texts_[static_cast<std::size_t>(*unknown)] : "[UNK]";
    parts_->model = plain_word_piece(vocabulary(), piece);
    parts_->normalizer = bert_normalizer({.lowercase = lower, .strip_accents = lower});
    parts_->pre_tokenizer = bert_words();
    parts_->continuing_prefix = "##";
  }

  void add_special() {
    std::vector<AddedToken> tokens;
    for (std::size_t number = 0; number < texts_.size(); ++number) {
      const std::int64_t type = type_of(number);
      if (type != unknown_type && type != control_type && type != user_type) continue;
      AddedToken token;
      token.id = static_cast<int>(number);
      token.content = texts_[number];
      token.special = type != user_type;
      tokens.push_back(std::move(token));
    }
    parts_->added.emplace(std::move(tokens), parts_->normalizer);
    parts_->bos = id("bos_token_id"), parts_->eos = id("eos_token_id");
    parts_->mask = id("mask_token_id");
    if (!parts_->bos) parts_->bos = id("cls_token_id");
  }

  void read_template() {
    const auto put = [&](const char* name, bool otherwise, std::optional<int> id, bool first) {
      const auto adds = file_.boolean(key(fmt::format("add_{}_token", name)));
      if (!adds.value_or(otherwise)) return;
      if (!id)
        fail("{}: the tokenizer puts {} around a text, but no key names that token; "
             "<special false> leaves it out",
             where_, name);
      parts_->post_template.insert(
          first ? parts_->post_template.begin() : parts_->post_template.end(), *id);
    };
    auto sep = id("seperator_token_id"); // sic
    if (!sep) sep = id("separator_token_id");
    if (!sep) sep = parts_->eos;
    put("bos", adds_bos_, parts_->bos, true);
    put("eos", false, parts_->eos, false);
    put("sep", adds_sep_, sep, false);
  }

  const io::Gguf& file_;
  std::string where_;
  std::shared_ptr<Pipeline> parts_ = std::make_shared<Pipeline>();
  std::vector<std::string> texts_; ///< by id
  const io::GgufValue* types_ = nullptr;
  bool adds_bos_ = false, adds_sep_ = false; ///< the defaults without a key
};

} // namespace

bool has_gguf_tokenizer(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const io::Bytes bytes = io::read_bytes(path);
  return io::is_gguf(bytes.text().substr(0, 4)) &&
         io::open_gguf(bytes).find("tokenizer.ggml.model") != nullptr;
}

std::shared_ptr<Pipeline> read_gguf_tokenizer(const std::string& path) {
  const io::Gguf file = io::open_gguf(io::read_bytes(path));
  return GgufTokenizer(file).parts();
}

} // namespace mha::tokenizers
