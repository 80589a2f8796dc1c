#include <mha/load/packed_texts.hpp>

#include <mha/load/broadcast.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

std::vector<std::size_t> starts_of_texts(const NamedTensor& part) {
  constexpr std::string_view expected = "0, then where each further text begins, then the end";
  const Tensor& tensor = part.tensor;
  if (tensor.rank() != 1 || tensor.count() < 2)
    fail("{} is {}: one axis expected: {}", part.source, to_string(tensor.shape()), expected);
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double start = value_at(tensor, i), least = i == 0 ? 0 : value_at(tensor, i - 1);
    if (!(start >= least) || start != std::floor(start) || start > 0x1p53 || (i == 0 && start != 0))
      fail("{} has {} at {}: {} expected", part.source, start, i, expected);
    starts.push_back(static_cast<std::size_t>(start));
  }
  return starts;
}

namespace {

/// The text of each token.
std::vector<std::size_t> texts_of(const std::vector<std::size_t>& starts, const NamedTensor& part,
                                  std::size_t tokens, std::string_view what) {
  if (starts.back() != tokens)
    fail("{} ends at {}, but there are {}", part.source, starts.back(), counted(tokens, what));
  std::vector<std::size_t> texts;
  for (std::size_t text = 0; text + 1 < starts.size(); ++text)
    texts.insert(texts.end(), starts[text + 1] - starts[text], text);
  return texts;
}

} // namespace

void take_packed_texts(NamedTensors& parts, Layer& layer) {
  const auto queries = parts.extract("cu_seqlens"), keys = parts.extract("cu_seqlens_k");
  if (!queries && !keys) return;
  if (!queries) fail("{}: give cu_seqlens, of the queries, as well", keys.mapped().source);
  const NamedTensor& of_queries = queries.mapped();
  const NamedTensor& of_keys = keys ? keys.mapped() : of_queries;
  const Dims& dims = layer.dims;
  const std::string& source = of_queries.source;
  if (dims.batched && dims.B > 1)
    fail("{}: packed texts have no batch axis, but the layer has {}", source,
         counted(dims.B, "batch items"));
  if (dims.S_all != dims.S)
    fail("{}: past and extra keys are of no packed text: leave them out, or give a mask", source);
  const std::vector<std::size_t> q = starts_of_texts(of_queries), k = starts_of_texts(of_keys);
  if (q.size() != k.size())
    fail("{} has {}, {} has {}", source, counted(q.size() - 1, "texts"), of_keys.source,
         k.size() - 1);
  const Settings& s = layer.settings;
  if (q != k && (s.causal || s.window_left >= 0 || s.window_right >= 0))
    fail("{}: causal and windows in packed texts need as many keys as queries in each: give a mask",
         of_keys.source);
  if (s.rope != Rope::none && layer.positions.empty() && !parts.contains("positions"))
    fail("{}: with a rotary embedding, positions count from each text's first token: give "
         "positions",
         source);
  const std::vector<std::size_t> query_texts = texts_of(q, of_queries, dims.T, "queries"),
                                 key_texts = texts_of(k, of_keys, dims.S, "keys");
  Tensor hidden(DType::boolean, {dims.T, dims.S});
  const auto hides = hidden.as_mutable<std::uint8_t>();
  for (std::size_t t = 0; t < dims.T; ++t)
    for (std::size_t j = 0; j < dims.S; ++j) hides[t * dims.S + j] = query_texts[t] != key_texts[j];
  Broadcast mask = broadcast_of(std::move(hidden), source);
  mask.name = "cu_seqlens";
  layer.blocked.push_back(std::move(mask));
}

} // namespace mha
