#include <mha/load/masks.hpp>

#include <mha/files/text.hpp>
#include <mha/load/broadcast.hpp>
#include <mha/load/narrowing.hpp>
#include <mha/load/packed_texts.hpp>
#include <mha/tensor/parts.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace mha {

namespace {

bool only_zeros_and_ones(const Tensor& tensor, bool* any_one = nullptr) {
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double value = value_at(tensor, i);
    if (value != 0 && value != 1) return false;
    if (any_one && value == 1) *any_one = true;
  }
  return true;
}

/// A tensor of zeros and ones as bool.
Tensor as_boolean(const NamedTensor& part, bool inverted = false) {
  if (part.tensor.dtype() != DType::boolean && !only_zeros_and_ones(part.tensor))
    fail("{} is {} with values other than 0 and 1; expected true and false", part.source,
         name_of(part.tensor.dtype()));
  Tensor yes = convert(part.tensor, DType::boolean);
  if (!inverted) return yes;
  Tensor no(DType::boolean, yes.shape());
  std::transform(yes.as<std::uint8_t>().begin(), yes.as<std::uint8_t>().end(),
                 no.as_mutable<std::uint8_t>().begin(),
                 [](std::uint8_t value) { return static_cast<std::uint8_t>(value == 0); });
  return no;
}

/// Broadcasts `tensor`, (…, keys), to (B, H, T, keys) by NumPy's rule. It may cover only past and
/// current keys, without extra and zero keys; with `may_be_short` only the first of them.
Broadcast over_scores(Tensor tensor, const std::string& source, const Dims& dims,
                      bool may_be_short = false) {
  // PyTorch's MultiheadAttention takes (B·H, T, S), the batch items' heads one after the other.
  if (const Shape& s = tensor.shape();
      s.size() == 3 && dims.B > 1 && dims.H > 1 && s[0] == dims.B * dims.H)
    tensor = tensor.reshaped({dims.B, dims.H, s[1], s[2]});
  const Shape shape = tensor.shape();
  const std::size_t rank = shape.size();
  const std::size_t keys = dims.past + dims.S;
  const auto refuse = [&] {
    fail("{} is {}: it does not broadcast to (B, H, T, S) = ({}, {}, {}, {}){}", source,
         to_string(shape), dims.B, dims.H, dims.T, dims.S_all,
         rank == 3 && shape[0] == dims.B ? "; for a mask per batch item give its axes: @BTS" : "");
  };
  if (rank == 0 || rank > 4) refuse();
  const std::array<std::size_t, 4> full{dims.B, dims.H, dims.T, dims.S_all};
  for (std::size_t i = 0; i < rank; ++i) { // from the last axis to the first
    const std::size_t axis = 3 - i, n = shape[rank - 1 - i];
    const bool fits = n == full[axis] || n == 1 ||
                      (axis == 3 && (n == keys || (may_be_short && n > 0 && n < keys)));
    if (!fits) refuse();
  }
  Broadcast result = broadcast_of(std::move(tensor), source);
  // An axis of one key is broadcast to all keys, unless the layer has one key besides extra ones,
  // which no mask of the user covers.
  if (result.keys == 1 && keys != 1) result.keys = dims.S_all;
  return result;
}

/// A mask over keys: (B, keys) or (keys), the current ones or all.
Broadcast over_keys(const Tensor& tensor, const std::string& source, const Dims& dims) {
  const Shape& shape = tensor.shape();
  const bool fits = !shape.empty() && shape.size() <= 2 &&
                    (shape.back() == dims.S || shape.back() == dims.S_all) &&
                    (shape.size() == 1 || shape[0] == dims.B || shape[0] == 1);
  if (!fits)
    fail("{} is {}: expected (B, S) = ({}, {}){}", source, to_string(shape), dims.B, dims.S,
         dims.S_all != dims.S ? fmt::format(" or ({}, {})", dims.B, dims.S_all) : "");
  Broadcast result;
  result.tensor = tensor;
  result.origin = source;
  result.strides = {shape.size() == 2 && shape[0] > 1 ? shape[1] : 0, 0, 0, 1};
  result.keys = shape.back();
  result.first_key = shape.back() == dims.S_all ? 0 : dims.past;
  return result;
}

/// Blocks the keys after those that a mask covers, as in ONNX.
void block_the_rest(const Broadcast& mask, Layer& layer, std::vector<Note>& notes) {
  const std::size_t keys = layer.dims.past + layer.dims.S;
  if (mask.keys >= keys) return;
  Tensor hidden(DType::boolean, {1});
  hidden.as_mutable<std::uint8_t>()[0] = 1;
  Broadcast rest = broadcast_of(std::move(hidden), mask.origin);
  rest.first_key = mask.keys, rest.keys = keys - mask.keys;
  layer.blocked.push_back(std::move(rest));
  notes.push_back(fmt::format("{} covers {} of {} keys: the rest is masked, as in ONNX",
                              mask.origin, mask.keys, keys));
}

/// Warns where three axes could begin with batch items or heads, because there are as many of each.
void note_ambiguous_axes(const NamedTensor& part, const Dims& dims, std::vector<Note>& notes) {
  const Shape& shape = part.tensor.shape();
  if (shape.size() == 3 && dims.B > 1 && dims.B == dims.H && shape[0] == dims.B)
    notes.push_back(warning(fmt::format("{} is {}, and there are as many batch items as heads: "
                                        "read as one for each head; @BTS means one for each item",
                                        part.source, to_string(shape))));
}

/// Neither finite nor −inf.
template <class T> bool spoils(T value) {
  return !(value < std::numeric_limits<T>::infinity());
}

/// Warns of NaN and infinity. The most common cause is (1 − m) · −inf, which is NaN where m is 1.
template <class T> void note_not_finite(const Broadcast& added, std::vector<Note>& notes) {
  const auto values = added.tensor.as<T>();
  const auto count = std::ranges::count_if(values, spoils<T>);
  if (count == 0) return;
  const auto first =
      static_cast<std::size_t>(std::ranges::find_if(values, spoils<T>) - values.begin());
  notes.push_back(warning(fmt::format(
      "{} holds {} of {} that are NaN or inf, the first at {}: every row that sees one is NaN. "
      "(1 - mask) * -inf is NaN where mask is 1: fill in -inf by place, or give booleans",
      added.origin, count, counted(added.tensor.count(), "numbers"),
      place_text(added.tensor.shape(), first))));
}

void take_mask(const NamedTensor& part, Layer& layer, std::vector<Note>& notes) {
  if (part.tensor.dtype() == DType::boolean) {
    layer.blocked.push_back(over_scores(as_boolean(part, true), part.source, layer.dims, true));
    block_the_rest(Broadcast(layer.blocked.back()), layer, notes);
    return;
  }
  bool any_one = false;
  if (only_zeros_and_ones(part.tensor, &any_one) && any_one)
    fail("{} holds only 0 and 1: is it true and false, or numbers to add? Store booleans (mask: "
         "true = may attend; "
         "block_mask: true = may not), or 0 and -inf",
         part.source);
  layer.added.push_back(over_scores(narrowed(part.tensor, layer.dtype, part.source, true, notes),
                                    part.source, layer.dims, true));
  block_the_rest(layer.added.back(), layer, notes);
}

void take_key_padding(const NamedTensor& part, Layer& layer, std::vector<Note>& notes) {
  const bool is_float = is_floating(part.tensor.dtype());
  bool any_one = false;
  const bool may_be_boolean = only_zeros_and_ones(part.tensor, &any_one);
  if (is_float && may_be_boolean && any_one)
    fail("{} is {} and holds only 0 and 1: is 1 a key to ignore, or a number to add, as PyTorch "
         "adds floats? Store booleans (true = ignore; attention_mask: true = attend), or 0 and "
         "-inf",
         part.source, name_of(part.tensor.dtype()));
  if (!is_float || may_be_boolean) {
    layer.blocked.push_back(over_keys(as_boolean(part), part.source, layer.dims));
    return;
  }
  layer.added.push_back(over_keys(narrowed(part.tensor, layer.dtype, part.source, true, notes),
                                  part.source, layer.dims));
  notes.emplace_back(fmt::format("{} holds numbers: they are added to the scores", part.source));
}

} // namespace

void take_masks(NamedTensors& parts, Layer& layer, std::vector<Note>& notes) {
  const Dims& dims = layer.dims;
  const auto with = [&](const char* name, const auto& use) {
    if (const auto part = parts.find(name); part != parts.end()) {
      use(part->second);
      parts.erase(part);
      for (std::vector<Broadcast>* masks : {&layer.added, &layer.blocked, &layer.bias})
        for (Broadcast& mask : *masks)
          if (mask.name.empty()) mask.name = name;
    }
  };
  with("mask", [&](const NamedTensor& part) {
    note_ambiguous_axes(part, dims, notes);
    take_mask(part, layer, notes);
  });
  with("block_mask", [&](const NamedTensor& part) {
    note_ambiguous_axes(part, dims, notes);
    layer.blocked.push_back(over_scores(as_boolean(part), part.source, dims));
  });
  with("key_padding_mask", [&](const NamedTensor& part) { take_key_padding(part, layer, notes); });
  with("attention_mask", [&](const NamedTensor& part) {
    layer.blocked.push_back(over_keys(as_boolean(part, true), part.source, dims));
  });
  with("kv_lengths", [&](const NamedTensor& part) {
    if (part.tensor.count() != dims.B)
      fail("{} is {}: one length per batch item expected, {}", part.source,
           to_string(part.tensor.shape()), dims.B);
    for (std::size_t b = 0; b < dims.B; ++b) {
      const double length = value_at(part.tensor, b);
      if (length < 0 || length != std::floor(length) ||
          length > static_cast<double>(dims.past + dims.S))
        fail(
            "{}: length {} of batch item {} is not a whole number from 0 to {}, the number of keys",
            part.source, length, b, dims.past + dims.S);
      layer.kv_lengths.push_back(static_cast<std::size_t>(length));
    }
  });
  take_packed_texts(parts, layer);
  with("bias", [&](const NamedTensor& part) {
    layer.bias.push_back(over_scores(narrowed(part.tensor, layer.dtype, part.source, true, notes),
                                     part.source, dims));
  });
  for (const std::vector<Broadcast>* list : {&layer.added, &layer.bias})
    for (const Broadcast& numbers : *list)
      by_precision(layer.dtype, [&]<class T>(T) { return note_not_finite<T>(numbers, notes); });
}

void take_lengths(const std::vector<io::Contents>& files, Layer& layer) {
  const Dims& dims = layer.dims;
  const bool of_texts =
      dims.batched && dims.T > 0 && dims.T == dims.S && layer.X_k.empty() && layer.X_v.empty();
  for (const io::Contents& file : files) {
    const io::Entry* entry = file.format == "checkpoint" ? nullptr : file.find("lengths");
    if (!entry || !of_texts) continue;
    if (entry->shape != Shape{dims.B})
      fail("{}: lengths is {}, but the batch has {}", io::shown(file.name), to_string(entry->shape),
           counted(dims.B, "items"));
    const Tensor lengths = entry->read();
    layer.lengths.clear();
    for (std::size_t b = 0; b < dims.B; ++b) {
      const double length = value_at(lengths, b);
      if (!(length >= 1 && length <= static_cast<double>(dims.T)) || length != std::floor(length))
        fail("{}: lengths has {} for batch item {}: 1 to {} tokens expected", io::shown(file.name),
             length, b, dims.T);
      layer.lengths.push_back(static_cast<std::size_t>(length));
    }
  }
}

} // namespace mha
