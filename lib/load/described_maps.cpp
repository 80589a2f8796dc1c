// Reads matrices, rows and norms of a described file in the form that is computed with.

#include <mha/load/described_file.hpp>

#include <mha/load/described_names.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mha {

using naming::DescribedNorm;
using naming::DescribedTensor;
using naming::Group;

void DescribedFile::require_rank(const DescribedTensor& tensor, const io::Entry& entry,
                                 std::size_t rank) const {
  if (description_.is_family) {
    if (entry.shape.size() != rank)
      fail("{}: {} is {}: {} expected", group_.contents->name, entry.name, to_string(entry.shape),
           rank == 1 ? "one axis" : "a matrix");
  } else if (squeezed(entry.shape, rank).size() != rank) {
    fail("{}: {}: {} is {}: {} expected", tensor.where, group_.contents->name, entry.name,
         to_string(entry.shape),
         rank == 1   ? "one axis"
         : rank == 2 ? "a matrix"
                     : fmt::format("{} axes, {}", rank, tensor.layout));
  }
  if (!is_floating(entry.dtype))
    fail("{}: {} is {}: quantised weights are not read here; dequantise them first",
         group_.contents->name, entry.name, name_of(entry.dtype));
}

io::Entry DescribedFile::turned(const DescribedTensor& tensor, const io::Entry& entry,
                                const std::string& wanted) const {
  if (description_.is_family && naming::is_of_attention(tensor.key)) {
    if (tensor.layout == "oi" && entry.shape.size() != 2)
      fail("{}: {} is {}: a matrix expected, (out, in)", group_.contents->name, entry.name,
           to_string(entry.shape));
    // Other shapes are compared with the other projections later.
    if (entry.shape.size() != tensor.layout.size()) return entry;
  } else {
    require_rank(tensor, entry, tensor.layout.size());
  }
  return turned_entry(entry, tensor.layout, wanted);
}

std::vector<io::Entry> DescribedFile::of_heads(const DescribedTensor& tensor,
                                               const std::string& name, bool is_needed) const {
  std::vector<io::Entry> heads;
  const auto of_head = [&](std::size_t head) -> const io::Entry* {
    const std::string whole = whole_name(tensor.key, with_head(name, head));
    if (const io::Entry* entry = group_.elsewhere(whole)) return entry;
    const std::string of_module = whole + ".weight"; // a family's names need no ending
    if (const io::Entry* entry = description_.is_family ? group_.elsewhere(of_module) : nullptr)
      return entry;
    return head == 0 && is_needed ? &needed(whole, tensor.where) : nullptr;
  };
  while (const io::Entry* entry = of_head(heads.size())) {
    group_.use(*entry);
    heads.push_back(*entry);
    if (entry->shape != heads[0].shape)
      fail("{}: {}: {} is {}, but {} is {}: heads of one shape expected", tensor.where,
           group_.contents->name, entry->name, to_string(entry->shape), heads[0].name,
           to_string(heads[0].shape));
  }
  return heads;
}

io::Entry DescribedFile::matrix(const DescribedTensor& tensor) const {
  const std::string wanted = tensor.layout.size() == 3 ? "hio" : "io";
  if (head_mark_in(tensor.name) == std::string::npos)
    return multiplied(tensor, turned(tensor, needed(tensor, weight(tensor)), wanted));
  std::vector<io::Entry> heads = of_heads(tensor, tensor.name, true);
  for (io::Entry& head : heads) head = turned(tensor, head, wanted);
  return multiplied(tensor, stacked_entry(heads));
}

std::vector<DescribedFile::Map>
DescribedFile::maps_of_experts(const DescribedTensor& tensor) const {
  std::vector<Map> maps;
  std::vector<io::Entry> heads = of_heads(tensor, tensor.name, true);
  maps.reserve(heads.size());
  for (const io::Entry& entry : heads) maps.push_back({turned(tensor, entry, "io"), std::nullopt});
  const std::string bias = bias_name(tensor);
  if (bias.empty() || (tensor.bias && tensor.bias->empty())) return maps;
  const std::vector<io::Entry> biases = of_heads(tensor, bias, false);
  if (!biases.empty() && biases.size() != maps.size())
    fail("{}: {} of {} experts have a bias, {}", group_.contents->name, biases.size(), maps.size(),
         with_head(bias, 0));
  for (std::size_t e = 0; e < biases.size(); ++e) maps[e].b = biases[e];
  return maps;
}

DescribedFile::Map DescribedFile::embedding_map(const DescribedTensor& tensor) const {
  const io::Entry* const entry = weight(tensor);
  if (description_.is_family || !entry || squeezed(entry->shape, 2).size() == 2 ||
      entry->shape.size() < 3)
    return map(tensor);
  const std::size_t out = entry->shape[0];
  if (tensor.layout != "oi" || out == 0) require_rank(tensor, *entry, 2);
  const io::Entry matrix = reshaped_entry(*entry, {out, count_of(entry->shape) / out});
  return {turned_entry(matrix, "oi", "io"), bias_of(tensor)};
}

std::optional<io::Entry> DescribedFile::bias_of(const DescribedTensor& tensor) const {
  if (tensor.bias && tensor.bias->empty()) {
    if (!description_.is_family) mark_skipped(tensor.key, bias_beside(tensor.name));
    return std::nullopt;
  }
  const std::string name = bias_name(tensor);
  if (head_mark_in(name) != std::string::npos) {
    const std::vector<io::Entry> heads = of_heads(tensor, name, tensor.bias.has_value());
    if (heads.empty()) return std::nullopt;
    return multiplied(tensor, stacked_entry(heads));
  }
  const naming::Bias wanted = biased(tensor);
  const io::Entry* const entry = wanted == naming::Bias::never ? nullptr : bias(tensor);
  if (!entry && tensor.bias && !description_.is_family)
    needed(whole_name(tensor.key, name), tensor.where);
  if (!entry && wanted == naming::Bias::always)
    fail("{}: {} is missing, so that the layers' inputs cannot be computed; {}",
         group_.contents->name, whole_name(tensor.key, name), give_X_instead);
  if (!entry) return std::nullopt;
  if (description_.is_family && !naming::is_of_attention(tensor.key))
    require_rank(tensor, *entry, tensor.layout.size() == 3 ? 2 : 1); // of experts, stacked
  return multiplied(tensor, *entry);
}

io::Entry DescribedFile::multiplied(const DescribedTensor& tensor, const io::Entry& outputs) const {
  if (tensor.times.empty()) return outputs;
  const io::Entry& by = needed(whole_name(tensor.key, tensor.times), tensor.where);
  group_.use(by);
  if (outputs.shape.empty() || count_of(by.shape) != outputs.shape.back())
    fail("{}: {}: {} is {}: {} expected, one for each output of {}", tensor.where,
         group_.contents->name, by.name, to_string(by.shape),
         counted(outputs.shape.empty() ? 1 : outputs.shape.back(), "numbers"),
         outputs.name_in_file());
  return multiplied_entry(outputs, by);
}

io::Entry DescribedFile::as_stored(const DescribedTensor& tensor) const {
  if (head_mark_in(tensor.name) == std::string::npos) return needed(tensor, weight(tensor));
  return stacked_entry(of_heads(tensor, tensor.name, true));
}

io::Entry DescribedFile::rows(const DescribedTensor& tensor) const {
  const io::Entry& entry = needed(tensor, table(tensor));
  if (!description_.is_family && entry.shape.size() == 1 && tensor.key == "embed.type")
    return reshaped_entry(entry, {1, entry.shape[0]});
  require_rank(tensor, entry, 2);
  const io::Entry rows = turned_entry(entry, tensor.layout, "io");
  return tensor.key == "embed.position" ? scaled_positions(rows) : rows;
}

io::Entry DescribedFile::rows_in_front() const {
  std::vector<io::Entry> parts;
  for (const DescribedTensor& described : description_.first_rows) {
    const io::Entry& entry = needed(described, weight(described));
    group_.use(entry);
    const bool row = squeezed(entry.shape, 1).size() == 1;
    if (!row) require_rank(described, entry, 2);
    parts.push_back(
        reshaped_entry(entry, row ? Shape{1, count_of(entry.shape)} : squeezed(entry.shape, 2)));
    require_axis(described, parts.back(), 1, parts[0].shape[1], "has rows of");
  }
  return below_entry(parts);
}

DescribedFile::NormTensors DescribedFile::norm(const DescribedNorm& norm, std::size_t width) const {
  const io::Entry *W = weight(norm), *b = norm.kind == "rms" ? nullptr : bias(norm);
  if (!W && norm.optional) return {};
  const std::string name = whole_name(norm.key, norm.weight);
  const bool always = description_.norm_bias.of(group_) == naming::Bias::always;
  if (description_.is_family &&
      ((!W && norm.affine) || (!b && norm.affine && always && norm.kind != "rms")))
    fail("{}: {}{} is missing, so that the layers' inputs cannot be computed; {}",
         group_.contents->name, name, W ? ".bias" : ".weight", give_X_instead);
  if (!description_.is_family) {
    if (!W && !norm.weight.empty()) needed(name, norm.where);
    if (!b && norm.bias && !norm.bias->empty() && norm.kind != "rms")
      needed(whole_name(norm.key, *norm.bias), norm.where);
    if ((norm.bias && norm.bias->empty()) || norm.kind == "rms")
      mark_skipped(norm.key, bias_beside(norm.weight));
  }
  for (const io::Entry* entry : {W, b}) {
    if (!entry) continue;
    if (description_.is_family) require_rank({}, *entry, 1);
    if (width == 0 || count_of(entry->shape) == width) continue;
    if (description_.is_family)
      fail("{}: {} has {}, but {} expected", group_.contents->name, name,
           counted(count_of(entry->shape), "numbers"), width);
    fail("{}: {}: {} is {}: {} numbers expected", norm.where, group_.contents->name, entry->name,
         to_string(entry->shape), width);
  }
  if (norm.kind == "batch") return batch_norm(norm, W, b);
  NormTensors parts;
  const auto plain = [](const io::Entry& entry) {
    return reshaped_entry(entry, {count_of(entry.shape)});
  };
  if (W) parts.weight = plain(*W);
  if (b) parts.bias = plain(*b);
  if (norm.kind == "std") {
    const io::Entry of = parts.weight
                             ? *parts.weight
                             : values_entry(description_.file, std::vector<double>(width, 1));
    parts.weight = scaled_entry(of, deviation_scale(of));
  }
  return parts;
}

/// Weight and bias of a batch norm in inference.
DescribedFile::NormTensors DescribedFile::batch_norm(const DescribedNorm& norm,
                                                     const io::Entry* weight,
                                                     const io::Entry* bias) const {
  const std::string module = description_.is_family
                                 ? norm.weight + "."
                                 : norm.weight.substr(0, norm.weight.rfind('.') + 1);
  const auto statistic = [&](const std::string& name) -> const io::Entry& {
    const io::Entry& entry = needed(whole_name(norm.key, name), norm.where);
    group_.use(entry);
    return entry;
  };
  BatchNorm of;
  of.weight = weight, of.bias = bias;
  of.mean =
      &statistic(norm.statistics.name.empty() ? module + "running_mean" : norm.statistics.name);
  of.variance = &statistic(norm.statistics.bias ? *norm.statistics.bias : module + "running_var");
  of.eps = norm.eps.number(group_).value_or(1e-5);
  if (!module.empty()) mark_skipped(norm.key, module + "num_batches_tracked");
  for (const io::Entry* entry : {of.weight, of.bias, of.variance}) {
    if (entry) group_.use(*entry);
    if (entry && entry->shape != of.mean->shape)
      fail("{}: {}: {} is {}, but {} is {}", norm.where, group_.contents->name, entry->name,
           to_string(entry->shape), of.mean->name, to_string(of.mean->shape));
  }
  return {folded_weight(of), folded_bias(of)};
}

std::optional<std::size_t> DescribedFile::stream_width() const {
  const DescribedTensor *linear = description_.tensor("embed.linear"),
                        *tokens = description_.tensor("embed.token");
  if (description_.is_family) {
    const DescribedTensor* const tensor = linear ? linear : tokens;
    const io::Entry* const entry = tensor ? weight(*tensor) : nullptr;
    if (!entry || entry->shape.size() != 2) return std::nullopt;
    return entry->shape[linear ? 0 : 1];
  }
  if (linear) return embedding_map(*linear).W.shape[1];
  if (tokens) return rows(*tokens).shape[1];
  if (!description_.first_rows.empty()) return rows_in_front().shape[1];
  for (const char* key : {"embed.position", "embed.type"})
    if (const DescribedTensor* other = description_.tensor(key)) return rows(*other).shape[1];
  Group first = group_;
  first.layer = 0, first.prefix = mha::whole_name(description_, "", 0);
  const DescribedFile of_first(description_, first);
  for (const auto& [key, tensor] : description_.tensors)
    if (key.starts_with("W_") && key != "W_o" && key.find("_b") == key.npos && !tensor.name.empty())
      if (of_first.weight(tensor)) {
        const Shape shape = of_first.map(tensor).W.shape;
        return shape[shape.size() - 2];
      }
  return std::nullopt;
}

void DescribedFile::require_bias(const DescribedTensor& tensor, const io::Entry& bias,
                                 std::size_t expected) const {
  if (count_of(bias.shape) == expected) return;
  fail("{}: {}: its bias {} is {}: {} expected", tensor.where, group_.contents->name,
       bias.name_in_file(), to_string(bias.shape), counted(expected, "numbers"));
}

void DescribedFile::require_axis(const DescribedTensor& tensor, const io::Entry& entry,
                                 std::size_t axis, std::size_t expected,
                                 std::string_view does) const {
  if (expected == 0 || entry.shape[axis] == expected) return;
  const bool other = entry.shape.size() == 2 && entry.shape[1 - axis] == expected;
  fail("{}: {}: {}, read as {}, {} {}, but {} {} expected{}", tensor.where, group_.contents->name,
       entry.own_name, tensor.layout, does, entry.shape[axis], expected,
       expected == 1 ? "is" : "are",
       other ? fmt::format("; \"layout\": \"{}\" would fit", tensor.layout == "oi" ? "io" : "oi")
             : "");
}

io::Entry DescribedFile::scaled_positions(const io::Entry& rows) const {
  if (!description_.position_scale.is_given()) return rows;
  return scaled_entry(rows, description_.position_scale.number(group_).value_or(1));
}

io::Entry DescribedFile::sinusoid(std::size_t width) const {
  const naming::DescribedSinusoid& described = description_.sinusoid;
  if (width == 0)
    fail("{}: how wide are the rows? A table of tokens or a linear map expected before it",
         described.where);
  if (width % 2 != 0 && (described.halves || described.inclusive))
    fail("{}: the rows are {} wide, which does not divide into pairs of a sine and a cosine",
         described.where, width);
  constexpr double most = 1 << 16;
  const double base = described.base.number(group_).value_or(10000),
               length = described.length.number(group_).value_or(4096);
  if (!(base > 0)) fail("{}: base is {}: a number above 0 expected", described.base.where, base);
  if (!(length >= 1 && length <= most) || length != std::floor(length))
    fail("{}: length is {}: a whole number from 1 to {} expected", described.length.where, length,
         most);
  return scaled_positions(sinusoid_entry(
      {static_cast<std::size_t>(length), width, base, described.halves, described.inclusive}));
}

} // namespace mha
