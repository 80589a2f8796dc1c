#include "predicted_places.hpp"

#include "options.hpp"
#include <mha/model/opened_model.hpp>

namespace mha::app {

std::vector<TextPosition> predicted_places(const Texts& text,
                                           const std::optional<IndexList>& query) {
  std::vector<TextPosition> list;
  for (std::size_t b = 0; b < text.lengths().size(); ++b)
    if (query && query->text() == "all")
      for (std::size_t t = 0; t < text.lengths()[b]; ++t) list.emplace_back(b, t);
    else if (query)
      for (std::size_t position : positions_in(*query, text, b)) list.emplace_back(b, position);
    else if (text.model().causal())
      list.emplace_back(b, text.lengths()[b] - 1);
  if (!query && !text.model().causal()) list = text.hidden_positions();
  if (list.empty())
    fail("the text hides no token (as [MASK] does), and the model predicts hidden ones; hide one, "
         "or choose positions with --query");
  return list;
}

} // namespace mha::app
