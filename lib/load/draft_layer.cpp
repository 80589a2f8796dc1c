// Drafts a layer's tensors by words in their names: attention, feed-forward and norms.

#include <mha/load/draft.hpp>
#include <mha/system/named.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <utility>

namespace mha {

namespace {

using LayerJson = nlohmann::ordered_json;

} // namespace

void Draft::find_width() {
  for (const io::Entry* entry : vectors_)
    if (is_norm_weight(entry->name)) width_ = std::max(width_, entry->shape.back());
  for (const io::Entry* entry : others_)
    if (width_ == 0 && mentions(entry->name, {"pos"}) && entry->shape.size() > 1)
      width_ = entry->shape.back();
}

void Draft::set(const char* key, const io::Entry* entry) {
  if (!entry) return;
  if (!attention_) attention_ = entry;
  const std::string name = stack_.name_in_layer(entry->name);
  const Shape& shape = entry->shape;
  if (squeezed(shape, 2).size() == 2)
    tensors_[key] = LayerJson(name_of_heads(*entry)).dump();
  else
    tensors_[key] =
        LayerJson(
            {{"name", name},
             {"layout", shape[2] == width_ && shape[1] != width_ && key != W_o ? "hoi" : "hio"}})
            .dump();
}

std::string Draft::name_of_heads(const io::Entry& entry) {
  const std::string name = stack_.name_in_layer(entry.name);
  constexpr std::string_view zero = ".0.";
  for (std::size_t at = name.find(zero); at != name.npos; at = name.find(zero, at + 1)) {
    const std::size_t in_file = entry.name.size() - name.size() + at;
    const auto of_head = [&](std::size_t head) {
      std::string of = entry.name;
      return of.replace(in_file + 1, 1, std::to_string(head));
    };
    std::size_t heads = 1;
    while (taken(matrices_, [&](const io::Entry* other) {
      return other->name == of_head(heads) && other->shape == entry.shape;
    }))
      ++heads;
    if (heads == 1) continue;
    heads_ = heads;
    return fmt::format("{}{}{}", name.substr(0, at + 1), head_mark, name.substr(at + 2));
  }
  return name;
}

void Draft::take_attention() {
  const auto take = [&](const char* key, WordList words, WordList parts) {
    set(key, taken(matrices_, [&](const io::Entry* entry) {
          const std::string name = stack_.name_in_layer(entry->name);
          return has_word(name, words) || mentions(name, parts);
        }));
  };
  const io::Entry* fused = taken(matrices_, [&](const io::Entry* entry) {
    const std::string name = stack_.name_in_layer(entry->name);
    return has_word(name, {"wqkv"}) || mentions(name, {"qkv"}) ||
           name.find(query_key_value) != name.npos ||
           (has_word(name, {"in"}) && !mentions(name, {"mlp", "ff", "feed"}));
  });
  set("W_qkv", fused);
  if (fused && fused->shape.size() == 2)
    shares_keys_ = fused->shape[0] != 3 * fused->shape[1] && fused->shape[1] != 3 * fused->shape[0];
  // GPT-NeoX, BLOOM, Falcon and Megatron-LM use this name and store each head's parts together.
  if (tensors_.contains("W_qkv") && tensors_["W_qkv"].find(query_key_value) != std::string::npos)
    tensors_["W_qkv"] = LayerJson{
        {"name", LayerJson::parse(tensors_["W_qkv"])},
        {"split", "q,k,v"},
        {"by", "head"}}.dump();
  if (!tensors_.contains("W_qkv")) {
    take("W_kv", {"kv"}, {});
    take("W_q", {"q", "wq"}, {"query", "queries"}), take("W_k", {"k", "wk"}, {"key"});
    take("W_v", {"v", "wv", "val"}, {"value"});
  }
  if (!tensors_.contains("W_q") && !tensors_.contains("W_qkv")) // "attn.c_attn"
    set("W_qkv", taken(matrices_, [](const io::Entry* entry) {
          const Shape& shape = entry->shape;
          return shape.size() == 2 && (shape[0] == 3 * shape[1] || shape[1] == 3 * shape[0]);
        }));
  if (!tensors_.contains("W_q") && !tensors_.contains("W_qkv")) take_listed();
  if (tensors_.contains(W_o)) return;
  take_biases();
  set(W_o, taken(matrices_, [&](const io::Entry* entry) {
        const std::string name = stack_.name_in_layer(entry->name);
        return mentions(name, {"attn", "attention"}) ||
               has_word(name, {"o", "wo", "out", "proj", "merge"});
      }));
  if (!tensors_.contains(W_o)) set(W_o, taken(matrices_, [](const io::Entry*) { return true; }));
}

void Draft::take_biases() {
  if (!tensors_.contains("W_qkv")) return;
  for (const auto& [key, name] :
       {std::pair("b_q", ".q_bias"), {"b_k", ".k_bias"}, {"b_v", ".v_bias"}})
    if (const io::Entry* bias = taken(vectors_, [ending = name](const io::Entry* entry) {
          return entry->name.ends_with(ending);
        }))
      tensors_[key] = LayerJson(stack_.name_in_layer(bias->name)).dump();
}

void Draft::take_listed() {
  constexpr std::string_view end = ".0.weight";
  for (const io::Entry* first : matrices_) {
    if (!first->name.ends_with(end)) continue;
    const std::string before = first->name.substr(0, first->name.size() - end.size());
    const auto part = [&](std::size_t n) {
      const auto* const at = find_named(matrices_, fmt::format("{}.{}.weight", before, n));
      return at && (*at)->shape == first->shape ? *at : nullptr;
    };
    if (!part(1) || !part(2)) continue;
    constexpr std::array keys{"W_q", "W_k", "W_v", W_o};
    const std::array parts{first, part(1), part(2), part(3)};
    if (!attention_) attention_ = first;
    for (std::size_t n = 0; n < keys.size() && parts[n]; ++n) {
      taken(matrices_, [&](const io::Entry* entry) { return entry == parts[n]; });
      tensors_[keys[n]] = LayerJson(stack_.name_in_layer(parts[n]->name)).dump();
    }
    return;
  }
}

void Draft::take_scales() {
  for (const char* key : {W_o, "mlp.out"}) {
    if (!tensors_.contains(key)) return;
    const io::Entry* scale = taken(vectors_, [&](const io::Entry* entry) {
      const std::string name = stack_.name_in_layer(entry->name);
      return has_word(name, {"ls1", "ls2", "ls", "lambda1", "lambda2"}) ||
             name.find("layer_scale") != name.npos || name.find("gamma_") != name.npos;
    });
    if (!scale) return;
    LayerJson tensor = LayerJson::parse(tensors_[key]);
    if (!tensor.is_object()) tensor = {{"name", tensor}};
    tensor["times"] = stack_.name_in_layer(scale->name);
    tensors_[key] = tensor.dump();
  }
}

void Draft::refuse_second_attention() const {
  if (!attention_) return;
  const auto module_of = [&](const io::Entry* entry) {
    const std::string name = stack_.name_in_layer(entry->name);
    return name.substr(0, name.find('.'));
  };
  const std::string own = module_of(attention_);
  std::vector<const io::Entry*> second;
  for (const io::Entry* entry : matrices_)
    if (mentions(module_of(entry), {"attn", "attention"}) && module_of(entry) != own)
      second.push_back(entry);
  if (second.size() > 1)
    fail("{}: layers have a second attention, {}, over another part's stream, which a description "
         "cannot express; for one layer alone: X=FILE X_kv=FILE W_q=FILE:TENSOR@OI …",
         file_.name, second[0]->name);
}

void Draft::take_feed_forward() {
  refuse_second_attention();
  // A table of distances is not one of its maps and stays a leftover.
  std::erase_if(matrices_,
                [](const io::Entry* entry) { return mentions(entry->name, {"relative"}); });
  leave_attention();
  if (matrices_.size() < 2) return;
  if (matrices_.size() == 2 && is_gated(*matrices_[0], *matrices_[1])) return take_gated();
  if (matrices_.size() > 2)
    set("mlp.up", taken(matrices_, [&](const io::Entry* entry) {
          return has_word(entry->name, {"up", "w3", "v1"});
        }));
  set("mlp.in", taken(matrices_, [&](const io::Entry* entry) {
        return matrices_.size() == 2 || has_word(entry->name, {"gate", "w1", "in", "fc1"});
      }));
  set("mlp.out", taken(matrices_, [](const io::Entry*) { return true; }));
}

void Draft::leave_attention() {
  if (!attention_) return;
  const std::string name = stack_.name_in_layer(attention_->name);
  const std::size_t dot = name.find('.');
  const std::string module = name.substr(0, dot == name.npos ? 0 : dot + 1);
  const auto is_within = [&](const io::Entry* entry) {
    return stack_.name_in_layer(entry->name).starts_with(module);
  };
  // "q_proj.weight" is a module of its own; "0." or "block." may contain a whole layer.
  const auto others =
      matrices_.size() - static_cast<std::size_t>(std::ranges::count_if(matrices_, is_within));
  if (mentions(module, {"attn", "attention"}) && others >= 2) std::erase_if(matrices_, is_within);
}

bool Draft::is_gated(const io::Entry& in, const io::Entry& out) {
  const Shape a = squeezed(in.shape, 2), b = squeezed(out.shape, 2);
  return a.size() == 2 && b.size() == 2 && a[0] == 2 * b[1] && a[1] == b[0];
}

void Draft::take_gated() {
  const std::string in = stack_.name_in_layer(matrices_[0]->name);
  const bool gate_last = in.ends_with("proj.weight") && !mentions(in, {"gate", "up", "in"});
  const auto any = [](const io::Entry*) { return true; };
  set("mlp.in_up", taken(matrices_, any)), set("mlp.out", taken(matrices_, any));
  tensors_["mlp.in_up"] = LayerJson{{"name", in}, {"split", gate_last ? "up,in" : "in,up"}}.dump();
}

bool Draft::is_batch_norm(const io::Entry& weight) const {
  return file_.find(weight.name.substr(0, weight.name.rfind('.') + 1) + "running_mean");
}

void Draft::take_norms() {
  std::erase_if(vectors_, [&](const io::Entry* entry) {
    return !is_norm_weight(entry->name) || claimed_.contains(stack_.pattern(entry->name));
  });
  if (vectors_.empty()) return;
  const io::Entry& first = *vectors_.front();
  const std::string& called = first.name;
  const bool lone = !file_.find(bias_beside(called));
  norm_kind_ = is_batch_norm(first)                                             ? "batch"
               : called.ends_with(".a_2") || called.ends_with(".alpha")         ? "std"
               : lone && (called.ends_with("weight") || called.ends_with(".g")) ? "rms"
                                                                                : "layer";
  const auto of_queries = [&](WordList words, WordList parts) {
    return taken(vectors_, [&](const io::Entry* entry) {
      const std::string name = stack_.name_in_layer(entry->name);
      return has_word(name, words) || mentions(name, parts);
    });
  };
  set_norm("q_norm", of_queries({"q"}, {"query"})), set_norm("k_norm", of_queries({"k"}, {"key"}));
  if (vectors_.empty()) return;
  // The feed-forward's norm, which may come first: ffn.layer_norm, norm2, final_layer_norm.
  const auto is_second = [&](const io::Entry* entry) {
    const std::string name = stack_.name_in_layer(entry->name);
    return mentions(name, {"mlp", "ff", "feed", "intermediate", "final", "post", "norm2", "ln2",
                           "full"}) ||
           name.find("_2") != name.npos;
  };
  if (vectors_.size() > 1 && is_second(vectors_[0]) && !is_second(vectors_[1]))
    std::swap(vectors_[0], vectors_[1]);
  norm_first_ = vectors_[0] < attention_;
  set_norm("norm", taken(vectors_, [](const io::Entry*) { return true; }));
  if (tensors_.contains("mlp.out"))
    set_norm("mlp.norm", taken(vectors_, [](const io::Entry*) { return true; }));
}

void Draft::set_norm(const char* key, const io::Entry* entry) {
  if (!entry) return;
  tensors_[key] = norm_named(entry->name, stack_.name_in_layer(entry->name));
  const std::string module = entry->name.substr(0, entry->name.rfind('.') + 1);
  for (const char* statistic : {"running_mean", "running_var", "num_batches_tracked"})
    claimed_.insert(stack_.pattern(module + statistic));
}

} // namespace mha
