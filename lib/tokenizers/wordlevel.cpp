// A word is a token, or unknown.

#include <mha/tokenizers/models.hpp>

#include <mha/files/text.hpp>

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

} // namespace

std::unique_ptr<Model> word_level(Fields& fields, Pipeline&) {
  Vocabulary vocabulary = read_vocabulary(fields.need("vocab"));
  return std::make_unique<WordLevel>(std::move(vocabulary), fields.text("unk_token", "<unk>"));
}

} // namespace mha::tokenizers
