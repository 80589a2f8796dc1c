// Files older than tokenizer.json: a vocabulary, and for BPE its merges. They do not define how a
// text is cut into words, which is only known for certain models.

#include <mha/system/one_of.hpp>
#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/models.hpp>
#include <mha/tokenizers/normalizers.hpp>
#include <mha/tokenizers/pre_tokenizers.hpp>
#include <mha/tokenizers/tokenizer_files.hpp>

#include <mha/files/text.hpp>

#include <algorithm>

namespace mha::tokenizers {

namespace {

[[noreturn]] void refuse(const std::string& folder, const TokenizerConfig& config) {
  fail("{}: the tokenizer of '{}' has rules beyond its vocabulary; write its tokenizer.json: "
       "python3 -c \"from transformers import AutoTokenizer as A; "
       "A.from_pretrained('.', use_fast=True).save_pretrained('.')\"",
       io::shown(folder), io::shown(config.family));
}

/// The lines of a text without their line ends.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    if (lines.back().ends_with('\r')) lines.back().remove_suffix(1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<Merge> read_merges(const io::Bytes& bytes) {
  std::vector<Merge> merges;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(bytes.text())) {
    ++number;
    if (line.empty() || line.starts_with("#version")) continue;
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos)
      fail("{}: line {}: two pieces with a blank between expected", io::shown(bytes.name), number);
    merges.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  }
  return merges;
}

void add_special(Pipeline& parts, std::initializer_list<std::string_view> pieces) {
  std::vector<AddedToken> tokens;
  for (const std::string_view piece : pieces)
    if (const auto id = parts.model->vocabulary().id_of(piece)) {
      AddedToken token;
      token.id = *id;
      token.content = piece;
      token.special = true;
      token.lstrip = piece == "<mask>"; // RoBERTa's includes the blank before it
      tokens.push_back(std::move(token));
    }
  parts.added.emplace(std::move(tokens), parts.normalizer);
}

/// Puts two tokens around the text if the vocabulary has both.
void surround_with(Pipeline& parts, std::string_view first, std::string_view last) {
  const Vocabulary& vocabulary = parts.model->vocabulary();
  const auto before = vocabulary.id_of(first), after = vocabulary.id_of(last);
  if (before && after) parts.post_template = {before, std::nullopt, after};
}

std::shared_ptr<Pipeline> byte_level_files(const std::string& folder, const io::Bytes& vocab,
                                           const io::Bytes& merges) {
  const TokenizerConfig config = read_tokenizer_config(folder, true);
  const bool roberta = is_one_of(config.family, {"roberta", "bart", "longformer", "led"});
  if (!roberta && !is_one_of(config.family, {"", "gpt2", "gpt_neo", "gptj", "gpt_bigcode"}))
    refuse(folder, config);
  auto parts = std::make_shared<Pipeline>();
  parts->name = vocab.name;
  JsonDocument json(io::shown(vocab.name), vocab.text());
  Vocabulary vocabulary = read_vocabulary(JsonNode::root(json));
  try {
    parts->model = plain_bpe(std::move(vocabulary), read_merges(merges));
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(io::shown(merges.name))) throw;
    fail("{}: {}", io::shown(merges.name), error.message());
  }
  parts->pre_tokenizer = byte_level_words(config.add_prefix_space.value_or(false), true);
  parts->byte_level = true;
  if (roberta) {
    add_special(*parts, {"<s>", "<pad>", "</s>", "<unk>", "<mask>"});
    surround_with(*parts, "<s>", "</s>");
  } else {
    add_special(*parts, {"<|endoftext|>"});
  }
  return parts;
}

std::shared_ptr<Pipeline> word_piece_files(const std::string& folder, const io::Bytes& vocab) {
  const TokenizerConfig config = read_tokenizer_config(folder, true);
  if (!is_one_of(config.family, {"", "bert", "distilbert", "electra", "mobilebert"}))
    refuse(folder, config);
  auto parts = std::make_shared<Pipeline>();
  parts->name = vocab.name;
  Vocabulary vocabulary;
  const std::vector<std::string_view> lines = lines_of(vocab.text());
  if (lines.size() > most_id) fail("{}: more pieces than any model has", io::shown(vocab.name));
  std::string_view twice;
  for (std::size_t number = lines.size(); number-- > 0;) { // the last of equal pieces counts
    if (io::invalid_utf8(lines[number]) != std::string_view::npos)
      fail("{}: line {}: not UTF-8", io::shown(vocab.name), number + 1);
    if (!vocabulary.add(lines[number], static_cast<int>(number))) twice = lines[number];
  }
  if (twice.data() != nullptr)
    parts->notes.push_back(
        warning(fmt::format("{}: the piece '{}' appears twice: its last number counts, as in "
                            "Transformers",
                            io::shown(vocab.name), io::shown(twice))));
  vocabulary.finish();
  parts->model = plain_word_piece(std::move(vocabulary), "[UNK]");
  const bool lower = config.lower.value_or(true);
  parts->normalizer = bert_normalizer({.handle_chinese_chars = config.chinese.value_or(true),
                                       .lowercase = lower,
                                       .strip_accents = config.accents.value_or(lower)});
  parts->pre_tokenizer = bert_words();
  parts->continuing_prefix = "##";
  add_special(*parts, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  surround_with(*parts, "[CLS]", "[SEP]");
  return parts;
}

} // namespace

std::shared_ptr<Pipeline> read_vocabulary_files(const std::string& folder) {
  const auto json = read_file_of(folder, "vocab.json"), merges = read_file_of(folder, "merges.txt");
  if (json && merges) return byte_level_files(folder, *json, *merges);
  if (const auto text = read_file_of(folder, "vocab.txt")) return word_piece_files(folder, *text);
  return nullptr;
}

} // namespace mha::tokenizers
