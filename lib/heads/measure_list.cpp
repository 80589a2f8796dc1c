// Tables of the columns of stats and of the kinds of heads.

#include <mha/heads/measures.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <iterator>

namespace mha {

namespace {

using Form = Measure::Form;

/// The accessor of a member.
template <auto member> std::optional<double> of(const HeadMeasures& head) {
  return head.*member;
}
/// A measure minus its value for equal weights.
template <auto member> std::optional<double> above(const HeadMeasures& head) {
  const std::optional<double> value = head.*member, uniform = head.uniform.*member;
  return value && uniform ? std::optional(*value - *uniform) : std::nullopt;
}
template <auto member> std::optional<double> uniform(const HeadMeasures& head) {
  return head.uniform.*member;
}
template <auto member> std::optional<double> count(const HeadMeasures& head) {
  return head.counts.*member;
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
using Place = PlaceMeasures;

// clang-format off
constexpr Measure list[] = {
  {"entropy", "mean entropy of a row, in nats", Form::number, of<&Head::entropy>},
  {"entropy_share", "mean entropy as a share of the possible: of ln(keys that the row may see)", Form::number, of<&Head::entropy_share>},
  {"effective_keys", "mean of exp(entropy): as many keys as a row seems to look at", Form::number, of<&Head::effective_keys>},
  {"first", "mean weight on key 0", Form::number, of<&Place::first>},
  {"self", "mean weight on the query's own token", Form::number, of<&Place::self>},
  {"previous", "mean weight on the token before", Form::number, of<&Place::previous>},
  {"distance", "mean distance between query and key, in tokens", Form::number, of<&Head::distance>},
  {"window", "share of the weight within <near> tokens of the query", Form::number, of<&Place::window>},
  {"diagonal", "correlation of the query's and the key's number", Form::number, of<&Place::diagonal>},
  {"induction", "mean weight on what followed earlier occurrences of the same token", Form::number, of<&Place::induction>},
  {"duplicate", "mean weight on earlier occurrences of the same token, key 0 left out", Form::number, of<&Place::duplicate>},
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
  {"window_keys", "share of the keys that a row may see that `window` covers", Form::number, uniform<&Place::window>},
  {"largest_logit", "the largest logit", Form::number, of<&Head::largest_logit>},
  {"overflow_f32", "whether exp without subtracting the maximum overflows in float32", Form::boolean, of<&Head::overflow_f32>},
  {"overflow_f16", "and in float16", Form::boolean, of<&Head::overflow_f16>},
  {"rows", "rows that may see more than one key: the means are over these", Form::count, of<&Head::rows>},
  {"next", "mean weight on the token after", Form::number, of<&Place::next>},
  {"last", "mean weight on the last key of the text, of other tokens' rows", Form::number, of<&Place::last>},
  {"separator", "mean weight on separators: [SEP], <</s>, full stops, commas, ends of lines …", Form::number, of<&Place::separator>},
  {"first_above", "first, less what equal weights on the keys that each row may see would score", Form::number, above<&Place::first>},
  {"self_above", "and self", Form::number, above<&Place::self>},
  {"previous_above", "previous", Form::number, above<&Place::previous>},
  {"next_above", "next", Form::number, above<&Place::next>},
  {"last_above", "last", Form::number, above<&Place::last>},
  {"separator_above", "separator", Form::number, above<&Place::separator>},
  {"window_above", "window", Form::number, above<&Place::window>},
  {"diagonal_above", "diagonal", Form::number, above<&Place::diagonal>},
  {"induction_above", "induction", Form::number, above<&Place::induction>},
  {"duplicate_above", "duplicate", Form::number, above<&Place::duplicate>},
  {"self_rows", "the rows that self is averaged over", Form::count, count<&Place::self>},
  {"previous_rows", "the rows that previous is averaged over", Form::count, count<&Place::previous>},
  {"next_rows", "next", Form::count, count<&Place::next>},
  {"last_rows", "last", Form::count, count<&Place::last>},
  {"separator_rows", "separator", Form::count, count<&Place::separator>},
  {"induction_rows", "induction", Form::count, count<&Place::induction>},
  {"duplicate_rows", "and duplicate", Form::count, count<&Place::duplicate>},
  {"confidence", "mean of the rows' largest weights", Form::number, of<&Head::confidence>},
  {"sink_share", "mean weight that sinks take: key 0, and learned ones", Form::number, of<&Head::sink_share>},
};

/// Most of the weight, and clearly more than with equal weights.
constexpr double most = 0.5, clearly_above = 0.25;
template <auto member> bool is_most(const Head& head) {
  return head.*member >= most && above<member>(head) >= clearly_above;
}

/// If most weight is also on separators, there must be several, and most of it on the last key.
bool is_last(const Head& head) {
  if (!is_most<&Place::last>(head) || !is_most<&Place::separator>(head))
    return is_most<&Place::last>(head);
  const bool several = *head.uniform.separator >= 1.5 * *head.uniform.last;
  return several && *head.last >= 0.8 * *head.separator;
}

bool is_diagonal(const Head& head) {
  return head.diagonal >= 0.95 && above<&Place::diagonal>(head).value_or(1) >= clearly_above;
}
bool is_local(const Head& head) {
  return head.window >= 0.8 && (head.uniform.window <= *head.window / 2 || is_diagonal(head));
}

/// The fewest rows that decide a kind: in all, and of the rows that count for the kind.
constexpr double fewest_rows = 6, fewest_own = 4, long_text = 32;

constexpr HeadKind kind_list[] = {
  {"previous-token", "previous ≥ 0.5, and 0.25 above uniform", is_most<&Place::previous>, count<&Place::previous>},
  {"next-token", "next ≥ 0.5, and 0.25 above uniform", is_most<&Place::next>, count<&Place::next>},
  {"last-token", "last ≥ 0.5, and 0.25 above uniform; not where the last key is the only separator", is_last, count<&Place::last>},
  {"separator", "separator ≥ 0.5, and 0.25 above uniform", is_most<&Place::separator>, count<&Place::separator>},
  {"induction", "induction ≥ 0.5, and 0.25 above uniform", is_most<&Place::induction>, count<&Place::induction>},
  {"duplicate-token", "duplicate ≥ 0.5, and 0.25 above uniform", is_most<&Place::duplicate>, count<&Place::duplicate>},
  {"self", "self ≥ 0.5, and 0.25 above uniform", is_most<&Place::self>, count<&Place::self>},
  {"first-token", "first ≥ 0.5, and 0.25 above uniform", is_most<&Place::first>, of<&Head::rows>},
  {"uniform", "uniformity ≥ 0.9", [](const Head& head) { return head.uniformity >= 0.9; }, of<&Head::rows>},
  {"local", "window ≥ 0.8, and at least twice window_keys or diagonal ≥ 0.95 and 0.25 above uniform", is_local, of<&Head::rows>},
  {"diagonal", "diagonal ≥ 0.95, and 0.25 above uniform", is_diagonal, of<&Head::rows>},
  {"one-key", "one_key_rows ≥ 0.8", [](const Head& head) { return head.one_key_rows >= 0.8; }, of<&Head::rows>},
  {"mixed", "none of these", [](const Head&) { return true; }, of<&Head::rows>},
  {"too short", "rows < 6; or rows < 32, and the only kinds that hold are averaged over fewer than 4 rows", [](const Head& head) { return head.rows < fewest_rows; }, of<&Head::rows>},
};
// clang-format on

template <class Row>
const Row& named(std::span<const Row> rows, std::string_view name, std::string_view what) {
  if (const Row* row = find_named(rows, name)) return *row;
  fail("'{}' is not a {}{}", name, what, choices_for(name, names_of_rows(rows)));
}

} // namespace

std::span<const Measure> measures() {
  return list;
}
std::span<const HeadKind> head_kinds() {
  return kind_list;
}
namespace {
/// "first_above" of "first", or null.
const Measure* with_ending(const Measure& measure, std::string_view ending) {
  return find_named(measures(), std::string(measure.name).append(ending));
}
} // namespace

const Measure& above_uniform(const Measure& measure) {
  const Measure* above = with_ending(measure, "_above");
  return above ? *above : measure;
}
std::vector<const Measure*> each_once(const std::vector<const Measure*>& columns) {
  std::vector<const Measure*> once;
  for (const Measure* column : columns) add_once(once, column);
  return once;
}
std::vector<const Measure*> all_above_uniform(std::vector<const Measure*> columns) {
  for (const Measure*& column : columns) column = &above_uniform(*column);
  return each_once(columns);
}
const Measure* rows_counted_for(const Measure& measure) {
  return with_ending(measure, "_rows");
}
bool reads_tokens(const Measure& measure) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"induction", "duplicate", "separator"},
      [&](std::string_view of) { return measure.name.starts_with(of); });
}

bool is_of_projections(const Measure& measure) {
  HeadMeasures head; // has no other number
  head.q = head.k = head.v = head.o = {1, 1, 1};
  return measure.of(head).has_value();
}

std::string_view kind_of(const HeadMeasures& head) {
  if (!head.rows) return "";
  const std::string_view mixed = kind_list[std::size(kind_list) - 2].name,
                         too_short = kind_list[std::size(kind_list) - 1].name;
  if (head.rows < fewest_rows) return too_short;
  bool holds_for_few = false;
  for (const HeadKind& kind : kind_list) {
    if (!kind.holds(head)) continue;
    if (kind.rows(head) < fewest_own)
      holds_for_few = head.rows < long_text; // in a long text a few rows prove nothing
    else
      return kind.name == mixed && holds_for_few ? too_short : kind.name;
  }
  return too_short;
}

const Measure& measure_named(std::string_view name) {
  return named(measures(), name, "measure");
}
const HeadKind& head_kind_named(std::string_view name) {
  return named(head_kinds(), name, "kind of head");
}

} // namespace mha
