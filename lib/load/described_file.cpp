#include <mha/load/described_file.hpp>

#include <mha/load/described_names.hpp>
#include <mha/system/named.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mha {

using naming::DescribedTensor;

const io::Entry* DescribedFile::find(const std::string& name, const std::string& who, bool needed) {
  const io::Entry* entry = file_.find(name);
  if (entry) {
    claimed_.insert(name);
  } else if (needed) {
    fail("{}: {} has no tensor {}{}", who, file_.name, name,
         did_you_mean(name, names_of_rows(file_.tensors)));
  }
  return entry;
}

void DescribedFile::add(std::string name, io::Entry entry) {
  if (entry.own_name.empty()) entry.own_name = entry.name;
  entry.name = std::move(name);
  entries_.push_back(std::move(entry));
}

void DescribedFile::require_rank(const DescribedTensor& tensor, const io::Entry& entry,
                                 std::size_t rank) const {
  if (squeezed(entry.shape, rank).size() == rank) return;
  fail("{}: {}: {} is {}: {} expected", tensor.where, file_.name, entry.name,
       to_string(entry.shape),
       rank == 1   ? "one axis"
       : rank == 2 ? "a matrix"
                   : fmt::format("{} axes, {}", rank, tensor.layout));
}

io::Entry DescribedFile::matrix(const DescribedTensor& tensor, const std::string& name,
                                std::string wanted) {
  if (tensor.layout.size() == 3) wanted = "hio";
  const auto turned = [&](const io::Entry& entry) {
    require_rank(tensor, entry, tensor.layout.size());
    return turned_entry(entry, tensor.layout, wanted);
  };
  if (head_mark_in(name) == std::string::npos) return turned(*find(name, tensor.where, true));
  std::vector<io::Entry> heads;
  while (const io::Entry* entry =
             find(with_head(name, heads.size()), tensor.where, heads.empty())) {
    heads.push_back(turned(*entry));
    require_same_head(tensor, heads);
  }
  return stacked_entry(heads);
}

std::vector<io::Entry> DescribedFile::of_heads(const DescribedTensor& tensor,
                                               const std::string& name, bool needed) {
  std::vector<io::Entry> heads;
  while (const io::Entry* entry =
             find(with_head(name, heads.size()), tensor.where, needed && heads.empty())) {
    heads.push_back(*entry);
    require_same_head(tensor, heads);
  }
  return heads;
}

void DescribedFile::require_same_head(const DescribedTensor& tensor,
                                      const std::vector<io::Entry>& heads) const {
  if (heads.back().shape != heads[0].shape)
    fail("{}: {}: {} is {}, but {} is {}: heads of one shape expected", tensor.where, file_.name,
         heads.back().own_name, to_string(heads.back().shape), heads[0].own_name,
         to_string(heads[0].shape));
}

io::Entry DescribedFile::embedding_map(const DescribedTensor& said) {
  const io::Entry* entry = file_.find(said.name);
  if (!entry || squeezed(entry->shape, 2).size() == 2 || entry->shape.size() < 3)
    return matrix(said, said.name, "oi");
  find(said.name, said.where, true);
  const std::size_t out = entry->shape[0];
  if (said.layout != "oi" || out == 0) require_rank(said, *entry, 2);
  return reshaped_entry(*entry, {out, mha::count_of(entry->shape) / out});
}

void DescribedFile::claim_all(const std::string& name) {
  if (head_mark_in(name) == std::string::npos) {
    claimed_.insert(name);
    return;
  }
  for (std::size_t head = 0; file_.find(with_head(name, head)); ++head)
    claimed_.insert(with_head(name, head));
}

std::optional<io::Entry> DescribedFile::bias_of(const DescribedTensor& tensor,
                                                const std::string& weight, std::size_t layer) {
  const bool said = tensor.bias.has_value();
  if (said && tensor.bias->empty()) {
    claim_all(bias_beside(weight));
    return std::nullopt;
  }
  const std::string name = !said ? bias_beside(weight)
                           : naming::is_of_layer(tensor.key)
                               ? whole_name(said_, *tensor.bias, layer)
                               : *tensor.bias;
  if (name.empty()) return std::nullopt;
  if (head_mark_in(name) == std::string::npos) {
    const io::Entry* entry = find(name, tensor.where, said);
    return entry ? std::optional(multiplied(tensor, *entry, layer)) : std::nullopt;
  }
  const std::vector<io::Entry> heads = of_heads(tensor, name, said);
  if (heads.empty()) return std::nullopt;
  return multiplied(tensor, stacked_entry(heads), layer);
}

io::Entry DescribedFile::multiplied(const DescribedTensor& tensor, const io::Entry& outputs,
                                    std::size_t layer) {
  if (tensor.times.empty()) return outputs;
  const io::Entry& by = *find(whole_name(said_, tensor.times, layer), tensor.where, true);
  if (outputs.shape.empty() || count_of(by.shape) != outputs.shape.back())
    fail("{}: {}: {} is {}: {} expected, one for each output of {}", tensor.where, file_.name,
         by.name, to_string(by.shape),
         counted(outputs.shape.empty() ? 1 : outputs.shape.back(), "numbers"),
         outputs.name_in_file());
  return multiplied_entry(outputs, by);
}

io::Entry DescribedFile::rows_in_front() {
  std::vector<io::Entry> parts;
  for (const DescribedTensor& said : said_.first_rows) {
    const io::Entry& entry = *find(said.name, said.where, true);
    const bool row = squeezed(entry.shape, 1).size() == 1;
    if (!row) require_rank(said, entry, 2);
    parts.push_back(
        reshaped_entry(entry, row ? Shape{1, count_of(entry.shape)} : squeezed(entry.shape, 2)));
    require_axis(said, parts.back(), 1, parts[0].shape[1], "has rows of");
  }
  return below_entry(parts);
}

void DescribedFile::require_bias(const DescribedTensor& tensor, const io::Entry& bias,
                                 std::size_t expected) const {
  if (count_of(bias.shape) == expected) return;
  fail("{}: {}: its bias {} is {}: {} expected", tensor.where, file_.name, bias.name_in_file(),
       to_string(bias.shape), counted(expected, "numbers"));
}

void DescribedFile::require_axis(const DescribedTensor& tensor, const io::Entry& entry,
                                 std::size_t axis, std::size_t expected,
                                 std::string_view does) const {
  if (expected == 0 || entry.shape[axis] == expected) return;
  const bool other = entry.shape.size() == 2 && entry.shape[1 - axis] == expected;
  fail("{}: {}: {}, read as {}, {} {}, but {} {} expected{}", tensor.where, file_.name,
       entry.own_name, tensor.layout, does, entry.shape[axis], expected,
       expected == 1 ? "is" : "are",
       other ? fmt::format("; \"layout\": \"{}\" would fit", tensor.layout == "oi" ? "io" : "oi")
             : "");
}

io::Entry DescribedFile::scaled_positions(const io::Entry& rows,
                                          const naming::Group& config) const {
  if (!said_.position_scale.said()) return rows;
  return scaled_entry(rows, said_.position_scale.number(config).value_or(1));
}

io::Entry DescribedFile::sinusoid(std::size_t width, const naming::Group& config) const {
  const naming::DescribedSinusoid& said = said_.sinusoid;
  if (width == 0)
    fail("{}: how wide are the rows? A table of tokens or a linear map expected before it",
         said.where);
  if (width % 2 != 0 && (said.halves || said.inclusive))
    fail("{}: the rows are {} wide, which are no pairs of a sine and a cosine", said.where, width);
  constexpr double most = 1 << 16;
  const double base = said.base.number(config).value_or(10000),
               length = said.length.number(config).value_or(4096);
  if (!(base > 0)) fail("{}: base is {}: a number above 0 expected", said.base.where, base);
  if (!(length >= 1 && length <= most) || length != std::floor(length))
    fail("{}: length is {}: a whole number from 1 to {} expected", said.length.where, length, most);
  return scaled_positions(
      sinusoid_entry({static_cast<std::size_t>(length), width, base, said.halves, said.inclusive}),
      config);
}

} // namespace mha
