#include <mha/load/sizes.hpp>

#include <mha/naming/forms.hpp>

#include <algorithm>

namespace mha {

void Size::learn(std::size_t n, const std::string& origin, const Shape* shape) {
  if (known && value != n)
    fail("{}{}: {} expected, as in {}", origin,
         shape ? " is " + to_string(*shape) : fmt::format(" gives {}", n), counted(value, meaning),
         source);
  if (!known) value = n, source = origin, known = true;
}

LearnedSizes::LearnedSizes(const NamedTensors& parts, const GivenNames& given,
                           const Settings& settings)
    : parts_(parts), given_(given), settings_(settings) {
  for (std::size_t i = 0; i < dim_count; ++i)
    sizes_[i].meaning = info_of(static_cast<Dim>(i)).counted;
}

const NamedTensor* LearnedSizes::part(std::string_view name) const {
  const auto found = parts_.find(std::string(name));
  return found == parts_.end() ? nullptr : &found->second;
}

/// Learns the number of heads from a tensor with one matrix or vector a head: heads come first.
void LearnedSizes::learn_heads_of(const TensorInfo& info, const NamedTensor& part) {
  const Shape& shape = part.tensor.shape();
  for (const TensorForm& form : info.forms) {
    const Length& first = form.front();
    const bool is_heads = !first.times && (first.letter == Dim::H || first.letter == Dim::H_kv);
    const bool fits =
        shape.size() == form.size() || (info.has_batch() && shape.size() > form.size());
    if (is_heads && fits)
      (*this)[first.letter].learn(shape[shape.size() - form.size()], part.source, &shape);
  }
}

void LearnedSizes::learn_heads() {
  Size &H = (*this)[Dim::H], &H_kv = (*this)[Dim::H_kv];
  const auto origin = [&](const char* name) {
    const auto at = settings_.origins.find(name);
    if (at == settings_.origins.end()) return std::string(name);
    return is_given(at->second) ? at->second : fmt::format("{}: {}", at->second, name);
  };
  if (settings_.num_heads > 0) H.learn(settings_.num_heads, origin("num_heads"));
  if (settings_.num_kv_heads > 0) H_kv.learn(settings_.num_kv_heads, origin("num_kv_heads"));
  for (const TensorInfo& info : layer_tensors())
    if (const NamedTensor* p = part(info.name); p && !info.in_layer.keeps_form)
      learn_heads_of(info, *p);
  for (const auto& [stage, name] : given_) {
    if (is_packed(name)) continue;
    const NamedTensor& p = parts_.at(name);
    const std::vector<Dim>& letters = info_of(stage).letters;
    const Shape& shape = p.tensor.shape();
    if (shape.size() < letters.size()) continue;
    const std::size_t n = shape[shape.size() - letters.size()];
    if (letters[0] == Dim::H || letters[0] == Dim::H_kv)
      (*this)[letters[0]].learn(n, p.source, &shape);
  }
  if (H.known && H.value == 0) fail("{}: there are no heads", H.source);
  if (H.known && H_kv.known && (H_kv.value == 0 || H.value % H_kv.value != 0))
    fail("{}: {} do not divide into {} ({}); the number of query heads is a multiple of the "
         "number of key/value heads",
         H_kv.source, counted(H.value, "query heads"), counted(H_kv.value, "key/value heads"),
         H.source);
}

void LearnedSizes::learn_axes(const NamedTensor& part, const std::vector<Size*>& sizes,
                              std::string_view expected) {
  const Shape& shape = part.tensor.shape();
  const bool has_batch = shape.size() == sizes.size() + 1;
  if (!has_batch && shape.size() != sizes.size())
    fail("{} is {}: expected (B,) {}{}", part.source, to_string(shape), expected,
         shape.size() == 1 && sizes.size() == 2 ? "; a single row of numbers is [[…]]" : "");
  if (batch_known_ && has_batch != batched_)
    fail("{} is {}: it has {}, {} has {}", part.source, to_string(shape),
         has_batch ? "a batch axis" : "no batch axis", batch_source_, has_batch ? "none" : "one");
  batch_known_ = true, batched_ = has_batch;
  if (batch_source_.empty()) batch_source_ = part.source;
  if (has_batch) (*this)[Dim::B].learn(shape[0], part.source, &shape);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i]) sizes[i]->learn(shape[i + has_batch], part.source, &shape);
}

void LearnedSizes::learn_axes(const NamedTensor& part, const TensorForm& form) {
  std::vector<Size*> sizes;
  std::string expected;
  for (const Length& length : form) {
    const bool is_shared = !length.times && info_of(length.letter).size;
    sizes.push_back(is_shared || length.letter == Dim::H_d_v ? &(*this)[length.letter] : nullptr);
    expected += (expected.empty() ? "" : ", ") + text_of(length);
  }
  learn_axes(part, sizes, expected);
}

Dims LearnedSizes::dims() const {
  Dims d;
  for (std::size_t i = 0; i < dim_count; ++i)
    if (std::size_t Dims::*const size = info_of(static_cast<Dim>(i)).size)
      d.*size = sizes_[i].value;
  d.B = batched_ ? (*this)[Dim::B].value : 1, d.batched = batched_;
  d.extra = part("k_extra") ? 1 : 0, d.zero = settings_.zero_attn ? 1 : 0;
  return d;
}

void LearnedSizes::learn_gate(const NamedTensor* input) {
  const NamedTensor* const p = part("W_gate");
  if (const NamedTensor* const bias = p ? nullptr : part("b_gate"))
    fail("{} is the bias of a gate, but there is no W_gate", bias->source);
  const Size &H = (*this)[Dim::H], &d_v = (*this)[Dim::d_v];
  Size& d_gate = (*this)[Dim::d_gate];
  if (p) {
    const Shape& shape = p->tensor.shape();
    if (shape.size() != 2)
      fail("{} is {}: expected (d_in, H·d_v) or (d_in, H)", p->source, to_string(shape));
    if (input && input->tensor.shape().back() != shape[0])
      fail("{} is {}: {}, but {} has {}", p->source, to_string(shape), counted(shape[0], "rows"),
           input->source, counted(input->tensor.shape().back(), "columns"));
    if (!H.known) return;
    const std::size_t of_elements = H.value * d_v.value;
    if (shape[1] != H.value && shape[1] != of_elements)
      fail("{} is {}: {}, but a gate has one for each of {} or of their {} values", p->source,
           to_string(shape), counted(shape[1], "columns"), counted(H.value, "heads"), of_elements);
    d_gate.learn(shape[1] == H.value ? 1 : d_v.value, p->source, &shape);
  }
  if (d_gate.known && d_v.known && d_gate.value != 1 && d_gate.value != d_v.value)
    fail("{}: a gate of {} a head: one, or {}, as many as a head has values, expected",
         d_gate.source, counted(d_gate.value, "numbers"), d_v.value);
}

} // namespace mha
