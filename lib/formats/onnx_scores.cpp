#include <mha/formats/onnx_scores.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/onnx_between.hpp>
#include <mha/system/one_of.hpp>

#include <cmath>

namespace mha::io {

namespace {

constexpr int most_unwrapped = 12;     ///< operators other than sums between scores and Softmax
constexpr double hidden_below = -1000; ///< scores that are replaced by lower numbers are masked

} // namespace

/// The term of a form whose value is a product of two values that are not fixed, or the operator
/// around it.
const OnnxForm::Term* OnnxScores::product_in(const OnnxForm& form) const {
  const OnnxForm::Term* found = nullptr;
  for (const OnnxForm::Term& term : form.terms) {
    const OnnxStep* made = flow_.maker(term.value);
    if (!made || projections_.of(flow_.resolved(term.value))) continue;
    const bool around = made->is("Tanh") || made->is("Where");
    if ((is_product(term.value) || around) && !flow_.is_fixed(term.value)) {
      if (found && is_product(term.value) == is_product(found->value)) return nullptr;
      if (!found || is_product(term.value)) found = &term;
    }
  }
  return found;
}
bool OnnxScores::is_product(int value) const {
  const OnnxStep* made = flow_.maker(value);
  return made && is_onnx_product(flow_, *made);
}

/// Follows one element of the Softmax's input to its product.
std::optional<OnnxScorePath> OnnxScores::follow(std::int64_t flat, bool unmasked) const {
  OnnxScorePath path;
  int value = input_;
  std::int64_t at = flat;
  for (int i = 0; i < most_unwrapped; ++i) {
    const OnnxForm form = flow_.form(value, at, unmasked);
    if (form.terms.empty() && i == 0) { // masked: no score is left
      path.added = form.number;
      if (path.added < hidden_below) return path;
      return std::nullopt;
    }
    const OnnxForm::Term* term = product_in(form);
    if (!term || !take_others(form, *term, path)) {
      for (const OnnxForm::Term& other : form.terms) note_maker(other.value);
      return std::nullopt;
    }
    // A number inside of a cap is not an addition to the scores.
    if (path.softcap != 0 && form.number != 0) return std::nullopt;
    path.added += form.number == 0 ? 0 : form.number;
    const OnnxStep& made = *flow_.maker(term->value);
    if (is_product(term->value)) {
      path.product = &made, path.at = term->at;
      path.factor *= term->factor * made.number("alpha").value_or(1);
      return path;
    }
    const std::optional<int> next =
        made.is("Tanh") ? capped(made, *term, path) : unmasked_by(made, *term, path);
    if (!next) return std::nullopt;
    at = path.at, value = *next;
  }
  return std::nullopt;
}

const std::optional<OnnxScorePath>& OnnxScores::followed(std::int64_t flat, bool unmasked) const {
  const auto [at, is_new] = followed_[unmasked ? 1 : 0].try_emplace(flat);
  if (is_new) {
    const OnnxPassedSteps before = flow_.take_passed_steps();
    at->second.path = follow(flat, unmasked);
    at->second.passed = flow_.take_passed_steps();
    flow_.add_passed_steps(before);
  }
  flow_.add_passed_steps(at->second.passed);
  return at->second.path;
}

/// Reads the cap c · tanh(score · scale / c), and returns the input of Tanh.
std::optional<int> OnnxScores::capped(const OnnxStep& made, const OnnxForm::Term& term,
                                      OnnxScorePath& path) const {
  if (path.softcap != 0 || path.factor != 1) {
    note_maker(term.value);
    return std::nullopt;
  }
  path.softcap = std::abs(term.factor), path.factor = term.factor, path.at = term.at;
  return made.input(0);
}

/// Checks that the other terms do not depend on the layer's projections.
bool OnnxScores::take_others(const OnnxForm& form, const OnnxForm::Term& score,
                             OnnxScorePath& path) const {
  for (const OnnxForm::Term& other : form.terms) {
    if (&other == &score) continue;
    if (path.softcap != 0 || follows_from_projection(flow_, projections_, other.value))
      return false;
    path.known = false, path.unknown = name_of(other.value);
  }
  return true;
}

/// The scores that a Where masks by a condition that is known only at run time.
std::optional<int> OnnxScores::unmasked_by(const OnnxStep& made, const OnnxForm::Term& term,
                                           OnnxScorePath& path) const {
  const auto& out = flow_.shape(term.value);
  const auto place_in = [&](int input) {
    return onnx_flat_of_repeated(*flow_.shape(input), *out, term.at);
  };
  for (const std::size_t place : {std::size_t{1}, std::size_t{2}}) {
    const int scores = made.input(place), instead = made.input(3 - place);
    if (path.softcap != 0 || flow_.is_fixed(scores) || !flow_.is_fixed(instead) || !out) continue;
    if (!flow_.shape(scores) || flow_.shape(scores)->size() > out->size() ||
        !flow_.shape(instead) || flow_.shape(instead)->size() > out->size())
      continue;
    const auto number = flow_.number(instead, place_in(instead));
    if (!number || *number * term.factor >= hidden_below) continue;
    if (follows_from_projection(flow_, projections_, made.input(0))) continue;
    path.factor *= term.factor, path.known = false, path.unknown = name_of(term.value);
    path.at = place_in(scores);
    return scores;
  }
  note_maker(term.value);
  return std::nullopt;
}

std::string OnnxScores::name_of(int value) const {
  const OnnxStep* made = flow_.maker(value);
  return made ? onnx_step_in_words(flow_, static_cast<int>(made - flow_.steps.data()))
              : "'" + shown(flow_.at(value).name) + "'";
}

void OnnxScores::note_maker(int value) const {
  if (const OnnxStep* made = flow_.maker(value);
      made && !is_product(value) && !projections_.of(flow_.resolved(value)))
    add_once(untraced_steps_, static_cast<int>(made - flow_.steps.data()));
}

} // namespace mha::io
