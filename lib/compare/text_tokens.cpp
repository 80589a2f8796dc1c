#include <mha/compare/same_text.hpp>

#include <mha/compare/captures.hpp>
#include <mha/compare/hidden_states.hpp>
#include <mha/forward/embedding.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace mha {

namespace {

/// Whole numbers of shape (T) or (B, T), a list for each text.
std::vector<std::vector<int>> whole_numbers(const io::Entry& entry) {
  if (entry.shape.empty() || entry.shape.size() > 2) return {};
  const Tensor tensor = entry.read();
  const std::size_t T = entry.shape.back();
  std::vector<std::vector<int>> lists(T == 0 ? 0 : tensor.count() / T);
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double value = value_at(tensor, i);
    if (value != std::floor(value) || std::fabs(value) > 1e9) return {};
    lists[i / T].push_back(static_cast<int>(value));
  }
  return lists;
}

std::vector<std::vector<int>> numbers_named(const io::Contents& contents, std::string_view words) {
  for (const io::Entry& entry : contents.tensors) {
    const std::string_view name = entry.name;
    if (has_word(words, last_part(name)))
      if (std::vector<std::vector<int>> lists = whole_numbers(entry); !lists.empty()) return lists;
  }
  return {};
}

/// The number of rows of most of a file's streams; 0 if it has none.
std::size_t rows_in(const ReferenceFile& file, std::size_t T) {
  std::map<std::size_t, std::size_t> votes;
  const auto rows_of = [&](const Shape& shape) { // a transposed one has its tokens last
    const std::size_t rows = shape[shape.size() - 2];
    return shape.back() == T ? T : rows;
  };
  for (const io::Entry& entry : file.contents().tensors) {
    const Capture capture = capture_of(entry.name, {});
    if (entry.shape.size() < 2 || entry.shape.size() > 4 || capture.stages.size() != 1) continue;
    const StageInfo& info = info_of(capture.stages[0]);
    if ((info.kind == Kind::token && info.letters.size() == 2) || info.kind == Kind::map)
      ++votes[rows_of(entry.shape)];
  }
  for (const io::Entry& entry : file.stacks().tensors)
    if (entry.name.find("attentions") == std::string::npos && entry.shape.size() > 1)
      ++votes[rows_of(entry.shape)];
  std::size_t rows = 0, most = 0;
  for (const auto& [count, times] : votes)
    if (times > most) rows = count, most = times;
  return rows;
}

/// The first layer's input, (T, d_model) or (B, T, d_model), or empty.
Tensor first_stream(const ReferenceFile& file, std::size_t d_model) {
  const auto is_stream = [&](const Shape& shape) {
    return (shape.size() == 2 || shape.size() == 3) && shape.back() == d_model;
  };
  for (const io::Entry& entry : file.stacks().tensors) {
    if (entry.name.find("attentions") != std::string::npos) continue;
    const bool first = entry.name.ends_with(".0") || entry.name.ends_with("_0");
    if (first && is_stream(entry.shape)) return entry.read();
    if (entry.name.ends_with("hidden_states") && entry.shape.size() > 2)
      if (const Tensor state = entry.read().at(0); is_stream(state.shape())) return state;
  }
  for (const io::Entry& entry : file.contents().tensors) {
    const Capture capture = capture_of(entry.name, {});
    const bool embed = !capture.layer && capture.stages == std::vector{Stage::embed},
               enters = capture.layer == std::size_t{0} &&
                        capture.stages == std::vector{Stage::resid_pre};
    if ((embed || enters) && is_stream(entry.shape)) return entry.read();
  }
  return {};
}

/// Finds the token whose embedding a row is.
class TokenFinder {
public:
  explicit TokenFinder(const Embedding& embedding)
      : embedding_(embedding),
        d_(embedding.tokens.shape()[1]),
        vocabulary_(embedding.tokens.shape()[0]) {}

  /// The tokens of rows (T, d); empty if a row is not a token's.
  std::vector<int> tokens_of(const Tensor& rows, std::size_t first, std::size_t T) {
    std::vector<int> ids(T, 0);
    // Positions and types are added to a token's own row; any other token shows them.
    const Tensor like = embed(embedding_, {ids}, DType::f64);
    const Tensor own = scaled_row(0);
    for (std::size_t t = 0; t < T; ++t) {
      std::vector<double> row(d_);
      for (std::size_t i = 0; i < d_; ++i)
        row[i] =
            value_at(rows, (first + t) * d_ + i) - value_at(like, t * d_ + i) + value_at(own, i);
      const std::optional<int> id = is_padding(rows, first + t) ? std::optional(-1) : token_of(row);
      if (!id) return {};
      ids[t] = *id;
    }
    return ids;
  }

private:
  /// Rows of zeros belong to no token.
  bool is_padding(const Tensor& rows, std::size_t row) const {
    for (std::size_t i = 0; i < d_; ++i)
      if (value_at(rows, row * d_ + i) != 0) return false;
    return true;
  }
  Tensor scaled_row(std::size_t id) const {
    Tensor row(DType::f64, {d_});
    for (std::size_t i = 0; i < d_; ++i)
      row.as_mutable<double>()[i] = embedding_.scale * value_at(embedding_.tokens, id * d_ + i);
    return row;
  }
  /// The token whose row of the table is near these numbers.
  std::optional<int> token_of(const std::vector<double>& row) const {
    double size = 0;
    for (double value : row) size += value * value;
    const double near = 0.01 * std::sqrt(size / static_cast<double>(d_)) + 1e-9;
    for (std::size_t id = 0; id < vocabulary_; ++id) {
      double apart = 0;
      std::size_t i = 0;
      for (; i < d_; ++i) {
        const double difference =
            embedding_.scale * value_at(embedding_.tokens, id * d_ + i) - row[i];
        if (std::fabs(difference) > 8 * near) break;
        apart += difference * difference;
      }
      if (i == d_ && std::sqrt(apart / static_cast<double>(d_)) < near) return static_cast<int>(id);
    }
    return std::nullopt;
  }

  const Embedding& embedding_;
  std::size_t d_, vocabulary_;
};

/// Whether the rows are those of the text's own tokens, within a hundredth.
bool is_own(const Tensor& rows, const Tensor& own) {
  if (rows.count() != own.count()) return false;
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < own.count(); ++i) {
    const double difference = value_at(rows, i) - value_at(own, i);
    apart += difference * difference, size += value_at(own, i) * value_at(own, i);
  }
  return apart <= 1e-4 * size;
}

/// Whether the tokens shown by rows are a text's, except for rows of zeros.
bool is_own_but_for_zeros(const std::vector<std::vector<int>>& shown,
                          const std::vector<std::vector<int>>& own) {
  if (shown.size() != own.size()) return false;
  for (std::size_t b = 0; b < own.size(); ++b)
    if (!std::ranges::equal(shown[b], own[b],
                            [](int theirs, int ours) { return theirs < 0 || theirs == ours; }))
      return false;
  return true;
}

/// The tokens shown by the first layer's input; none if the embedding has a mistake.
std::vector<std::vector<int>> tokens_of_stream(const ReferenceFile& file,
                                               const ComputedText& text) {
  const Embedding& embedding = *text.embedding;
  if (embedding.norm.present() || embedding.pad || embedding.mask_token) return {};
  const Tensor rows = first_stream(file, embedding.tokens.shape()[1]);
  if (rows.empty()) return {};
  const std::size_t T = rows.shape()[rows.rank() - 2],
                    items = rows.rank() == 3 ? rows.shape()[0] : 1;
  constexpr std::size_t searched_at_most = 512; // each row is searched for in the vocabulary
  if (is_own(rows, embed(embedding, text.ids, DType::f64))) return text.ids;
  if (T < 2 || T * items > searched_at_most ||
      (!embedding.positions.empty() && T > embedding.positions.shape()[0]))
    return {};
  TokenFinder finder(embedding);
  std::vector<std::vector<int>> ids;
  for (std::size_t item = 0; item < items; ++item) {
    ids.push_back(finder.tokens_of(rows, item * T, T));
    if (std::ranges::all_of(ids.back(), [](int id) { return id < 0; })) return {};
  }
  if (is_own_but_for_zeros(ids, text.ids)) return text.ids; // rows that were not written
  return ids;
}

} // namespace

TokensOfReference tokens_of(const ReferenceFile& file, const ComputedText& text) {
  TokensOfReference found;
  found.rows = rows_in(file, text.ids[0].size());
  found.ids = numbers_named(file.contents(), "input_ids ids token_ids tokens inp_tokens");
  found.mask = numbers_named(file.contents(), "attention_mask");
  if (found.mask.size() != found.ids.size()) found.mask.clear();
  if (found.ids.empty() && text.embedding) found.ids = tokens_of_stream(file, text);
  return found;
}

} // namespace mha
