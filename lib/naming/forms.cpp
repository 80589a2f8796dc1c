#include <mha/naming/forms.hpp>

#include <mha/system/one_of.hpp>

#include <algorithm>
#include <optional>

namespace mha {

namespace {

/// The letters of a length, the product's one by one.
std::vector<Dim> letters_of(const TensorForm& form) {
  std::vector<Dim> letters;
  for (const Length& length : form) {
    letters.push_back(length.letter);
    if (length.times) letters.push_back(*length.times);
  }
  return letters;
}

/// The order of the axes of `from` that brings their letters into the order of `to`; none where
/// they are in it.
std::vector<std::size_t> order_of(const TensorForm& from, const TensorForm& to) {
  if (letters_of(from) == letters_of(to)) return {};
  std::vector<std::size_t> order;
  for (const Dim letter : letters_of(to)) {
    const auto axis = std::ranges::find(from, letter, &Length::letter);
    if (axis != from.end()) order.push_back(static_cast<std::size_t>(axis - from.begin()));
  }
  return order;
}

Form form_of(const TensorForm& given, const TensorForm& kept, bool has_batch, const Dims& dims,
             const LetterSize& own) {
  const auto size = [&](Dim letter) {
    const std::size_t n = own ? own(letter) : 0;
    return n > 0 ? n : dims.size_of(letter);
  };
  const auto shape_of = [&](const TensorForm& form) {
    Shape shape;
    for (const Length& length : form)
      shape.push_back(size(length.letter) * (length.times ? size(*length.times) : 1));
    return shape;
  };
  Form form{shape_of(given), shape_of(kept), order_of(given, kept)};
  if (!has_batch) return form;
  form.stored.insert(form.stored.begin(), dims.B);
  if (!dims.batched) return form;
  form.given.insert(form.given.begin(), dims.B);
  if (form.order.empty()) return form;
  for (std::size_t& axis : form.order) ++axis;
  form.order.insert(form.order.begin(), 0);
  return form;
}

const TensorForm& kept_form(const TensorInfo& info, const TensorForm& given) {
  return info.in_layer.keeps_form ? given : info.forms.front();
}

/// The lengths that are a tensor's own, or follow from no other tensor, by the axes of a form.
LetterSize own_lengths(const TensorInfo& info, const TensorForm& form, const Shape& shape,
                       const Dims& dims) {
  return [&, batch = info.has_batch() && shape.size() == form.size() + 1](Dim letter) {
    const bool is_own = (letter >= Dim::d_in && letter < Dim::three) || dims.size_of(letter) == 0;
    if (!is_own || shape.size() != form.size() + batch) return std::size_t{0};
    for (std::size_t i = 0; i < form.size(); ++i)
      if (form[i].letter == letter && !form[i].times) return shape[i + batch];
    return std::size_t{0};
  };
}

} // namespace

Tensor stored(const Tensor& tensor, const Form& form) {
  return (form.order.empty() ? tensor : permuted(tensor, form.order)).reshaped(form.stored);
}

std::vector<Form> forms_of(const TensorInfo& info, const Dims& dims, const LetterSize& own) {
  std::vector<Form> forms;
  for (const TensorForm& form : info.forms) {
    Form one = form_of(form, kept_form(info, form), info.has_batch(), dims, own);
    if (!is_one_of(std::size_t{0}, one.given)) forms.push_back(std::move(one));
  }
  return forms;
}

Tensor stored(const TensorInfo& info, const Tensor& tensor, const Dims& dims,
              const std::string& source) {
  std::optional<Form> same_count, same_rank, first;
  for (const TensorForm& form : info.forms) {
    const Form one = form_of(form, kept_form(info, form), info.has_batch(), dims,
                             own_lengths(info, form, tensor.shape(), dims));
    if (one.given == tensor.shape()) return stored(tensor, one);
    if (!same_count && count_of(one.given) == tensor.count()) same_count = one;
    if (!same_rank && one.given.size() == tensor.rank()) same_rank = one;
    if (!first) first = one;
  }
  if (!same_count)
    fail("{} is {}: {} expected", source, to_string(tensor.shape()),
         to_string((same_rank ? same_rank : first)->given));
  return stored(tensor.reshaped(same_count->given), *same_count);
}

Form form_of(Stage stage, const Dims& dims, bool packed) {
  const StageInfo& info = info_of(stage);
  TensorForm given(info.letters.begin(), info.letters.end()), kept = given;
  if (info.kind == Kind::token && given.size() == 3)
    kept = {given[1], by(given[0].letter, given[2].letter)};
  return form_of(packed ? kept : given, kept, true, dims, nullptr);
}

Tensor stored(Stage stage, const Tensor& value, const Dims& dims) {
  const Form form = form_of(stage, dims);
  return stored(value.reshaped(form.given), form);
}

} // namespace mha
