#pragma once
// Parts that tokenizer_config.json and tokenizer.json contradict each other about.

#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// What tokenizer_config.json, and config.json where it is silent, say of a tokenizer.
struct Said {
  /// "bert" of BertTokenizerFast, or config.json's model_type.
  std::string family;
  /// do_lower_case, strip_accents, tokenize_chinese_chars and add_prefix_space.
  std::optional<bool> lower, accents, chinese, add_prefix_space;
};
/// `of_both`: config.json may say those settings, too.
Said read_said(const std::string& folder, bool of_both);

/// do_lower_case, strip_accents, tokenize_chinese_chars and add_prefix_space of
/// tokenizer_config.json. The classes of Transformers that have such a setting of their own
/// (BertTokenizer, GPT2Tokenizer and their kin) put it in the place of tokenizer.json's, and so
/// does this, with a warning; for all others tokenizer.json counts, and a warning says so. What
/// agrees changes nothing and is silent.
void follow_config(const std::string& folder, Pipeline& parts);

} // namespace mha::tokenizers
