// BPE as tokenizer.json has it, and as GPT-2's two files have it.

#include <mha/load/tokenizers/bpe.hpp>

#include <mha/files/text.hpp>

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
    if (!settings.unknown)
      unknown->refuse(
          fmt::format("the unknown token '{}' is not in the vocabulary", io::shown(piece)));
  }
  if (const auto dropout = fields.find("dropout"); dropout && dropout->number("dropout") != 0)
    dropout->refuse("dropout would make the tokens random; set it to null");
  return settings;
}

/// "Ġ the", or ["Ġ", "the"].
Merge read_merge(const JsonNode& node) {
  if (node.is_array()) {
    const std::vector<JsonNode> parts = node.elements("a merge");
    if (parts.size() != 2) node.refuse("a merge of two pieces expected");
    return {parts[0].text("a merge's piece"), parts[1].text("a merge's piece")};
  }
  const std::string text = node.text("a merge");
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos)
    node.refuse(
        fmt::format("the merge '{}' must be two pieces with a blank between", io::shown(text)));
  return {text.substr(0, blank), text.substr(blank + 1)};
}

} // namespace

std::unique_ptr<Model> bpe(Fields& fields, Pipeline& parts) {
  Vocabulary vocabulary = read_vocabulary(fields.need("vocab"));
  const BpeSettings settings = read_settings(fields, vocabulary);
  parts.continuing_prefix = settings.prefix;
  parts.word_suffix = settings.suffix;
  auto model = std::make_unique<Bpe>(std::move(vocabulary), settings);
  fields.need("merges").each_element("merges", [&](const JsonNode& node) {
    const auto [left, right] = read_merge(node);
    try {
      model->add_merge(left, right);
    } catch (const Error& error) {
      node.refuse(error.what());
    }
  });
  return model;
}

std::unique_ptr<Model> plain_bpe(Vocabulary vocabulary, const std::vector<Merge>& merges) {
  auto model = std::make_unique<Bpe>(std::move(vocabulary), BpeSettings{});
  for (const auto& [left, right] : merges) model->add_merge(left, right);
  return model;
}

} // namespace mha::tokenizers
