// WordPiece: repeatedly cuts off the longest piece that a word begins with; pieces inside a word
// begin with "##".

#include <mha/tokenizers/models.hpp>
#include <mha/tokenizers/prefixes.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <mha/files/text.hpp>

namespace mha::tokenizers {

namespace {

class WordPiece : public Model {
public:
  WordPiece(Vocabulary vocabulary, std::string unknown, const std::string& prefix,
            std::size_t longest)
      : unknown_piece_(std::move(unknown)), longest_(longest) {
    vocabulary_ = std::move(vocabulary), unknown_ = vocabulary_.id_of(unknown_piece_);
    vocabulary_.each([&](int id, std::string_view piece) {
      first_.add(piece, id);
      if (piece.starts_with(prefix)) inside_.add(piece.substr(prefix.size()), id);
    });
    first_.finish();
    inside_.finish();
  }

  void cut(std::string_view word, std::vector<Cut>& tokens) const override {
    const std::size_t before = tokens.size();
    bool known = characters_in(word) <= longest_;
    for (std::size_t begin = 0; known && begin < word.size();) {
      const auto found = (begin == 0 ? first_ : inside_).longest(word.substr(begin));
      known = found.has_value();
      if (!known) break;
      const std::size_t end = begin + found->length;
      tokens.push_back(
          {found->value, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
      begin = end;
    }
    if (known) return;
    tokens.resize(before);
    if (!unknown_)
      fail("no token for '{}', and the unknown token '{}' is not in the vocabulary",
           io::shown(word), io::shown(unknown_piece_));
    tokens.push_back({*unknown_, 0, static_cast<std::uint32_t>(word.size())});
  }

private:
  std::string unknown_piece_;
  std::size_t longest_;     ///< number of characters up to which a word is cut
  Prefixes first_, inside_; ///< pieces that begin a word, and others without their prefix
};

} // namespace

std::unique_ptr<Model> word_piece(Fields& fields, Pipeline& parts) {
  Vocabulary vocabulary = read_vocabulary(fields.need("vocab"));
  const std::string unknown = fields.text("unk_token", "[UNK]");
  parts.continuing_prefix = fields.text("continuing_subword_prefix", "##");
  const auto most = fields.find("max_input_chars_per_word");
  const int longest = most ? most->integer("max_input_chars_per_word", most_id) : 100;
  return std::make_unique<WordPiece>(std::move(vocabulary), unknown, parts.continuing_prefix,
                                     static_cast<std::size_t>(longest));
}

std::unique_ptr<Model> plain_word_piece(Vocabulary vocabulary, const std::string& unknown) {
  return std::make_unique<WordPiece>(std::move(vocabulary), unknown, "##", 100);
}

} // namespace mha::tokenizers
