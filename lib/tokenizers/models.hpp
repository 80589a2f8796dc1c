#pragma once
// Models of tokenizers, which cut a word into tokens.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// The model that a node describes. Sets in `parts` how its pieces are decoded for display.
std::unique_ptr<Model> read_model(const JsonNode& node, Pipeline& parts);

// The kinds of models, which models.cpp lists.
std::unique_ptr<Model> bpe(Fields& fields, Pipeline& parts);
std::unique_ptr<Model> word_piece(Fields& fields, Pipeline& parts);
std::unique_ptr<Model> word_level(Fields& fields, Pipeline& parts);
std::unique_ptr<Model> unigram(Fields& fields, Pipeline& parts);

/// A merge: two pieces that become one.
using Merge = std::pair<std::string, std::string>;
/// Byte-level BPE as in GPT-2's files. Throws Error for a merge of a piece that the vocabulary
/// lacks.
std::unique_ptr<Model> plain_bpe(Vocabulary vocabulary, const std::vector<Merge>& merges);
/// WordPiece as in BERT's files.
std::unique_ptr<Model> plain_word_piece(Vocabulary vocabulary, const std::string& unknown);

/// Reads {"piece": id, …}.
Vocabulary read_vocabulary(const JsonNode& node);

} // namespace mha::tokenizers
