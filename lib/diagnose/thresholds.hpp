#pragma once
// Every number by which a diagnosis decides, with its reason. Relative errors are ‖ours − theirs‖ /
// ‖theirs‖ (agreement.hpp). What a fit steps by, and the sizes of blocks of memory, are where they
// are used, as are the values that a hypothesis tries (hypotheses/). "Case" names a test that
// fails with another number, or a mistake in such a test; where it is not there, no such test is
// known.

#include <cstddef>

namespace mha::thresholds {

// Numbers that are judged by themselves (agreement.cpp). Case: "agreement: rows with and without
// unusual numbers are judged by one formula".

/// What masks write for −∞, and less: such a number is hidden, no score.
inline constexpr double mask_constant = -1e3;
/// No typical number of a stage.
inline constexpr double huge = 1e4;

// A stage that is screened, then computed whole (judge.cpp, causes.cpp).

/// Screening computes some queries with other bits: what comes so close is computed whole.
inline constexpr double worth_confirming = 0.01;
/// Sets that are computed whole: the right one is among the nearest few. Case: rope.missing.q of
/// "each mistake of the reports is named".
inline constexpr std::size_t most_confirmed = 16;
/// Explanations of one stage that are followed through the stages after it, which decide between
/// them: q times 2 and k times 2 leave the same scores. Case: rope.twice of "each mistake of the
/// reports is named".
inline constexpr std::size_t most_branches = 6;
/// Changes of one cause: more are not believable. Case: "diagnose: two changes, and the command
/// that shows both".
inline constexpr std::size_t most_changes = 4;
/// Errors that differ by rounding alone: a float32 cause computed in another order of sums.
inline constexpr double same_exactly = 3, same_in_half = 1.05;

// A reference in half precision (judge.cpp): each stage is computed from the reference's own.

/// An explanation takes away half of the difference at least: rounding at random cannot. Cases:
/// "rounding is no cause"; input_norm.form of "each mistake of the reports is named where the
/// reference is in half precision".
inline constexpr double most_left_in_half = 0.5;
/// Errors that are as good: the rounding of two right formulas differs by less. Case: rope.twice of
/// "each mistake of the reports is named where the reference is in half precision".
inline constexpr double as_good_in_half = 1.3;
/// What an explanation may leave beside the storing, in what rounding every step makes of the
/// stage: a right one leaves about once as much. Of two changes with a rare or a fitted one among
/// them there are so many that some pair always comes near.
inline constexpr double most_of_rounding = 2, most_of_rounding_for_rare_pairs = 1.2;
/// What leaves more may have another number: those are fitted, too.
inline constexpr double usual_of_rounding = 1.5;
/// Rounding is at random: of n numbers it hides what a change does only up to a √n-th of its size.
/// So many times as far as that, in the very direction and as far as the change goes, is no chance.
/// Case: "rounding is no cause".
inline constexpr double no_chance = 10, as_far_as_it_goes = 3, nearly_as_far = 0.05;
/// What lessens the difference by less than 3 % is not looked at.
inline constexpr double lessens = 0.97;
/// A larger part of a stage is no rounding: its variances are not computed.
inline constexpr double most_rounding = 0.5;
/// A stage that a change gives has steps of its own, which round as well.
inline constexpr double other_formula = 4;
/// Settings are typed with nine digits, which float64's own rounding is far below.
inline constexpr double nine_digits = 0x1p-31;

// Two changes at one stage (cause_pairs.cpp).

/// Changes that alone take half of the difference away are paired with every other, however rare:
/// of two mistakes the larger one is seen through the smaller. The nearest of them.
inline constexpr double takes_most = 0.5;
inline constexpr std::size_t most_closest = 4;
/// Candidates whose screened numbers are so close do the same.
inline constexpr double same_bits = 1e-6;
/// Pairs of a small layer, of this many numbers, are all tried; of a large one the likely.
inline constexpr std::size_t all_pairs = 20000, small_layer = std::size_t{1} << 16;

// A verdict on a cause (diagnose.cpp, causes.cpp).

/// A cause that leaves a stage that agreed so many times as wrong, or one off by so much no better,
/// misleads.
inline constexpr double spoilt = 4, still_wrong = 0.1;
/// Rounding falls otherwise under another formula. Case: "in half precision a cause leaves no more
/// than its rounding".
inline constexpr double by_chance_in_half = 1.2;
/// Another layer's cause is this one's if it leaves no more than float32 sums do.
inline constexpr double likely_in_next_layer = 1e-3;
/// What leaves more of the difference is no runner-up.
inline constexpr double worth_reporting = 0.9;
inline constexpr std::size_t most_runners_up = 12;
/// A reference in half precision whose error is more was rounded at each step, not at the end
/// alone.
inline constexpr double more_than_stored = 1.5;

// A stream, seen in the stages after it (search.cpp).

/// Of rounding that the layers before leave: a part of the difference that no cause leaves. Case:
/// "search: rounding of the layers before may be left, and nothing else of its size".
inline constexpr double left_within_rounding = 0.2;
/// Within the tolerance, and less than half of the difference: else it agrees by chance. Case:
/// "search: what leaves half of a difference is no better by chance".
inline constexpr double left_by_agreement = 0.5;
/// Beyond the tolerance, as rounding grows through the layers: small by itself, and beside what was
/// there. Cases: the two above.
inline constexpr double small_error = 1e-4, left_of_small_error = 0.02;
/// On some of the tokens, what may explain all.
inline constexpr double left_by_likely = 0.25;
/// A better cause leaves less than half; one that leaves less than four times as much is
/// reported beside it. Case of the latter: "search: the change whose stream is the reference's
/// explains all saved stages".
inline constexpr double clearly_less = 0.5, same_numbers = 4;
/// The layers before round every step, of which the end shows the last alone.
inline constexpr double rounded_steps = 3;

// What is looked at in part.

/// Queries of a long text that screening computes; texts of no more than `few_queries` are computed
/// whole.
inline constexpr std::size_t screened_queries = 16, few_queries = 48;
/// Tokens of a model's end.
inline constexpr std::size_t screened_tokens = 16;
/// Columns of the logits, of a vocabulary of more than twice as many.
inline constexpr std::size_t screened_logits = 1024;
/// The first tokens of a text, which stand for all of it where they show a quarter of the
/// difference; a layer that makes other rows of them without the tokens after them sees those.
/// Case: "passes: a cause in all layers is named from logits alone in few passes of the model".
inline constexpr std::size_t fewest_first_tokens = 8;
inline constexpr double shown_by_first_tokens = 0.25, same_rows = 1e-4;
/// Passes of a whole model that one layer after the other may cost, of a text of this length.
inline constexpr std::size_t most_passes = 60, long_text = 128;
/// Prefixes that are tried, a pass each. Case: "whole diagnose: a text in pieces is named, and
/// GELU's form through float16's rounding".
inline constexpr std::size_t longest_prefix = 24;

// Fits: a number is worth its fit where some value of it takes this part of the difference away.
// Cases of the first two: softcap.value of "each mistake of the reports is named"; "the ε of a norm
// is fitted, whatever it is, and written as people write it".

inline constexpr double worth_fitting = 0.6;         ///< a cap, β of Swish, factors of sums
inline constexpr double worth_fitting_epsilon = 0.9; ///< ε is seen in small rows alone
inline constexpr double worth_fitting_whole = 0.7;   ///< of a whole model, among few values
inline constexpr double worth_trying_whole = 0.05;   ///< after the fit
/// A factor off by less is rounding; a named one so near is meant. Case: "kernels: a logsumexp in
/// base 2 is told by its factor".
inline constexpr double no_factor = 1e-6, near_named_factor = 0.02;
/// The same of a factor of sums, which are fitted through what reads them.
inline constexpr double no_factor_of_sums = 1e-3;
/// ε is looked for from here on: a tenth of a smaller one is lost beside float32 numbers. Case:
/// "the ε of a norm is fitted, whatever it is, and written as people write it".
inline constexpr double least_seen_epsilon = 1e-5;
/// Parts of ranks in another order: squares of a difference, beside those of the part.
inline constexpr double same_part = 1e-3;

// Tensors that are another step than they were saved as (captured.cpp, model_streams.cpp).

/// A tensor that is another step differs by its rounding alone; captures of ranks are in short
/// types. Cases: "captures: a tensor that is another step is named, and nothing is blamed";
/// "captures: a rank's part of a sum is told".
inline constexpr double same_step = 1e-4, same_part_of_rank = 0.02;
/// Two tensors of one stream that are as near are one.
inline constexpr double same_stream = 0.02;
/// A sum of two steps is given up where its first numbers are this far off, in squares. Case:
/// "captures: a tensor that is another step is named, and nothing is blamed".
inline constexpr std::size_t looked_at_first = 256;
inline constexpr double far_at_first = 1e-2;
/// A sampler hides logits by −∞ or by a type's least number: float16's is −65504.
/// Case: forbidden_tokens of tests/models/fifth_threads.py.
inline constexpr double hidden_logit = -1e4;

// Hints, where no change explains a stage (hints.cpp, differing_parts.cpp). Case, where none is
// named: "hints: what no change explains is described", whose rows say which they need.

/// A half type may round more often than is known here. Case: "in half precision only what rounding
/// explains agrees".
inline constexpr double own_rounding = 3;
/// Rounded weights: every token is off by a little, in the same direction.
inline constexpr double differs_a_little = 1e-5, off_a_little = 0.04, same_direction = 0.999;
/// Other weights, or another input: of few numbers the cosine is far from 0 by chance.
inline constexpr double nothing_in_common = 0.5, usual_chance = 0.15;
/// An output that is a sum of the heads' results, of which some do not count once.
inline constexpr double sum_of_heads = 0.999, counts_otherwise = 0.01;
/// Heads behind an output: a difference that the product with W_o lets through, and what is none
/// beside the largest head's.
inline constexpr double seen_through_product = 1e-3, small_through_product = 1e-4,
                        small_beside_largest = 0.02;
/// W_o is inverted up to this width, which takes a moment, and where its rows are independent.
inline constexpr std::size_t widest_joined = 768;
inline constexpr double least_pivot = 1e-8;

// Forms of GELU, which a half type nearly hides (gelu_forms.cpp). Case: "whole diagnose: GELU's
// form below a short type's rounding is named or said to be open".

/// Roundings are not all at random: their share may be off by so many times what chance makes.
inline constexpr double rounding_by_chance = 1.5;
/// The share of the one form or the other is known so well before it is believed.
inline constexpr double known_within = 0.1;

} // namespace mha::thresholds
