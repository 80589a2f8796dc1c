#pragma once
// Normalizers, which change a text before it is cut into words.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// The normalizer that a node describes.
Normalizer read_normalizer(const JsonNode& node);

// The kinds of normalizers, which normalizers.cpp lists.
Normalizer bert_normalizer(Fields& fields);
Normalizer byte_level_normalizer(Fields& fields);
Normalizer lowercase(Fields& fields);
Normalizer nfc(Fields& fields);
Normalizer nfd(Fields& fields);
Normalizer nfkc(Fields& fields);
Normalizer nfkd(Fields& fields);
Normalizer nmt(Fields& fields);
Normalizer precompiled(Fields& fields);
Normalizer prepend(Fields& fields);
Normalizer replace(Fields& fields);
Normalizer strip(Fields& fields);
Normalizer strip_accents(Fields& fields);

/// A normalizer that calls `change` for each character, with its origin in the user's text and the
/// text to append to.
Normalizer each_character(std::function<void(char32_t, ByteRange, AlignedText&)> change);
/// BERT's normalizer: cleans, puts spaces around CJK characters, strips accents, makes lower case.
Normalizer bert_normalizer(const BertNormalizerSettings& settings);
/// Reads the settings of a BertNormalizer.
BertNormalizerSettings read_bert_settings(Fields& fields);

/// Brings a text to a Unicode normal form: NFD, or NFKD if `compatible`; NFC or NFKC if `composed`.
void normalize(AlignedText& text, bool compatible, bool composed);

} // namespace mha::tokenizers
