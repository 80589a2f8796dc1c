// GGUF as a checkpoint: undoes the changes of llama.cpp's converter, so that names and numbers are
// those of the published model.

#include <mha/formats/gguf_settings.hpp>

#include <mha/files/text.hpp>
#include <mha/system/named.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/parts.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mha::io {

namespace {

/// A transformation of a tensor's numbers, or of their steps, after they are read.
using Transform = std::function<Tensor(const Tensor&)>;
/// For each row of the result, its row in the file.
using RowOrder = std::vector<std::size_t>;

/// The order that turns neighbouring pairs in each head into halves: row i of the first half is row
/// 2 i of the file.
RowOrder halves_of_pairs(std::size_t rows, std::size_t heads) {
  RowOrder order(rows);
  const std::size_t width = rows / heads, half = width / 2;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t in_head = row % width;
    order[row] = row - in_head + in_head % half * 2 + in_head / half;
  }
  return order;
}

/// The order that turns all queries, all keys, all values into groups: for each key/value head its
/// queries, its key, its value.
RowOrder groups_of_fused(std::size_t width, std::size_t heads, std::size_t key_heads) {
  RowOrder order;
  const auto add_head = [&](std::size_t head) {
    for (std::size_t i = 0; i < width; ++i) order.push_back(head * width + i);
  };
  const std::size_t shared = heads / key_heads;
  for (std::size_t group = 0; group < key_heads; ++group) {
    for (std::size_t i = 0; i < shared; ++i) add_head(group * shared + i);
    add_head(heads + group);
    add_head(heads + key_heads + group);
  }
  return order;
}

Tensor minus_one(const Tensor& tensor) {
  Tensor result = convert(tensor, DType::f32);
  if (result.raw() == tensor.raw()) result = copy_of(view_of(tensor));
  for (float& value : result.as_mutable<float>()) value -= 1;
  return result;
}

/// A range of the first axis.
GgufTensor part_of(const GgufTensor& tensor, std::size_t first, std::size_t count) {
  GgufTensor part = tensor;
  if (tensor.shape[0] == 0) return tensor;
  const std::uint64_t bytes = tensor.bytes / tensor.shape[0];
  part.shape[0] = count;
  part.first += first * bytes, part.bytes = count * bytes;
  return part;
}

/// The matrix of keys and values in latent attention. The file stores it in two tensors, for keys
/// (heads, in, out) and for values (heads, out, in).
struct LatentMatrix {
  GgufTensor keys, values; ///< heads, in, out; heads, out, in

  static bool fit(const GgufTensor& keys, const GgufTensor& values) {
    return keys.shape.size() == 3 && values.shape.size() == 3 && keys.shape[0] == values.shape[0] &&
           keys.shape[1] == values.shape[2];
  }
  DType dtype() const { return keys.dtype == values.dtype ? keys.dtype : DType::f32; }
  Shape shape() const { return {keys.shape[0] * (keys.shape[2] + values.shape[1]), keys.shape[1]}; }
  Tensor read() const {
    const Tensor k = permuted(convert(keys.read(), dtype()), {0, 2, 1}),
                 v = convert(values.read(), dtype());
    Tensor rows(dtype(), shape());
    std::byte* to = rows.raw_mutable();
    for (std::size_t head = 0; head < keys.shape[0]; ++head)
      for (const Tensor* part : {&k, &v}) {
        const std::size_t bytes = part->bytes() / keys.shape[0];
        to = std::copy_n(part->raw() + head * bytes, bytes, to);
      }
    return rows;
  }
};

class GgufCheckpoint {
public:
  GgufCheckpoint(const Gguf& file, const GgufArchitecture& architecture, bool own_order)
      : file_(file), model_(architecture), own_order_(own_order) {
    for (const GgufTensor& tensor : file.tensors) present(tensor);
  }
  std::vector<Entry> entries;

private:
  void add(std::string name, const GgufTensor& tensor, Shape shape, const Transform& transform) {
    Entry entry;
    entry.name = std::move(name);
    entry.dtype = tensor.dtype;
    entry.shape = std::move(shape);
    entry.own_name = entry.name == tensor.name ? "" : tensor.name;
    entry.read = [tensor, transform] {
      return transform ? transform(tensor.read()) : tensor.read();
    };
    entry.blocks = tensor.blocks;
    if (tensor.blocks)
      entry.steps = [tensor, transform] {
        return transform ? transform(tensor.steps()) : tensor.steps();
      };
    entries.push_back(std::move(entry));
  }
  void add(std::string name, const GgufTensor& tensor, const Transform& transform = nullptr) {
    add(std::move(name), tensor, tensor.shape, transform);
  }

  void present(const GgufTensor& tensor) {
    std::string_view name = tensor.name;
    std::string_view ending;
    for (std::string_view suffix : {".weight", ".bias"})
      if (name.ends_with(suffix)) ending = suffix, name.remove_suffix(suffix.size());
    std::string prefix;
    std::size_t layer = 0;
    const bool in_block = name.starts_with("blk.");
    if (in_block) {
      name.remove_prefix(4);
      const auto number = take_number<std::size_t>(name);
      if (!number || !name.starts_with('.')) return add(tensor.name, tensor);
      layer = *number;
      name.remove_prefix(1);
      prefix = fmt::format("{}.{}.", model_.blocks, layer);
    }
    if (in_block && model_.name == "deepseek2" && present_latent(tensor, name, layer, prefix))
      return;
    const std::optional<std::string_view> found =
        in_block ? name_in_block(name) : name_in(model_.ends, name);
    if (name == "attn_qkv" && in_block &&
        (model_.fused == GgufFused::separate || (!found && is_apart(layer))))
      return present_separate(tensor, layer, prefix, ending);
    if (!found) return add(tensor.name, tensor);
    std::string own(*found);
    if (model_.name == "falcon" && name == "attn_norm" && has_two_norms(layer)) own = "ln_mlp";
    if (own.ends_with('!')) {
      own.pop_back();
      return add(prefix + own, tensor);
    }
    if (const std::size_t number = own.find('#'); number != std::string::npos) {
      // Each expert becomes a tensor, so a small file must not have very many.
      constexpr std::size_t most_experts = 4096, fewest_bytes = 16;
      const std::size_t axes = ending == ".bias" ? 2 : 3;
      if (tensor.shape.size() != axes || tensor.shape[0] > most_experts ||
          tensor.bytes < tensor.shape[0] * fewest_bytes)
        return add(tensor.name, tensor);
      for (std::size_t expert = 0; expert < tensor.shape[0]; ++expert) {
        GgufTensor part = part_of(tensor, expert, 1);
        part.shape.erase(part.shape.begin());
        add(fmt::format("{}{}{}{}{}", prefix, own.substr(0, number), expert, own.substr(number + 1),
                        ending),
            part);
      }
      return;
    }
    own = prefix + own + std::string(ending);
    if (model_.norms_plus_1 && name.ends_with("_norm") && ending == ".weight") {
      add(own, tensor, minus_one);
      entries.back().dtype = DType::f32;
      if (tensor.blocks) entries.back().steps = [tensor] { return tensor.steps(); };
      return;
    }
    if (model_.in_out && in_block && tensor.shape.size() == 2)
      return add(own, tensor, {tensor.shape[1], tensor.shape[0]}, transposed);
    add(own, tensor, order_of(tensor, name, layer));
  }

  /// The transformation of the order of a tensor's rows; nullptr if the order stays.
  Transform order_of(const GgufTensor& tensor, std::string_view name, std::size_t layer) const {
    if (tensor.shape.empty() || tensor.shape.size() > 2) return nullptr;
    const std::size_t rows = tensor.shape[0];
    const bool of_k = name == "attn_k";
    if (model_.neighbours && !own_order_ && (name == "attn_q" || of_k)) {
      const std::size_t heads = heads_of(layer, of_k);
      if (rows % (2 * heads) != 0)
        fail(
            "{}: {} is {}: its rows are not pairs for {} heads, given by {}.attention.head_count{}",
            shown(file_.name), shown(tensor.name), to_string(tensor.shape), heads, model_.name,
            of_k ? "_kv or head_count" : "");
      return [order = halves_of_pairs(rows, heads)](const Tensor& read) {
        return at_positions(read, 0, order);
      };
    }
    if (name == "attn_qkv" && model_.fused == GgufFused::per_group) {
      const std::size_t width = width_of_fused(tensor, layer);
      return [order = groups_of_fused(width, heads_of(layer, false), heads_of(layer, true))](
                 const Tensor& read) { return at_positions(read, 0, order); };
    }
    return nullptr;
  }

  /// Adds the parts for keys and values as one attn_kv_b when it gets the first of them. Whether
  /// the tensor is one of these parts.
  bool present_latent(const GgufTensor& tensor, std::string_view name, std::size_t layer,
                      const std::string& prefix) {
    if (name != "attn_k_b" && name != "attn_v_b") return false;
    const auto other = [&](const char* part) {
      return find_named(file_.tensors, fmt::format("blk.{}.{}.weight", layer, part));
    };
    const GgufTensor *const keys = other("attn_k_b"), *const values = other("attn_v_b");
    if (!keys || !values || !LatentMatrix::fit(*keys, *values)) return false;
    if (&tensor != keys) return true;
    const LatentMatrix parts{*keys, *values};
    Entry entry;
    entry.name = fmt::format("{}{}.weight", prefix, *name_in_block("attn_kv_b"));
    entry.dtype = parts.dtype(), entry.shape = parts.shape(), entry.own_name = tensor.name;
    entry.read = [parts] { return parts.read(); };
    entries.push_back(std::move(entry));
    return true;
  }

  /// Whether a block has in one tensor the queries, keys and values that are apart in checkpoints,
  /// in the same order of rows.
  bool is_apart(std::size_t layer) const {
    const auto has = [&](const char* part) {
      return find_named(file_.tensors, fmt::format("blk.{}.{}.weight", layer, part)) != nullptr;
    };
    return !model_.neighbours && name_in(model_.of_block[0], "attn_q") && has("attn_qkv") &&
           !has("attn_q");
  }

  /// The width of a head by its key; by the rows of a fused matrix where that is missing.
  std::size_t head_width(const GgufTensor& fused, std::size_t layer, const char* key) const {
    const auto width = file_.integer(fmt::format("{}.attention.{}", model_.name, key));
    return width && *width > 0 ? static_cast<std::size_t>(*width) : width_of_fused(fused, layer);
  }

  /// Adds queries, keys and values as three tensors.
  void present_separate(const GgufTensor& tensor, std::size_t layer, const std::string& prefix,
                        std::string_view ending) {
    if (tensor.shape.empty() || tensor.shape.size() > 2) return add(tensor.name, tensor);
    const std::size_t key = head_width(tensor, layer, "key_length"),
                      value = head_width(tensor, layer, "value_length"),
                      heads = heads_of(layer, false), key_heads = heads_of(layer, true);
    if (heads * key + key_heads * (key + value) != tensor.shape[0])
      fail("{}: {} is {}: {} heads' queries of {} and {} heads' keys of {} and values of {} "
           "expected, given by {}.attention's keys",
           shown(file_.name), shown(tensor.name), to_string(tensor.shape), heads, key, key_heads,
           key, value, model_.name);
    std::size_t first = 0;
    for (const auto& [part, count] :
         {std::pair("attn_q", heads * key), std::pair("attn_k", key_heads * key),
          std::pair("attn_v", key_heads * value)}) {
      add(fmt::format("{}{}{}", prefix, *name_in(model_.of_block[0], part), ending),
          part_of(tensor, first, count));
      first += count;
    }
  }

  /// The width of a head of a fused matrix.
  std::size_t width_of_fused(const GgufTensor& tensor, std::size_t layer) const {
    const std::size_t heads = heads_of(layer, false), key_heads = heads_of(layer, true);
    if (heads % key_heads != 0)
      fail("{}: {}.attention.head_count {} do not share {}.attention.head_count_kv {} evenly",
           shown(file_.name), model_.name, heads, model_.name, key_heads);
    const std::size_t all = heads + 2 * key_heads;
    if (tensor.shape[0] % all != 0)
      fail("{}: {} is {}: its rows are not {} heads' queries and {} heads' keys and values, given "
           "by "
           "{}.attention.head_count and {}.attention.head_count_kv",
           shown(file_.name), shown(tensor.name), to_string(tensor.shape), heads, key_heads,
           model_.name, model_.name);
    return tensor.shape[0] / all;
  }

  std::size_t heads_of(std::size_t layer, bool of_keys) const {
    const std::string all = fmt::format("{}.attention.head_count", model_.name);
    const GgufValue* value = of_keys ? file_.find(all + "_kv") : nullptr;
    if (!value) value = file_.find(all);
    const auto heads = value ? value->integer(value->is_array ? layer : 0) : std::nullopt;
    if (!heads || *heads < 1 || *heads > (1 << 20))
      fail("{}: {}{} does not give the number of heads in block {}, which sets the order of its "
           "rows",
           shown(file_.name), all, of_keys ? "_kv" : "", layer);
    return static_cast<std::size_t>(*heads);
  }

  bool has_two_norms(std::size_t layer) const {
    return find_named(file_.tensors, fmt::format("blk.{}.attn_norm_2.weight", layer)) != nullptr;
  }

  /// "k_proj" for "attn_k" in "attn_q=q_proj attn_k=k_proj".
  static std::optional<std::string_view> name_in(std::string_view list, std::string_view name) {
    for (std::string_view pair : words_of(list)) {
      const std::size_t equals = pair.find('=');
      if (pair.substr(0, equals) == name) return pair.substr(equals + 1);
    }
    return std::nullopt;
  }

  std::optional<std::string_view> name_in_block(std::string_view name) const {
    for (std::string_view list : model_.of_block)
      if (const auto own = name_in(list, name)) return own;
    return std::nullopt;
  }

  const Gguf& file_;
  const GgufArchitecture& model_;
  bool own_order_;
};

} // namespace

Tensor GgufTensor::read() const {
  const auto data = in_place(*file, first, bytes);
  return blocks ? decoded(*blocks, data.get(), shape) : Tensor(dtype, shape, data);
}

Tensor GgufTensor::steps() const {
  return steps_of(*blocks, in_place(*file, first, bytes).get(), shape);
}

Contents read_gguf(const Bytes& bytes, bool own_order) {
  const Gguf file = open_gguf(bytes);
  Contents contents;
  contents.name = bytes.name;
  contents.format = "gguf";
  const std::string name(file.text("general.architecture").value_or(""));
  static const GgufArchitecture unknown{};
  const GgufArchitecture* known = find_gguf_architecture(name);
  const GgufArchitecture& architecture = known ? *known : unknown;
  if (known)
    contents.config = config_of_gguf(file, architecture);
  else if (!name.empty())
    contents.config["model_type"] = name;
  if (own_order && architecture.neighbours)
    contents.config.try_emplace("rope", "interleaved"); // "none" stays
  contents.tensors = std::move(GgufCheckpoint(file, architecture, own_order).entries);
  std::vector<std::string_view> names = names_of_rows(contents.tensors);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    fail("{}: two tensors are both {}", shown(bytes.name), shown(*twice));
  return contents;
}

} // namespace mha::io
