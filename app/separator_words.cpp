#include "separator_words.hpp"

#include <mha/render/label.hpp>
#include <mha/render/text.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

namespace mha::app {

void SeparatorWords::look_at(const Layer& layer) {
  for (std::size_t b = 0; b < layer.dims.B && found_.size() < words_.size(); ++b)
    for (const std::string& token : layer.key_tokens_of(b))
      if (is_one_of(token, words_)) found_.insert(token);
}

std::string SeparatorWords::missing() const {
  std::string list;
  for (const std::string& word : words_)
    if (!found_.contains(word))
      list += fmt::format("{}'{}'", list.empty() ? "" : ", ", render::visible(word));
  if (list.empty()) return "";
  return fmt::format("--separators: no token is {}; `tokens` shows how they are written", list);
}

} // namespace mha::app
