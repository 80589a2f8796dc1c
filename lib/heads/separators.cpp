#include <mha/heads/separators.hpp>

#include <mha/system/one_of.hpp>

#include <algorithm>

namespace mha {

namespace {

constexpr std::string_view ends[] = {"[SEP]",           "</s>",          "<sep>",      "[EOS]",
                                     "<eos>",           "<|endoftext|>", "<|im_end|>", "<|eot_id|>",
                                     "<|end_of_text|>", "<end_of_turn>", "<|eom_id|>"};
constexpr std::string_view signs[] = {".", ",",  ";",  ":",  "!",  "?",  "|",  ">",  "\n",    "⏎",
                                      "Ċ", "。", "，", "、", "；", "：", "！", "？", "<0x0A>"};
constexpr std::string_view blanks[] = {" ", "Ġ", "▁", "␣"};

/// Removes words from the start of the text until none of them is there.
template <class Words> bool take_all(std::string_view& text, const Words& words) {
  const std::size_t before = text.size();
  for (bool found = true; found;) {
    found = false;
    for (std::string_view word : words)
      if (text.starts_with(word)) text.remove_prefix(word.size()), found = true;
  }
  return text.size() < before;
}

} // namespace

bool is_separator(std::string_view token) {
  take_all(token, blanks);
  if (is_one_of(token, ends)) return true;
  bool some = false;
  while (take_all(token, signs)) some = true, take_all(token, blanks);
  return some && token.empty();
}

std::vector<std::size_t> separator_keys(const Layer& layer, std::size_t batch,
                                        const std::vector<std::string>& named) {
  const std::vector<std::string>& keys = layer.key_tokens_of(batch);
  std::vector<std::size_t> list;
  const std::size_t with_position = std::min(keys.size(), layer.dims.past + layer.dims.S);
  for (std::size_t j = 1; j < with_position; ++j)
    if (named.empty() ? is_separator(keys[j]) : is_one_of(keys[j], named)) list.push_back(j);
  return list;
}

} // namespace mha
