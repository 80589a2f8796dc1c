#include "predicted_places.hpp"

#include "console.hpp"
#include <mha/model/opened_model.hpp>

namespace mha::app {

namespace {

bool is_all(const IndexList& query) {
  return query.text() == "all";
}

} // namespace

std::vector<std::size_t> positions_in(const IndexList& query, const Texts& text, std::size_t batch,
                                      MissingTokens missing_tokens) {
  try {
    return positions_in(query, text, batch);
  } catch (const Error&) {
    if (missing_tokens == MissingTokens::error) throw;
    return {};
  }
}

std::vector<TextPosition> predicted_places(const Texts& text, const std::optional<IndexList>& query,
                                           MissingTokens missing_tokens) {
  std::vector<TextPosition> list;
  for (std::size_t b = 0; b < text.lengths().size(); ++b)
    if (query && is_all(*query))
      for (std::size_t t = 0; t < text.lengths()[b]; ++t) list.emplace_back(b, t);
    else if (query)
      for (std::size_t position : positions_in(*query, text, b, missing_tokens))
        list.emplace_back(b, position);
    else if (text.model().causal())
      list.emplace_back(b, text.lengths()[b] - 1);
  if (!query && !text.model().causal()) list = text.hidden_positions();
  if (list.empty())
    fail("the model predicts hidden tokens, but the text hides none; write [MASK] for one, or "
         "choose positions with --query");
  return list;
}

void note_skipped_lines(const std::optional<IndexList>& query, const Texts& text,
                        const Common& common) {
  if (!query || is_all(*query)) return;
  const std::size_t lines = text.lengths().size();
  std::size_t lacking = 0;
  for (std::size_t b = 0; b < lines; ++b)
    lacking += positions_in(*query, text, b, MissingTokens::skip).empty();
  if (lacking == lines) fail("--query {}: no text has such a token", query->text());
  if (lacking > 0)
    print_note(fmt::format("--query {}: {} of {} lack such a token and are skipped", query->text(),
                           lacking, counted(lines, "lines")),
               common);
}

} // namespace mha::app
