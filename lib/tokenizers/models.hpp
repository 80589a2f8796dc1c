#pragma once
// Models of tokenizers: cuts of a word into tokens.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// The model that a node describes. It says in `parts` how its pieces are to be read by humans.
std::unique_ptr<Model> read_model(const JsonNode& node, Pipeline& parts);

// One a kind; models.cpp lists them.
std::unique_ptr<Model> bpe(Fields& fields, Pipeline& parts);
std::unique_ptr<Model> word_piece(Fields& fields, Pipeline& parts);
std::unique_ptr<Model> word_level(Fields& fields, Pipeline& parts);
std::unique_ptr<Model> unigram(Fields& fields, Pipeline& parts);

/// A merge: two pieces that become one.
using Merge = std::pair<std::string, std::string>;
/// Byte-level BPE as GPT-2's files have it. Throws Error for a merge of what the vocabulary lacks.
std::unique_ptr<Model> plain_bpe(Vocabulary vocabulary, const std::vector<Merge>& merges);
/// WordPiece as BERT's files have it.
std::unique_ptr<Model> plain_word_piece(Vocabulary vocabulary, const std::string& unknown);

/// {"piece": number, …}.
Vocabulary read_vocabulary(const JsonNode& node);

} // namespace mha::tokenizers
