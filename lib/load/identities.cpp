#include <mha/load/identities.hpp>

#include <mha/files/text.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/stage.hpp>
#include <mha/load/doubts.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/load/name_words.hpp>
#include <mha/load/sizes.hpp>
#include <mha/naming/spelling.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace mha {

namespace {

/// A projection, the names under which its result is given, and the first stage that replaces it.
struct Projection {
  std::string_view W, stage, packed;
  std::array<std::string_view, 3> inputs;  ///< it is applied to the first of these that exists
  std::string_view fused;                  ///< it may be a part of this tensor
  Stage enough;                            ///< where this stage is given, nothing needs the result
  std::array<std::string_view, 2> later{}; ///< the result after its norm or rotation
};
const std::array<Projection, 4> projections{{
    {"W_q", "q", "Q", {"X", "x", ""}, "W_qkv", Stage::scores},
    {"W_k", "k", "K", {"X_kv", "X_k", "X"}, "W_kv_b", Stage::scores, {"k_norm", "k_rope"}},
    {"W_v", "v", "V", {"X_kv", "X_v", "X"}, "W_kv_b", Stage::head_out, {"v_norm"}},
    {"W_o", "output", "", {"", "", ""}, "", Stage::output},
}};

const Projection* projection_named(std::string_view name) {
  const auto found = std::ranges::find(projections, name, &Projection::W);
  return found == projections.end() ? nullptr : &*found;
}

/// A tensor that could be a projection, and the axes that a binding adds.
struct Candidate {
  const UnknownTensor* tensor;
  std::string axes;
  bool either = false; ///< it fits both ways
};

/// The projections that a layer lacks, and which tensors could be them.
class Lacking {
public:
  Lacking(const NamedTensors& parts, const Identities& identities, bool columns)
      : parts_(parts), columns_(columns) {
    learn_sizes();
    for (const Projection& projection : projections)
      if (!identities.contains(projection.W) && is_absent(projection))
        absent.push_back(&projection);
  }
  std::vector<const Projection*> absent;

  /// How a tensor could be the projection; nothing: it could not.
  std::optional<Candidate> fit(const Projection& projection, const UnknownTensor& tensor) const {
    const Shape& shape = tensor.shape;
    if (tensor.dtype == DType::boolean || !readings_of(tensor.name).empty() ||
        mentions(tensor.name, {"mask", "bias"}))
      return std::nullopt;
    if ((shape.size() != 2 && shape.size() != 3) || is_of_tokens(shape)) return std::nullopt;
    const bool output = projection.W == "W_o";
    const std::vector<std::size_t>& in = output ? of_heads_ : widths_;
    const auto is_in = [&](std::size_t size) { return is_one_of(size, in); };
    Candidate candidate{&tensor, ""};
    if (shape.size() == 2) {
      const bool rows = is_in(shape[0]), turned = is_in(shape[1]);
      candidate.either = rows && turned;
      if (!rows && turned && !columns_) candidate.axes = "@OI";
      if (!rows && !turned) return std::nullopt;
      return is_as_siblings(shape, output) ? std::optional(candidate) : std::nullopt;
    }
    const std::size_t a = shape[0], b = shape[1], c = shape[2];
    if (output ? is_in(a * b) : is_in(b)) return candidate;
    candidate.axes = output ? (is_in(a * c) ? "@HOI" : "@OHI") : is_in(a) ? "@IHO" : "@HOI";
    if (output ? !is_in(a * c) && !is_in(b * c) : !is_in(a) && !is_in(c)) return std::nullopt;
    return candidate;
  }

  /// Learns the width that W_o is applied to where a tensor is taken for W_q or W_v.
  void take(const Projection& projection, const Candidate& candidate) {
    if (projection.W != "W_q" && projection.W != "W_v") return;
    const Shape& shape = candidate.tensor->shape;
    const std::size_t all = count_of(shape);
    const bool turned = candidate.axes == "@OI" || (columns_ && shape.size() == 2);
    const std::size_t rows = turned                     ? shape[1]
                             : candidate.axes == "@IHO" ? shape[0]
                             : candidate.axes == "@HOI" ? shape[2]
                                                        : shape[shape.size() - 2];
    if (rows > 0) add_once(of_heads_, all / rows);
  }

private:
  const NamedTensor* part(std::string_view name) const {
    const auto found = parts_.find(std::string(name));
    return found == parts_.end() ? nullptr : &found->second;
  }

  bool is_absent(const Projection& projection) const {
    if (part(projection.W) || part(projection.stage) ||
        (!projection.packed.empty() && part(projection.packed)))
      return false;
    if (part("W_qkv") && projection.W != "W_o") return false;
    if (!projection.fused.empty() && part(projection.fused)) return false;
    // A later result that was merely found is computed again where its inputs are there.
    for (const auto& [name, given] : parts_) {
      const std::optional<Stage> stage = find_tensor_name(name) ? std::nullopt : find_stage(name);
      if (stage && given.bound && follows(*stage, projection.enough)) return false;
    }
    if (projection.W == "W_o") return !of_heads_.empty();
    const auto is_there = [&](std::string_view name) { return !name.empty() && part(name); };
    return std::ranges::any_of(projection.inputs, is_there) || (!has_input_ && has_sibling_);
  }

  /// A weight's input and output widths.
  Shape sides(std::string_view W, const NamedTensor& given) const {
    Shape shape = given.tensor.shape();
    if (shape.size() == 3)
      return W == "W_o" ? Shape{shape[0] * shape[1], shape[2]}
                        : Shape{shape[1], shape[0] * shape[2]};
    if (shape.size() != 2) return {};
    if (columns_ && !given.rows) std::swap(shape[0], shape[1]);
    return shape;
  }

  void learn_sizes() {
    for (const char* name : {"X", "x", "X_kv", "X_k", "X_v"})
      if (const NamedTensor* input = part(name); input && input->tensor.rank() >= 2) {
        const Shape& shape = input->tensor.shape();
        const std::size_t last = shape.back(), before = shape[shape.size() - 2];
        has_input_ = true;
        add_once(widths_, columns_ ? before : last);
        add_once(tokens_, columns_ ? last : before);
      }
    for (const char* name : {"W_q", "W_k", "W_v", "W_qkv"})
      if (const NamedTensor* W = part(name))
        if (const Shape shape = sides(name, *W); !shape.empty()) {
          has_sibling_ = true;
          siblings_.push_back(shape);
          if (!has_input_) add_once(widths_, shape[0]);
          if (name[2] != 'k' && shape.size() == 2) add_once(of_heads_, shape[1]);
        }
    for (const char* name : {"Q", "K", "V", "q", "k", "v"})
      if (const NamedTensor* given = part(name); given && given->tensor.rank() >= 2) {
        const Shape& shape = given->tensor.shape();
        const std::size_t rank = shape.size();
        const bool turned = columns_ && rank >= 2;
        const std::size_t width = turned ? shape[rank - 2] : shape.back();
        const std::size_t heads = is_packed(name) || rank < 3 ? 1 : shape[rank - 3];
        add_once(tokens_, turned ? shape.back() : shape[rank - 2]);
        add_once(of_heads_, heads * width);
      }
    for (const char* name : {"concat", "head_out"})
      if (const NamedTensor* given = part(name);
          given && given->bound && given->tensor.rank() >= 2) {
        const Shape& shape = given->tensor.shape();
        const bool per_head = name[0] == 'h' && shape.size() >= 3;
        add_once(of_heads_, shape.back() * (per_head ? shape[shape.size() - 3] : 1));
      }
    if (!part("W_v") && !part("V") && !part("v") && has_input_) // values are the input itself
      for (const std::size_t width : widths_) add_once(of_heads_, width);
  }

  /// Whether a shape is of rows of tokens: (T, d_model), or batches of it.
  bool is_of_tokens(const Shape& shape) const {
    const std::size_t last = shape.back(), before = shape[shape.size() - 2];
    const auto is = [&](std::size_t tokens, std::size_t width) {
      const bool wide = is_one_of(width, widths_) || is_one_of(width, of_heads_);
      const bool square = is_one_of(tokens, widths_) || is_one_of(tokens, of_heads_);
      return is_one_of(tokens, tokens_) && wide && !square;
    };
    return is(before, last) || (columns_ && is(last, before));
  }

  /// Without an input the widths follow from the sibling projections: both sides must match theirs.
  bool is_as_siblings(const Shape& shape, bool output) const {
    if (has_input_ || siblings_.empty()) return true;
    const auto is = [&](std::size_t rows, std::size_t columns) {
      if (output) return is_one_of(rows, of_heads_) && is_one_of(columns, widths_);
      return is_one_of(Shape{rows, columns}, siblings_);
    };
    return is(shape[0], shape[1]) || is(shape[1], shape[0]);
  }

  const NamedTensors& parts_;
  const bool columns_;
  bool has_input_ = false, has_sibling_ = false;
  std::vector<std::size_t> widths_, tokens_; ///< of inputs
  std::vector<std::size_t> of_heads_;        ///< widths of all heads side by side
  std::vector<Shape> siblings_;
};

/// A candidate for each projection, first by name, then in the files' order.
std::map<const Projection*, Candidate>
assigned(Lacking& lacking, const std::vector<UnknownTensor>& unknown_tensors, Guesses& guesses) {
  std::map<const Projection*, Candidate> chosen;
  std::set<const UnknownTensor*> taken;
  for (const bool by_name : {true, false})
    for (const Projection* projection : lacking.absent)
      for (const UnknownTensor& tensor : unknown_tensors) {
        if (chosen.contains(projection)) break;
        if (taken.contains(&tensor)) continue;
        const std::optional<Misspelt>& meant = guesses.meant(tensor.name);
        const std::optional<NumberedHead> head = numbered_head(tensor.name);
        const std::string own = canonical_name(tensor.name, false); // beside what is bound
        const std::string_view name = is_projection_name(own) ? std::string_view(own)
                                      : meant                 ? std::string_view(meant->meant)
                                      : head                  ? std::string_view(head->weight)
                                                              : "";
        if (is_projection_name(own) && own != projection->W) continue;
        if (by_name && name != projection->W) continue;
        if (const std::optional<Candidate> fits = lacking.fit(*projection, tensor)) {
          lacking.take(*projection, *fits);
          chosen.emplace(projection, *fits), taken.insert(&tensor);
        }
      }
  return chosen;
}

/// Throws Error for numbered heads as in lecture notes, W_q1 and W_q2.
void refuse_numbered_heads(const Lacking& lacking,
                           const std::vector<UnknownTensor>& unknown_tensors) {
  std::map<std::string, std::map<std::size_t, std::string>> heads; // by weight, then by number
  for (const UnknownTensor& tensor : unknown_tensors)
    if (const std::optional<NumberedHead> head = numbered_head(tensor.name);
        head && tensor.shape.size() == 2)
      heads[head->weight].emplace(head->number, tensor.name);
  std::string line;
  const std::map<std::size_t, std::string>* first = nullptr;
  for (const Projection* projection : lacking.absent) {
    const auto own = heads.find(std::string(projection->W));
    if (own == heads.end() || own->second.size() < 2) continue;
    if (!first) first = &own->second;
    const std::string list =
        joined_texts(own->second, ", ", [](const auto& head) { return io::shown(head.second); });
    line += fmt::format("{}{}=np.stack([{}])", line.empty() ? "" : ", ", projection->W, list);
  }
  if (!first) return;
  const std::string& name = first->begin()->second;
  const auto tensor = std::ranges::find(unknown_tensors, name, &UnknownTensor::name);
  fail("{}: {} {} is one head's, and a layer has one weight for all heads, (heads, rows, columns): "
       "{}; in JSON it is the list of them{}",
       io::shown(tensor->file), io::shown(name), to_string(tensor->shape), line, names_hint);
}

} // namespace

bool is_projection_name(std::string_view name) {
  return projection_named(name) != nullptr;
}

std::string projection_as_identity(std::string_view name, std::string_view value) {
  if (value != "identity") return "";
  const std::string canonical = canonical_name(name, false);
  return is_projection_name(canonical) ? canonical : "";
}

std::string projection_as_identity(const io::Source& binding) {
  const bool word = binding.memory.empty() && binding.tensor.empty() && binding.axes.empty() &&
                    !binding.raw_shape && !file_exists(binding.path);
  return word ? projection_as_identity(binding.name, binding.path) : "";
}

void require_no_other_projection(const std::vector<UnknownTensor>& unknown_tensors,
                                 const NamedTensors& parts, const Identities& identities,
                                 bool columns, Guesses& guesses) {
  if (unknown_tensors.empty()) return;
  Lacking lacking(parts, identities, columns);
  refuse_numbered_heads(lacking, unknown_tensors);
  const std::map<const Projection*, Candidate> chosen = assigned(lacking, unknown_tensors, guesses);
  if (chosen.empty()) return;
  std::vector<std::string> missing, found, line;
  std::string file;
  bool either = false;
  for (const Projection* projection : lacking.absent) {
    const auto own = chosen.find(projection);
    if (own == chosen.end()) {
      line.push_back(fmt::format("{}=identity", projection->W));
      continue;
    }
    const auto& [tensor, axes, both] = own->second;
    if (file.empty()) file = tensor->file;
    either = either || both;
    missing.emplace_back(projection->W);
    found.push_back(fmt::format("{} {}", io::shown(tensor->name), to_string(tensor->shape)));
    line.push_back(binding(projection->W, *tensor, axes));
  }
  fail("{}: there is no {}, and {} could be {}: write {}{}; {}=identity if none is meant{}",
       io::shown(file), joined_texts(missing, ", "), joined_texts(found, ", "),
       missing.size() == 1 ? "it" : "them", joined_texts(line, " "),
       either ? " (with @OI after what is stored (out, in), as nn.Linear does)" : "", missing[0],
       names_hint);
}

void note_identities(const NamedTensors& parts, const Identities& identities,
                     std::vector<Note>& notes) {
  const auto has = [&](std::string_view name) { return parts.contains(std::string(name)); };
  if (has("W_qkv") || (!has("W_q") && !has("W_k") && !has("W_v") && !has("W_kv_b"))) return;
  for (const Projection& projection : projections) {
    if (std::ranges::any_of(projection.later, has) || projection.W == "W_o" || has(projection.W) ||
        has(projection.stage) || has(projection.packed) || has(projection.fused))
      continue;
    if (has("X") && !identities.contains(projection.W))
      notes.push_back(
          warning(fmt::format("there is no {}: it is taken as the identity", projection.W)));
  }
}

} // namespace mha
