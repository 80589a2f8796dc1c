#pragma once
// The numbers by which a diagnosis decides, each with its reason. Relative errors are ‖ours −
// theirs‖ / ‖theirs‖ (agreement.hpp). Step sizes of fits, sizes of memory blocks and the values
// that a hypothesis tries (hypotheses/) are defined where they are used. "Case" names a test that
// fails with another number, or a mistake in such a test; without it, no such test is known.

#include <cstddef>

namespace mha::thresholds {

// Single numbers (agreement.cpp). Case: "agreement: rows with and without
// unusual numbers are judged by one formula".

/// Masks write this or less for −∞: such a number is hidden.
inline constexpr double mask_constant = -1e3;
/// Numbers of this size or more are not typical of a stage.
inline constexpr double huge = 1e4;

// Stages that are screened and then computed whole (judge.cpp, causes.cpp).

/// Screening computes some queries with other bits. Sets with a smaller error are computed whole.
inline constexpr double worth_confirming = 0.01;
/// The most sets that are computed whole: the right one is among the closest. Case: rope.missing.q
/// of "each mistake of the reports is named".
inline constexpr std::size_t most_confirmed = 16;
/// The most explanations of one stage that are followed through later stages, which decide between
/// them: doubling q and doubling k give the same scores. Case: rope.twice of "each mistake of the
/// reports is named".
inline constexpr std::size_t most_branches = 6;
/// The most changes of one cause; more are not believable. Case: "diagnose: two changes, and the
/// command that shows both".
inline constexpr std::size_t most_changes = 4;
/// Ratios of errors that differ only by rounding, such as another order of float32 sums.
inline constexpr double same_exactly = 3, same_in_half = 1.05;

// A reference in half precision (judge.cpp): each stage is computed from the reference's own.

/// An explanation removes at least half of the difference, which random rounding cannot. Cases:
/// "rounding is no cause"; input_norm.form of "each mistake of the reports is named where the
/// reference is in half precision".
inline constexpr double most_left_in_half = 0.5;
/// The ratio of errors that count as equally good: the rounding of two right formulas differs by
/// less. Case: rope.twice of "each mistake of the reports is named where the reference is in half
/// precision".
inline constexpr double as_good_in_half = 1.3;
/// The error that an explanation may leave in addition to the storing error, as a multiple of the
/// usual rounding of the stage; a right one leaves about 1. The limit is lower for pairs with a
/// rare or fitted change, of which there are so many that some pair always comes close.
inline constexpr double most_of_rounding = 2, most_of_rounding_for_rare_pairs = 1.2;
/// If a change leaves more than this multiple, fitted numbers are tried as well.
inline constexpr double usual_of_rounding = 1.5;
/// Rounding is random: in n numbers it hides an effect only up to 1/√n of its own size. A
/// difference that exceeds this limit by so many times, and has the direction and size of the
/// change's effect, is not chance. Case: "rounding is no cause".
inline constexpr double no_chance = 10, as_far_as_it_goes = 3, nearly_as_far = 0.05;
/// The same by rows, whose numbers are wrong together. Case: "reports: a right port in bfloat16 is not
/// blamed for the scatter of its rows".
inline constexpr double no_chance_by_rows = 6;
/// Changes that reduce the difference by less than 3 % are ignored.
inline constexpr double lessens = 0.97;
/// A larger relative error cannot be rounding, so that variances are not computed.
inline constexpr double most_rounding = 0.5;
/// A stage given by a change was computed in other steps, which round as well.
inline constexpr double other_formula = 4;
/// Settings are written with nine digits, which is much coarser than float64's rounding.
inline constexpr double nine_digits = 0x1p-31;

// Pairs of changes at one stage (cause_pairs.cpp).

/// The closest few of the changes that alone remove half of the difference are paired with every
/// other change, rare ones included: the larger of two mistakes is visible despite the smaller.
inline constexpr double takes_most = 0.5;
inline constexpr std::size_t most_closest = 4;
/// Candidates whose screening results are this close have the same effect.
inline constexpr double same_bits = 1e-6;
/// Limits on pairs: all are tried on a layer of at most `small_layer` numbers, only likely ones on
/// larger layers.
inline constexpr std::size_t all_pairs = 20000, small_layer = std::size_t{1} << 16;

// A verdict on a cause (diagnose.cpp, causes.cpp).

/// A cause is misleading if it multiplies the error of a stage that agreed by this much, or leaves
/// a stage with this error no better.
inline constexpr double spoilt = 4, still_wrong = 0.1;
/// Another formula rounds differently. Case: "in half precision a cause leaves no more
/// than its rounding".
inline constexpr double by_chance_in_half = 1.2;
/// Another layer's cause explains this one if it leaves no more than the rounding of float32 sums.
inline constexpr double likely_in_next_layer = 1e-3;
/// Runners-up leave less than this part of the difference.
inline constexpr double worth_reporting = 0.9;
inline constexpr std::size_t most_runners_up = 12;
/// A reference in half precision with a larger error was rounded at every step, not only when
/// stored.
inline constexpr double more_than_stored = 1.5;

// A stream, judged by the stages after it (search.cpp).

/// Within the rounding of the earlier layers: the part of the difference that a cause may leave.
/// Case: "search: rounding of the layers before may be left, and nothing else of its size".
inline constexpr double left_within_rounding = 0.2;
/// Within the tolerance: a cause leaves less than half of the difference, otherwise it agrees by
/// chance. Case: "search: what leaves half of a difference is no better by chance".
inline constexpr double left_by_agreement = 0.5;
/// Beyond the tolerance, because rounding grows through the layers: the error is small, both
/// absolutely and compared with the error before. Cases: the two above.
inline constexpr double small_error = 1e-4, left_of_small_error = 0.02;
/// On some of the tokens: the part of the difference that a likely change leaves.
inline constexpr double left_by_likely = 0.25;
/// A better cause leaves less than half of the error; one that leaves less than four times the best
/// error is reported with it. Case of the latter: "search: the change whose stream is the
/// reference's explains all saved stages".
inline constexpr double clearly_less = 0.5, same_numbers = 4;
/// The earlier layers round every step, of which the end shows only the last.
inline constexpr double rounded_steps = 3;

// Parts that are computed.

/// The queries of a long text computed in screening; texts of up to `few_queries` are computed
/// whole.
inline constexpr std::size_t screened_queries = 16, few_queries = 48;
/// The tokens of a model's end used in screening.
inline constexpr std::size_t screened_tokens = 16;
/// The logits used in screening, if the vocabulary has more than twice as many.
inline constexpr std::size_t screened_logits = 1024;
/// The fewest first tokens that represent a text, and the part of the difference that they must
/// show. If a layer's rows of them change by more than `same_rows` without the later tokens, it
/// sees those. Case: "passes: a cause in all layers is named from logits alone in few passes of the
/// model".
inline constexpr std::size_t fewest_first_tokens = 8;
inline constexpr double shown_by_first_tokens = 0.25, same_rows = 1e-4;
/// The most passes of a whole model, at this length of text, that trying single layers may cost.
inline constexpr std::size_t most_passes = 60, long_text = 128;
/// The longest prefix that is tried, with one pass for each length. Case: "whole diagnose: a text
/// in pieces is named, and GELU's form through float16's rounding".
inline constexpr std::size_t longest_prefix = 24;

// Fits: a number is fitted if some value of it leaves less than this part of the difference.
// Cases of the first two: softcap.value of "each mistake of the reports is named"; "the ε of a norm
// is fitted, whatever it is, and written as people write it".

inline constexpr double worth_fitting = 0.6;         ///< a cap, β of Swish, factors of sums
inline constexpr double worth_fitting_epsilon = 0.9; ///< ε matters only in small rows
inline constexpr double worth_fitting_whole = 0.7;   ///< of a whole model, among few values
inline constexpr double worth_trying_whole = 0.05;   ///< after the fit
/// A number in the softmax's denominator is fitted only to a difference that exceeds rounding by so
/// many times. Cases: "rounding is no cause"; "the ε of a norm is fitted, whatever it is, and
/// written as people write it".
inline constexpr double far_beyond_rounding = 100;
/// A factor closer to 1 is rounding; a named factor this close is tried. Case: "kernels: a
/// logsumexp in base 2 is told by its factor".
inline constexpr double no_factor = 1e-6, near_named_factor = 0.02;
/// The same for factors of sums, which are fitted through later stages.
inline constexpr double no_factor_of_sums = 1e-3;
/// The smallest starting value of a fit of ε: changes of a smaller one are lost in float32
/// rounding. Case: "the ε of a norm is fitted, whatever it is, and written as people write it".
inline constexpr double least_seen_epsilon = 1e-5;
/// Parts of ranks are equal if the squared relative difference is below this.
inline constexpr double same_part = 1e-3;

// Tensors saved under another step's name (captured.cpp, model_streams.cpp).

/// A tensor equals another step up to rounding; parts of ranks are in short types. Cases:
/// "captures: a tensor that is another step is named, and nothing is blamed"; "captures: a rank's
/// part of a sum is told".
inline constexpr double same_step = 1e-4, same_part_of_rank = 0.02;
/// Two tensors of one stream are equal up to this error.
inline constexpr double same_stream = 0.02;
/// A sum of two steps is rejected early if the squared relative error of its first numbers is
/// larger. Case: "captures: a tensor that is another step is named, and nothing is blamed".
inline constexpr std::size_t looked_at_first = 256;
inline constexpr double far_at_first = 1e-2;
/// A sampler hides logits by −∞ or by a type's least number: float16's is −65504.
/// Case: forbidden_tokens of tests/models/fifth_threads.py.
inline constexpr double hidden_logit = -1e4;

// Hints for stages that no change explains (hints.cpp, differing_parts.cpp). Case, unless another
// is named: "hints: what no change explains is described", whose rows name the numbers that they
// need.

/// A reference in a short type may round more often than assumed. Case: "in half precision only
/// what rounding explains agrees".
inline constexpr double own_rounding = 3;
/// Rounded weights: every token differs a little, in nearly the same direction.
inline constexpr double differs_a_little = 1e-5, off_a_little = 0.04, same_direction = 0.999;
/// Other weights or another input: the cosine is near 0, but for few numbers it is far from 0 by
/// chance.
inline constexpr double nothing_in_common = 0.5, usual_chance = 0.15;
/// An output that is a sum of the heads' results in which some factors are not 1.
inline constexpr double sum_of_heads = 0.999, counts_otherwise = 0.01;
/// Heads recovered from an output: differences that are visible through the product with W_o, and
/// those that are negligible compared with the largest.
inline constexpr double seen_through_product = 1e-3, small_through_product = 1e-4,
                        small_beside_largest = 0.02;
/// W_o is inverted up to this width, which takes a moment, and if its rows are independent.
inline constexpr std::size_t widest_joined = 768;
inline constexpr double least_pivot = 1e-8;

// Forms of GELU, whose difference a short type nearly hides (gelu_forms.cpp). Case: "whole
// diagnose: GELU's form below a short type's rounding is named or said to be open".

/// Rounding is not entirely random: the share may be off by this multiple of the error by chance.
inline constexpr double rounding_by_chance = 1.5;
/// The error of the share must be below this for a verdict.
inline constexpr double known_within = 0.1;

} // namespace mha::thresholds
