#include <mha/tokenizers/models.hpp>

#include <mha/files/text.hpp>
#include <mha/system/named.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

class WordLevel : public Model {
public:
  WordLevel(Vocabulary vocabulary, std::string unknown) : unknown_piece_(std::move(unknown)) {
    vocabulary_ = std::move(vocabulary), unknown_ = vocabulary_.id_of(unknown_piece_);
  }

  void cut(std::string_view word, std::vector<Cut>& tokens) const override {
    auto id = vocabulary_.id_of(word);
    if (!id) id = unknown_;
    if (!id)
      fail("no token for '{}': it is not in the vocabulary, and neither is the unknown token '{}'",
           io::shown(word), io::shown(unknown_piece_));
    tokens.push_back({*id, 0, static_cast<std::uint32_t>(word.size())});
  }

private:
  std::string unknown_piece_;
};

struct ModelKind {
  std::string_view name;
  std::unique_ptr<Model> (*read)(Fields& fields, Pipeline& parts);
};
constexpr std::array<ModelKind, 4> model_kinds{{
    {"BPE", bpe},
    {"Unigram", unigram},
    {"WordLevel", word_level},
    {"WordPiece", word_piece},
}};

/// The type of a model in older files without one, from settings that only one kind has.
std::string_view guessed_type(Fields& fields) {
  if (fields.find("merges")) return "BPE";
  if (const auto vocab = fields.find("vocab"); vocab && vocab->is_array()) return "Unigram";
  return fields.find("continuing_subword_prefix") || fields.find("max_input_chars_per_word")
             ? "WordPiece"
             : "WordLevel";
}

} // namespace

std::unique_ptr<Model> word_level(Fields& fields, Pipeline&) {
  Vocabulary vocabulary = read_vocabulary(fields.need("vocab"));
  return std::make_unique<WordLevel>(std::move(vocabulary), fields.text("unk_token", "<unk>"));
}

std::unique_ptr<Model> read_model(const JsonNode& node, Pipeline& parts) {
  Fields fields(node, "the model");
  const auto type = fields.find("type");
  const std::string name =
      type ? type->text("the model's type") : std::string(guessed_type(fields));
  const ModelKind* const kind = find_named(model_kinds, name);
  if (!kind)
    type->refuse(fmt::format("the model '{}' is not known here{}", io::shown(name),
                             did_you_mean(name, names_of_rows(model_kinds))));
  Fields named(node, fmt::format("the model '{}'", name));
  named.ignore({"type"});
  std::unique_ptr<Model> model = kind->read(named, parts);
  named.finish();
  return model;
}

Vocabulary read_vocabulary(const JsonNode& node) {
  Vocabulary vocabulary;
  const auto [count, bytes] = node.extent();
  vocabulary.reserve(count, bytes);
  node.each_member("the vocabulary", [&](std::string_view piece, const JsonNode& value) {
    const int id = value.integer("a token's number", most_id);
    if (!vocabulary.add(piece, id))
      value.refuse(fmt::format("the piece '{}' appears twice in the vocabulary", io::shown(piece)));
  });
  if (const auto twice = vocabulary.finish())
    node.refuse(fmt::format("two pieces of the vocabulary have the number {}", *twice));
  return vocabulary;
}

} // namespace mha::tokenizers
