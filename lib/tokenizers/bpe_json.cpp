// BPE as in tokenizer.json and as in GPT-2's two files.

#include <mha/tokenizers/bpe.hpp>

#include <mha/files/text.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

BpeSettings read_settings(Fields& fields, const Vocabulary& vocabulary) {
  BpeSettings settings;
  settings.fuse_unk = fields.boolean("fuse_unk", false);
  settings.byte_fallback = fields.boolean("byte_fallback", false);
  settings.ignore_merges = fields.boolean("ignore_merges", false);
  settings.prefix = fields.text("continuing_subword_prefix", "");
  settings.suffix = fields.text("end_of_word_suffix", "");
  if (const auto unknown = fields.find("unk_token")) {
    const std::string piece = unknown->text("unk_token");
    settings.unknown = vocabulary.id_of(piece);
    if (!settings.unknown) settings.lost_unknown = piece;
  }
  if (const auto dropout = fields.find("dropout"); dropout && dropout->number("dropout") != 0)
    dropout->refuse("dropout would make the tokens random; set it to null");
  return settings;
}

/// Reads merges, "Ġ the" or ["Ġ", "the"], and adds them to a model in batches.
class MergeReader {
public:
  explicit MergeReader(Bpe& model) : model_(model) {}

  void read(const JsonNode& node) {
    if (node.is_array())
      read_pair(node);
    else
      read_text(node);
    nodes_.push_back(node);
    // Text with escapes was decoded into a buffer that the next text will overwrite.
    const bool decoded = !decoded_[0].empty() || !decoded_[1].empty();
    if (decoded || nodes_.size() == Bpe::at_once) finish();
  }

  /// Adds the last batch.
  void finish() {
    if (const auto impossible = model_.add_merges(left_, right_)) {
      const JsonNode& node = nodes_[impossible->place];
      require_utf8(node);
      node.refuse(impossible->why);
    }
    nodes_.clear(), left_.clear(), right_.clear();
    for (std::string& text : decoded_) text.clear();
  }

private:
  /// Pieces of the vocabulary are UTF-8, so that merges of them need no check.
  static void require_utf8(const JsonNode& node) {
    if (node.is_array())
      node.each_element("a merge", [](const JsonNode& part) { part.text("a merge's piece"); });
    else
      node.text("a merge");
  }

  void read_pair(const JsonNode& node) {
    std::size_t count = 0;
    node.each_element("a merge", [&](const JsonNode& part) {
      if (count < 2)
        (count == 0 ? left_ : right_)
            .push_back(part.unchecked_text("a merge's piece", decoded_[count]));
      ++count;
    });
    if (count != 2) node.refuse("a merge of two pieces expected");
  }

  void read_text(const JsonNode& node) {
    const std::string_view text = node.unchecked_text("a merge", decoded_[0]);
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos)
      node.refuse(
          fmt::format("the merge '{}' must be two pieces with a blank between", io::shown(text)));
    left_.push_back(text.substr(0, blank)), right_.push_back(text.substr(blank + 1));
  }

  Bpe& model_;
  std::vector<JsonNode> nodes_;
  std::vector<std::string_view> left_, right_;
  std::array<std::string, 2> decoded_;
};

} // namespace

std::unique_ptr<Model> bpe(Fields& fields, Pipeline& parts) {
  Vocabulary vocabulary = read_vocabulary(fields.need("vocab"));
  const BpeSettings settings = read_settings(fields, vocabulary);
  parts.continuing_prefix = settings.prefix;
  parts.word_suffix = settings.suffix;
  parts.byte_fallback = settings.byte_fallback;
  auto model = std::make_unique<Bpe>(std::move(vocabulary), settings);
  MergeReader reader(*model);
  const JsonNode merges = fields.need("merges");
  model->reserve_merges(merges.extent().count);
  merges.each_element("merges", [&](const JsonNode& node) { reader.read(node); });
  reader.finish();
  return model;
}

std::unique_ptr<Model> plain_bpe(Vocabulary vocabulary, const std::vector<Merge>& merges) {
  auto model = std::make_unique<Bpe>(std::move(vocabulary), BpeSettings{});
  for (const auto& [left, right] : merges) model->add_merge(left, right);
  return model;
}

} // namespace mha::tokenizers
