#include <mha/load/families/kinds.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/described_file.hpp>
#include <mha/load/families/family_text.hpp>
#include <mha/load/sizes.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/named.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace mha::naming {

namespace {

/// The first row of the table of kinds that matches one of the parts, and that part.
std::pair<const TensorInfo*, const TensorOfKind*> first_row(std::span<const TensorOfKind> parts) {
  for (const TensorInfo& row : tensors_of_kinds())
    if (const TensorOfKind* const part = row.kind.empty() ? nullptr : find_named(parts, row.name))
      return {&row, part};
  return {nullptr, nullptr};
}

/// Sizes by the text of a length, which is a letter or a product whose factors no tensor gives.
class KindSizes {
public:
  KindSizes(const Description& description, const Group& group) {
    for (const auto& [letter, value] : description.sizes)
      if (const auto size = value.number(group))
        sizes_[letter].learn(static_cast<std::size_t>(*size), value.where + ": " + letter);
  }

  /// Learns sizes from the first form of the row that fits the known ones.
  void learn(const TensorInfo& row, const Shape& shape, const std::string& source) {
    const auto fits = [&](const TensorForm& form) {
      if (form.size() != shape.size()) return false;
      for (std::size_t i = 0; i < form.size(); ++i)
        if (const std::size_t known = size_of(form[i]); known > 0 && known != shape[i])
          return false;
      return true;
    };
    const auto form = std::ranges::find_if(row.forms, fits);
    if (form == row.forms.end()) refuse(row, shape, source);
    for (std::size_t i = 0; i < form->size(); ++i)
      if (!is_own((*form)[i])) sizes_[text_of((*form)[i])].learn(shape[i], source);
  }

private:
  static bool is_own(const Length& length) { return length.letter == Dim::widths; }

  std::size_t size_of(const Length& length) const {
    if (is_own(length)) return 0;
    const auto at = [&](const std::string& text) {
      const auto size = sizes_.find(text);
      return size == sizes_.end() ? std::size_t{0} : size->second.value;
    };
    if (const std::size_t whole = at(text_of(length)); whole > 0 || !length.times) return whole;
    return at(text_of(length.letter)) * at(text_of(*length.times));
  }

  [[noreturn]] void refuse(const TensorInfo& row, const Shape& shape,
                           const std::string& source) const {
    std::string known;
    for (const TensorForm& form : row.forms)
      for (const Length& length : form)
        if (const std::string text = text_of(length);
            size_of(length) > 0 && known.find(text + " is") == known.npos)
          known +=
              fmt::format("{}{} is {}", known.empty() ? ", where " : ", ", text, size_of(length));
    fail("{} is {}: {}, ({}) expected{}", source, to_string(shape), row.name, shape_text(row),
         known);
  }

  std::map<std::string, Size> sizes_;
};

bool is_mixer(std::string_view name) {
  const TensorInfo* const row = find_tensor_of_kind(name);
  return row && row->kind != mixture_kind;
}

} // namespace

bool has_mixer(std::span<const TensorOfKind> parts) {
  return std::ranges::any_of(parts, is_mixer, &TensorOfKind::name);
}

std::string_view kind_of(std::span<const TensorOfKind> parts, bool alone) {
  const auto [row, part] = first_row(parts);
  if (row && (alone || row->kind != mixture_kind)) return row->kind;
  return alone && !parts.empty() ? "is a feed-forward alone" : std::string_view();
}

Message why_of_kind(std::string_view id, std::span<const TensorOfKind> parts, bool alone) {
  const auto [row, first] = first_row(parts);
  const TensorOfKind& part = first ? *first : parts[0];
  return fmt::format("layer {} {}, which is not computed yet: {} is {}", id, kind_of(parts, alone),
                     part.source, part.name);
}

std::pair<std::string, std::string> names_of_part(std::string_view key, const std::string& part) {
  if (key.starts_with("W_")) return {"W_" + part, "b_" + part};
  const std::string name =
      (key == "conv" ? "conv_" : std::string(key.substr(0, key.find('.') + 1))) + part;
  return {name, name + ".bias"};
}

std::vector<TensorOfKind> named_of_kinds(const Found& layer) {
  const Group& group = layer.group;
  const Description& description =
      group.description ? *group.description : description_of(*layer.family, group, false);
  const DescribedFile file(description, group);
  std::vector<TensorOfKind> parts;
  for (const auto& [key, tensor] : description.tensors) {
    if (key.starts_with("mlp.")) continue;
    std::vector<std::string> names{key};
    for (const std::string& part : tensor.split) names.push_back(names_of_part(key, part).first);
    for (const std::string& name : names) {
      const TensorInfo* const row = find_tensor_of_kind(name);
      if (!row || row->kind.empty()) continue;
      if (const io::Entry* const entry = file.weight(tensor))
        parts.push_back({name, *entry, fmt::format("{}: {}", group.contents->name, entry->name)});
      break;
    }
  }
  return parts;
}

std::size_t size_of_letter(const Description& description, const Group& group, Dim letter,
                           const std::string& where) {
  const auto at = description.sizes.find(std::string(name_of(letter)));
  const std::optional<double> size =
      at == description.sizes.end() ? std::nullopt : at->second.number(group);
  if (!size) fail("{}: {} must be known to split it: give it in \"sizes\"", where, name_of(letter));
  if (!(*size >= 1 && *size <= 1e9) || *size != std::floor(*size))
    fail("{}: {} is {}: a whole number from 1 on expected", at->second.where, at->first, *size);
  return static_cast<std::size_t>(*size);
}

std::size_t width_of_part(const Description& description, const Group& group, std::string_view name,
                          const std::string& where) {
  const TensorForm& form = find_tensor_of_kind(name)->forms.front();
  const Length& length = name.starts_with("conv") ? form.front() : form.back();
  const std::size_t width = size_of_letter(description, group, length.letter, where);
  return length.times ? width * size_of_letter(description, group, *length.times, where) : width;
}

void require_sizes_of_kinds(const Description& description, const Group& group,
                            const LayerReading& read) {
  if (read.of_kinds.empty()) return;
  KindSizes sizes(description, group);
  for (const TensorOfKind& part : read.of_kinds)
    if (const TensorInfo* const row = find_tensor_of_kind(part.name))
      sizes.learn(*row, part.entry.shape, part.source);
  const std::string_view kind = kind_of(read.of_kinds, false);
  if (kind != find_tensor_of_kind("A_log")->kind) return; // heads of softmax have other letters
  for (const auto& [name, part] : read.parts)
    if (const TensorInfo* const row = find_tensor_of_kind(name))
      sizes.learn(*row, part.tensor.shape(), part.source);
}

} // namespace mha::naming
