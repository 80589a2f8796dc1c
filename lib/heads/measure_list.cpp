// The columns of stats, and the words for what a head looks like: one table each.

#include <mha/heads/measures.hpp>

#include <array>

namespace mha {

namespace {

using Form = Measure::Form;

/// The accessor of a member.
template <auto member> std::optional<double> of(const HeadMeasures& head) {
  return head.*member;
}
template <auto projection, auto member> std::optional<double> of_projection(const HeadMeasures& m) {
  return m.*projection.*member;
}
template <auto projection> constexpr auto rank =
    of_projection<projection, &ProjectionMeasures::rank>;
template <auto projection> constexpr auto condition =
    of_projection<projection, &ProjectionMeasures::condition>;
template <auto projection> constexpr auto stiefel =
    of_projection<projection, &ProjectionMeasures::stiefel>;

using Head = HeadMeasures;

// clang-format off
constexpr Measure list[] = {
  {"entropy", "mean entropy of a row, in nats", Form::number, of<&Head::entropy>},
  {"entropy_share", "mean entropy as a share of the possible: of ln(keys that the row may see)", Form::number, of<&Head::entropy_share>},
  {"effective_keys", "mean of exp(entropy): as many keys as a row seems to look at", Form::number, of<&Head::effective_keys>},
  {"first", "mean weight on key 0", Form::number, of<&Head::first>},
  {"self", "mean weight on the query's own token", Form::number, of<&Head::self>},
  {"previous", "mean weight on the token before", Form::number, of<&Head::previous>},
  {"distance", "mean distance between query and key, in tokens", Form::number, of<&Head::distance>},
  {"window", "share of the weight within --window tokens of the query", Form::number, of<&Head::window>},
  {"diagonal", "correlation of the query's and the key's number", Form::number, of<&Head::diagonal>},
  {"induction", "mean weight on what followed earlier occurrences of the same token", Form::number, of<&Head::induction>},
  {"duplicate", "mean weight on earlier occurrences of the same token", Form::number, of<&Head::duplicate>},
  {"max", "the largest weight", Form::number, of<&Head::max>},
  {"max_query", "the query that has it", Form::count, of<&Head::max_query>},
  {"max_key", "the key that gets it", Form::count, of<&Head::max_key>},
  {"one_key_rows", "share of the rows that give one key more than 0.9", Form::number, of<&Head::one_key_rows>},
  {"uniformity", "1 − total variation distance to equal weights on the keys that a row may see", Form::number, of<&Head::uniformity>},
  {"result_norm", "mean length of what the head adds to the output", Form::number, of<&Head::result_norm>},
  {"result_share", "the head's part of the output, measured along the output", Form::number, of<&Head::result_share>},
  {"nearest_head", "the head with the most similar map", Form::count, of<&Head::nearest_head>},
  {"similarity", "cosine of the two maps, averaged down to at most 256 × 256 cells", Form::number, of<&Head::similarity>},
  {"masked_rows", "rows that may attend to no key", Form::count, of<&Head::masked_rows>},
  {"row_sum_error", "how far the sum of a row is from 1, at most", Form::number, of<&Head::row_sum_error>},
  {"rank_q", "rank of the head's block of W_q", Form::count, rank<&Head::q>},
  {"cond_q", "its condition number", Form::number, condition<&Head::q>},
  {"stiefel_q", "‖WᵀW − I‖ of it: how far from orthonormal columns", Form::number, stiefel<&Head::q>},
  {"rank_k", "the same of W_k", Form::count, rank<&Head::k>},
  {"cond_k", "", Form::number, condition<&Head::k>},
  {"stiefel_k", "", Form::number, stiefel<&Head::k>},
  {"rank_v", "the same of W_v", Form::count, rank<&Head::v>},
  {"cond_v", "", Form::number, condition<&Head::v>},
  {"stiefel_v", "", Form::number, stiefel<&Head::v>},
  {"rank_o", "the same of W_o, transposed", Form::count, rank<&Head::o>},
  {"cond_o", "", Form::number, condition<&Head::o>},
  {"stiefel_o", "", Form::number, stiefel<&Head::o>},
  {"max_batch", "the batch item of max", Form::count, of<&Head::max_batch>},
  {"window_keys", "share of the keys that a row may see that `window` covers", Form::number, of<&Head::window_keys>},
  {"largest_logit", "the largest logit", Form::number, of<&Head::largest_logit>},
  {"overflow_f32", "whether exp without subtracting the maximum overflows in float32", Form::boolean, of<&Head::overflow_f32>},
  {"overflow_f16", "and in float16", Form::boolean, of<&Head::overflow_f16>},
};

bool is_local(const Head& head) {
  return head.window >= 0.8 && (head.window_keys <= *head.window / 2 || head.diagonal >= 0.95);
}

constexpr HeadKind kind_list[] = {
  {"previous-token", "previous ≥ 0.5", [](const Head& head) { return head.previous >= 0.5; }},
  {"induction", "induction ≥ 0.5", [](const Head& head) { return head.induction >= 0.5; }},
  {"duplicate-token", "duplicate ≥ 0.5", [](const Head& head) { return head.duplicate >= 0.5; }},
  {"self", "self ≥ 0.5", [](const Head& head) { return head.self >= 0.5; }},
  {"first-token", "first ≥ 0.5", [](const Head& head) { return head.first >= 0.5; }},
  {"uniform", "uniformity ≥ 0.9", [](const Head& head) { return head.uniformity >= 0.9; }},
  {"local", "window ≥ 0.8, and at least twice window_keys or diagonal ≥ 0.95", is_local},
  {"diagonal", "diagonal ≥ 0.95", [](const Head& head) { return head.diagonal >= 0.95; }},
  {"one-key", "one_key_rows ≥ 0.8", [](const Head& head) { return head.one_key_rows >= 0.8; }},
  {"mixed", "none of these", [](const Head&) { return true; }},
};
// clang-format on

template <class Row>
const Row& named(std::span<const Row> rows, std::string_view name, std::string_view what) {
  std::vector<std::string_view> names;
  for (const Row& row : rows) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  std::string choices;
  for (std::string_view choice : names)
    choices += fmt::format("{}{}", choices.empty() ? "" : ", ", choice);
  const std::string meant = did_you_mean(name, names);
  fail("'{}' is no {}{}", name, what, meant.empty() ? "; there are " + choices : meant);
}

} // namespace

std::span<const Measure> measures() {
  return list;
}
std::span<const HeadKind> head_kinds() {
  return kind_list;
}
const Measure& measure_named(std::string_view name) {
  return named(measures(), name, "measure");
}
const HeadKind& head_kind_named(std::string_view name) {
  return named(head_kinds(), name, "kind of head");
}

} // namespace mha
