#include <mha/load/token_order.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/packed_texts.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/error.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace mha {

namespace {

/// Stages with an axis of heads, one of tokens and the width of a head.
bool is_per_head(const std::string& name) {
  if (find_tensor_name(name)) return false;
  const std::optional<Stage> stage = find_stage(name);
  return stage && info_of(*stage).kind == Kind::token && info_of(*stage).letters.size() == 3;
}

/// Stages per head before the scores; the order of head_out follows from theirs.
bool is_projected(const std::string& name) {
  return is_per_head(name) && *find_stage(name) < Stage::scores;
}

bool has_batch_or_none(const NamedTensor& part) {
  return part.tensor.rank() == 3 || part.tensor.rank() == 4;
}

/// The last three axes, the first two of them exchanged for tokens first.
std::array<std::size_t, 3> axes_of_heads(const NamedTensor& part, bool tokens_first) {
  const Shape& shape = part.tensor.shape();
  std::array<std::size_t, 3> axes{shape.end()[-3], shape.end()[-2], shape.end()[-1]};
  if (tokens_first) std::swap(axes[0], axes[1]);
  return axes;
}

/// The sizes under one order of the axes, and which tensors contradict them.
class OrderSizes {
public:
  OrderSizes(const NamedTensors& parts, const Settings& settings, bool tokens_first)
      : tokens_first_(tokens_first) {
    for (const auto& [name, part] : parts)
      if (is_projected(name) && has_batch_or_none(part)) learn_projected(name, part);
    if (settings.num_heads > 0) learn(Dim::H, settings.num_heads, "num_heads");
    if (settings.num_kv_heads > 0) learn(Dim::H_kv, settings.num_kv_heads, "num_kv_heads");
    const std::size_t H = of(Dim::H), H_kv = of(Dim::H_kv);
    if (H > 0 && H_kv > 0 && H % H_kv != 0)
      against_.push_back(fmt::format("{} heads on {} key/value heads", H, H_kv));
    others_ = settings.zero_attn || parts.contains("k_past") || parts.contains("k_extra");
    for (const auto& [name, part] : parts) learn_other(name, part);
  }

  std::size_t of(Dim letter) const {
    const auto at = known_.find(letter);
    return at == known_.end() ? 0 : at->second;
  }
  const std::vector<std::string>& against() const { return against_; }
  /// Whether only the numbers of heads contradict this order.
  bool only_heads_contradict() const {
    return against_.size() == 1 && of(Dim::H) > 0 && of(Dim::H_kv) > 0 &&
           of(Dim::H) % of(Dim::H_kv) != 0;
  }
  /// As many keys as queries: a text attends to itself.
  bool is_self() const { return of(Dim::T) > 0 && of(Dim::T) == of(Dim::S); }

private:
  bool agrees(Dim letter, std::size_t n) const { return of(letter) == 0 || of(letter) == n; }
  void learn(Dim letter, std::size_t n, const std::string& source) {
    if (agrees(letter, n))
      known_.emplace(letter, n);
    else
      against_.push_back(source);
  }

  void learn_projected(const std::string& name, const NamedTensor& part) {
    const std::vector<Dim>& letters = info_of(*find_stage(name)).letters;
    const auto axes = axes_of_heads(part, tokens_first_ && !part.bare_binding.empty());
    if (letters[1] == Dim::S_all) { // includes past, extra and zero keys
      learn(letters[0], axes[0], part.source);
      return;
    }
    for (const std::size_t i : {0U, 1U}) learn(letters[i], axes[i], part.source);
  }

  /// Compares a map or mask with the known sizes; an axis of 1 may be broadcast.
  void learn_map(const NamedTensor& part, bool broadcasts) {
    const Shape& shape = part.tensor.shape();
    const std::size_t n = shape.size();
    if (n < 2 || n > 4) return;
    const auto fits = [&](Dim letter, std::size_t size) {
      return (broadcasts && size == 1) || agrees(letter, size);
    };
    const bool keys = others_ || fits(Dim::S, shape[n - 1]),
               heads = n < (broadcasts ? 4 : 3) || fits(Dim::H, shape[n - 3]);
    if (!keys || !heads || !fits(Dim::T, shape[n - 2])) against_.push_back(part.source);
  }

  void learn_other(const std::string& name, const NamedTensor& part) {
    const Shape& shape = part.tensor.shape();
    if (shape.empty() || is_projected(name)) return;
    const auto only = [&](Dim letter, std::size_t n) {
      if (!agrees(letter, n)) against_.push_back(part.source);
    };
    if (const TensorInfo* info = find_tensor_name(name)) {
      if (name == "X" && shape.size() > 1) only(Dim::T, shape.end()[-2]);
      if (name == "positions") only(Dim::T, shape.back());
      if (name == "cu_seqlens") only(Dim::T, starts_of_texts(part).back());
      if (name == "cu_seqlens_k") only(Dim::S, starts_of_texts(part).back());
      if (name == "sinks") only(Dim::H, shape.back());
      if ((info->role == TensorRole::mask && shape.size() > 2) || name == "bias" ||
          name == "mask" || name == "block_mask")
        learn_map(part, true);
      if ((name == "key_padding_mask" || name == "attention_mask") && shape.size() == 2 && !others_)
        only(Dim::S, shape.back());
      return;
    }
    const std::optional<Stage> stage = find_stage(name);
    if (!stage) return;
    const StageInfo& info = info_of(*stage);
    if (info.kind == Kind::map) learn_map(part, false);
    if (info.kind == Kind::row && shape.size() > 1 && shape.size() < 4 &&
        !(agrees(Dim::H, shape.end()[-2]) && agrees(Dim::T, shape.back())))
      against_.push_back(part.source);
    if (*stage == Stage::head_out && has_batch_or_none(part)) {
      const auto fits = [&](bool tokens_first) {
        const auto axes = axes_of_heads(part, tokens_first);
        return agrees(Dim::H, axes[0]) && agrees(Dim::T, axes[1]);
      };
      if (!fits(false) && !(fits(true) && !part.bare_binding.empty()))
        against_.push_back(part.source);
    }
    if (info.kind == Kind::token && info.letters.size() == 2 && info.letters[0] == Dim::T &&
        (shape.size() == 2 || shape.size() == 3))
      only(Dim::T, shape.end()[-2]);
  }

  bool tokens_first_, others_ = false;
  std::map<Dim, std::size_t> known_;
  std::vector<std::string> against_;
};

/// How the tensors are read, and why.
struct TokenOrder {
  bool tokens_first = false;
  std::vector<std::string> names{}; ///< the parts that are ordered
  std::string why{};                ///< why tokens come first; else ""
  std::string doubt{};              ///< the sizes where heads first is a doubtful reading
  std::vector<std::string> other{}; ///< bindings that read them in the other order
};

/// "q=good.pt:q@BTHD".
std::string binding_of(const NamedTensor& part, bool tokens_first) {
  const std::string_view axes = tokens_first ? "BTHD" : "BHTD";
  return fmt::format("{}@{}", part.bare_binding, axes.substr(part.tensor.rank() == 4 ? 0 : 1));
}

TokenOrder token_order_of(const NamedTensors& parts, const Settings& settings) {
  TokenOrder order;
  if (settings.columns) return order;
  for (const auto& [name, part] : parts)
    if (is_projected(name) && has_batch_or_none(part) && !part.bare_binding.empty() &&
        (part.bound || !parts.contains("X"))) // beside X they are results, which are recomputed
      order.names.push_back(name);
  if (order.names.empty()) return order;
  std::ranges::sort(order.names, {}, [](const std::string& name) { return *find_stage(name); });
  const OrderSizes heads(parts, settings, false), tokens(parts, settings, true);
  const bool either = heads.against().empty() && tokens.against().empty();
  const bool shares = tokens.is_self() && !heads.is_self() && heads.of(Dim::S) > 0 &&
                      tokens.of(Dim::H) != tokens.of(Dim::H_kv);
  const std::size_t H = heads.of(Dim::H) > 0 ? heads.of(Dim::H) : heads.of(Dim::H_kv),
                    T = heads.of(Dim::T) > 0 ? heads.of(Dim::T) : heads.of(Dim::S);
  // Numbers of heads that do not divide may be a mistake: another order that leaves one head is not
  // the answer then.
  const bool may_be_heads =
      heads.only_heads_contradict() && !tokens.is_self() && tokens.of(Dim::H) == 1;
  if (tokens.against().empty() && !heads.against().empty() && !may_be_heads) {
    order.tokens_first = true;
    order.why = fmt::format("heads first, {} would not fit", heads.against()[0]);
  } else if (either && parts.contains("cu_seqlens")) {
    order.tokens_first = true;
    order.why = "texts that cu_seqlens packs have no axis of heads before the tokens";
  } else if (either && shares && (settings.causal || H > T)) {
    order.tokens_first = true;
    order.why = fmt::format("{} heads share {} key/value heads, and there are as many keys as "
                            "queries",
                            tokens.of(Dim::H), tokens.of(Dim::H_kv));
  } else if (either && T > 1 && (shares || H >= T)) {
    order.doubt = fmt::format("{}, {}", counted(H, "heads"), counted(T, "tokens"));
  }
  if (either)
    for (const std::string& name : order.names)
      order.other.push_back(binding_of(parts.at(name), !order.tokens_first));
  return order;
}

void take_token_order(NamedTensors& parts, const TokenOrder& order) {
  const auto turn = [](NamedTensor& part) {
    const std::size_t n = part.tensor.rank();
    std::vector<std::size_t> axes(n);
    for (std::size_t i = 0; i < n; ++i) axes[i] = i;
    std::swap(axes[n - 3], axes[n - 2]);
    part.tensor = permuted(part.tensor, axes);
  };
  if (order.tokens_first)
    for (const std::string& name : order.names) turn(parts.at(name));
  // head_out has the order of the queries, unless its shape contradicts that.
  const auto out = parts.find("head_out"), q = parts.find("q");
  if (out == parts.end() || out->second.bare_binding.empty() || !has_batch_or_none(out->second))
    return;
  if (q == parts.end() || !has_batch_or_none(q->second)) return;
  const auto own = axes_of_heads(q->second, false), given = axes_of_heads(out->second, false);
  const bool as_table = given[0] == own[0] && given[1] == own[1],
             turned = given[1] == own[0] && given[0] == own[1];
  if (turned && (!as_table || order.tokens_first)) turn(out->second);
}

void name_head_outputs(NamedTensors& parts) {
  const auto output = parts.find("output");
  if (output == parts.end() || parts.contains("head_out")) return;
  const std::size_t rank = output->second.tensor.rank();
  const bool per_head = std::ranges::any_of(parts, [&](const auto& part) {
    return is_projected(part.first) && part.second.tensor.rank() == rank;
  });
  if (rank != 4 && !(rank == 3 && per_head)) return;
  NamedTensor part = std::move(output->second);
  parts.erase(output);
  if (part.bare_binding.starts_with("output="))
    part.bare_binding = "head_out" + part.bare_binding.substr(6);
  parts.emplace("head_out", std::move(part));
}

} // namespace

std::vector<std::string> order_heads_and_tokens(NamedTensors& parts, const Settings& settings,
                                                std::vector<Note>& notes) {
  name_head_outputs(parts);
  const TokenOrder order = token_order_of(parts, settings);
  const std::string names = fmt::format("{}", fmt::join(order.names, ", "));
  if (order.tokens_first)
    notes.emplace_back(fmt::format("{} {} read tokens first, @BTHD: {}", names,
                                   order.names.size() == 1 ? "is" : "are", order.why));
  if (!order.doubt.empty())
    notes.emplace_back(fmt::format("{} {} is read heads first: {}; if tokens come first, write "
                                   "{}",
                                   order.names[0],
                                   to_string(parts.at(order.names[0]).tensor.shape()), order.doubt,
                                   fmt::join(order.other, " ")));
  take_token_order(parts, order);
  for (auto& [name, part] : parts) part.bare_binding.clear(); // kept tensors are ordered now
  return order.other;
}

} // namespace mha
