#include <mha/load/draft_naming.hpp>

#include <mha/load/as_naming_text.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/described_tensors.hpp>
#include <mha/load/name_words.hpp>
#include <mha/load/numbered_stack.hpp>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace mha {

namespace {

using DraftJson = nlohmann::ordered_json;

bool is_one_row(const io::Entry& entry) {
  return squeezed(entry.shape, 1).size() == 1;
}

class Draft {
public:
  Draft(const io::Contents& file, NumberedStack stack) : file_(file), stack_(std::move(stack)) {
    for (const io::Entry* entry : stack_.of_first)
      if (is_floating(entry->dtype) && !has_word(entry->name, {"mask", "masked"}))
        (squeezed(entry->shape, 2).size() >= 2 ? matrices_ : vectors_).push_back(entry);
    for (const io::Entry& entry : file.tensors)
      if (!stack_.holds(entry.name)) others_.push_back(&entry);
  }

  std::optional<std::string> text() {
    find_width();
    take_attention();
    if (!tensors_.contains("W_q") && !tensors_.contains("W_qkv")) return std::nullopt;
    take_feed_forward();
    take_scales();
    take_norms();
    const DraftJson embed = steps_of_embed();
    const DraftJson head = head_of_model();
    const std::string final_norm = last_norm();
    const bool after = final_norm.empty() && tensors_.contains("mlp.norm");
    DraftJson top;
    top["layers"] = stack_.prefix();
    top["block"] = !tensors_.contains("mlp.out") ? "attention_only" : after ? "post" : "pre";
    if (tensors_.contains("mlp.out"))
      top["activation"] = configured({"hidden_act", "activation", "activation_function"}, "gelu");
    top["norm"] = {
        {"kind", norm_kind_},
        {"eps", configured({"layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon"}, 1e-5)}};
    top["embed"] = embed, top["tensors"] = tensors_;
    if (!final_norm.empty()) top["final_norm"] = final_norm;
    if (!head.is_null()) top["head"] = head;
    top["settings"] = settings(tokens_ && !head.is_null() && !head.contains("dense") && !after);
    if (DraftJson rest = leftovers(); !rest.empty()) top["ignore"] = rest;
    return spread_description(top.dump());
  }

private:
  /// Takes the first of `from` that fits; nothing is nullptr.
  template <class Fits>
  const io::Entry* taken(std::vector<const io::Entry*>& from, const Fits& fits) {
    const auto at = std::ranges::find_if(from, fits);
    if (at == from.end()) return nullptr;
    const io::Entry* entry = *at;
    from.erase(at);
    claim(entry->name);
    return entry;
  }

  static constexpr const char* W_o = "W_o";

  void claim(const std::string& name) {
    claimed_.insert(stack_.pattern(name));
    claimed_.insert(stack_.pattern(bias_beside(name)));
  }

  /// d_model: of a norm, or of the positions' rows; 0 where neither is there.
  void find_width() {
    for (const io::Entry* entry : vectors_)
      if (is_norm_weight(entry->name)) width_ = std::max(width_, entry->shape.back());
    for (const io::Entry* entry : others_)
      if (width_ == 0 && speaks_of(entry->name, {"pos"}) && entry->shape.size() > 1)
        width_ = entry->shape.back();
  }

  /// A tensor of a layer under a key. Of three axes the first are heads.
  void set(const char* key, const io::Entry* entry) {
    if (!entry) return;
    const std::string name = stack_.name_in_layer(entry->name);
    const Shape& shape = entry->shape;
    if (squeezed(shape, 2).size() == 2)
      tensors_[key] = name;
    else
      tensors_[key] = {
          {"name", name},
          {"layout", shape[2] == width_ && shape[1] != width_ && key != W_o ? "hoi" : "hio"}};
  }

  void take_attention() {
    const auto take = [&](const char* key, Words words, Words parts) {
      set(key, taken(matrices_, [&](const io::Entry* entry) {
            const std::string name = stack_.name_in_layer(entry->name);
            return has_word(name, words) || speaks_of(name, parts);
          }));
    };
    set("W_qkv", taken(matrices_, [&](const io::Entry* entry) {
          const std::string name = stack_.name_in_layer(entry->name);
          return has_word(name, {"wqkv"}) || speaks_of(name, {"qkv"}) ||
                 (has_word(name, {"in"}) && !speaks_of(name, {"mlp", "ff", "feed"}));
        }));
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
    set(W_o, taken(matrices_, [&](const io::Entry* entry) {
          const std::string name = stack_.name_in_layer(entry->name);
          return speaks_of(name, {"attn", "attention"}) ||
                 has_word(name, {"o", "wo", "out", "proj", "merge"});
        }));
    if (!tensors_.contains(W_o)) set(W_o, taken(matrices_, [](const io::Entry*) { return true; }));
  }

  /// Four matrices of one shape that are a list's 0 to 3: queries, keys, values, output.
  void take_listed() {
    constexpr std::string_view end = ".0.weight";
    for (const io::Entry* first : matrices_) {
      if (!first->name.ends_with(end)) continue;
      const std::string before = first->name.substr(0, first->name.size() - end.size());
      const auto part = [&](std::size_t n) {
        const std::string name = fmt::format("{}.{}.weight", before, n);
        const auto at = std::ranges::find(matrices_, name, &io::Entry::name);
        return at != matrices_.end() && (*at)->shape == first->shape ? *at : nullptr;
      };
      if (!part(1) || !part(2) || !part(3)) continue;
      constexpr std::array keys{"W_q", "W_k", "W_v", W_o};
      const std::array parts{first, part(1), part(2), part(3)};
      for (std::size_t n = 0; n < keys.size(); ++n)
        set(keys[n], taken(matrices_, [&](const io::Entry* entry) { return entry == parts[n]; }));
      return;
    }
  }

  /// What multiplies the results of attention and feed-forward (LayerScale).
  void take_scales() {
    for (const char* key : {W_o, "mlp.out"}) {
      if (!tensors_.contains(key)) return;
      const io::Entry* scale = taken(vectors_, [&](const io::Entry* entry) {
        const std::string name = stack_.name_in_layer(entry->name);
        return has_word(name, {"ls1", "ls2", "ls", "lambda1", "lambda2"}) ||
               name.find("layer_scale") != name.npos || name.find("gamma_") != name.npos;
      });
      if (!scale) return;
      DraftJson tensor = tensors_[key];
      if (!tensor.is_object()) tensor = {{"name", tensor}};
      tensor["times"] = stack_.name_in_layer(scale->name);
      tensors_[key] = tensor;
    }
  }

  void take_feed_forward() {
    if (matrices_.size() < 2) return;
    if (matrices_.size() > 2)
      set("mlp.up", taken(matrices_, [&](const io::Entry* entry) {
            return has_word(entry->name, {"up", "w3", "v1"});
          }));
    set("mlp.in", taken(matrices_, [&](const io::Entry* entry) {
          return matrices_.size() == 2 || has_word(entry->name, {"gate", "w1", "in", "fc1"});
        }));
    set("mlp.out", taken(matrices_, [](const io::Entry*) { return true; }));
  }

  bool is_batch_norm(const io::Entry& weight) const {
    return file_.find(weight.name.substr(0, weight.name.rfind('.') + 1) + "running_mean");
  }

  void take_norms() {
    std::erase_if(vectors_, [&](const io::Entry* entry) {
      return !is_norm_weight(entry->name) || claimed_.contains(stack_.pattern(entry->name));
    });
    if (vectors_.empty()) return;
    const io::Entry& first = *vectors_.front();
    norm_kind_ = is_batch_norm(first)                                                     ? "batch"
                 : first.name.ends_with(".a_2")                                           ? "std"
                 : first.name.ends_with("weight") && !file_.find(bias_beside(first.name)) ? "rms"
                                                                                          : "layer";
    const auto of_queries = [&](Words words, Words parts) {
      return taken(vectors_, [&](const io::Entry* entry) {
        const std::string name = stack_.name_in_layer(entry->name);
        return has_word(name, words) || speaks_of(name, parts);
      });
    };
    set_norm("q_norm", of_queries({"q"}, {"query"})),
        set_norm("k_norm", of_queries({"k"}, {"key"}));
    if (vectors_.empty()) return;
    // The feed-forward's, which may stand first: ffn.layer_norm, norm2, final_layer_norm.
    const auto is_second = [&](const io::Entry* entry) {
      const std::string name = stack_.name_in_layer(entry->name);
      return speaks_of(name, {"mlp", "ff", "feed", "intermediate", "final", "post", "norm2", "ln2",
                              "full"}) ||
             name.find("_2") != name.npos;
    };
    if (vectors_.size() > 1 && is_second(vectors_[0]) && !is_second(vectors_[1]))
      std::swap(vectors_[0], vectors_[1]);
    set_norm("norm", taken(vectors_, [](const io::Entry*) { return true; }));
    if (tensors_.contains("mlp.out"))
      set_norm("mlp.norm", taken(vectors_, [](const io::Entry*) { return true; }));
  }

  void set_norm(const char* key, const io::Entry* entry) {
    if (!entry) return;
    tensors_[key] = stack_.name_in_layer(entry->name);
    const std::string module = entry->name.substr(0, entry->name.rfind('.') + 1);
    for (const char* statistic : {"running_mean", "running_var", "num_batches_tracked"})
      claimed_.insert(stack_.pattern(module + statistic));
  }

  /// A matrix outside of the layers.
  const io::Entry* other_matrix(Words words, Words parts) {
    return taken(others_, [&](const io::Entry* entry) {
      return squeezed(entry->shape, 2).size() == 2 && !is_of_stack(entry->name) &&
             (has_word(entry->name, words) || speaks_of(entry->name, parts));
    });
  }
  /// A norm's weight outside of them.
  const io::Entry* other_norm(Words parts) {
    return taken(others_, [&](const io::Entry* entry) {
      return is_one_row(*entry) && is_norm_weight(entry->name) && !is_of_stack(entry->name) &&
             speaks_of(entry->name, {"norm", "ln"}) && speaks_of(entry->name, parts);
    });
  }

  DraftJson steps_of_embed() {
    DraftJson steps = DraftJson::array();
    const io::Entry* positions = other_matrix({"pe", "wpe"}, {"pos"});
    const io::Entry* types = other_matrix({}, {"type", "segment"});
    const auto is_map = [](const io::Entry* entry) {
      return speaks_of(entry->name, {"map", "proj", "init", "patch"});
    };
    const auto is_class = [](const io::Entry* entry) {
      return is_one_row(*entry) && speaks_of(entry->name, {"cls", "class", "dist"});
    };
    const io::Entry* map = taken(others_, [&](const io::Entry* entry) {
      return entry->shape.size() > 1 && is_map(entry) && speaks_of(entry->name, {"emb"});
    });
    const io::Entry* tokens = taken(others_, [&](const io::Entry* entry) {
      return squeezed(entry->shape, 2).size() == 2 && !is_map(entry) && !is_class(entry) &&
             (has_word(entry->name, {"wte", "lut", "luts"}) ||
              speaks_of(entry->name, {"emb", "tok", "word"}));
    });
    if (!tokens && !map) tokens = other_matrix({"encoder"}, {});
    tokens_ = tokens != nullptr;
    if (!tokens && !map) // a convolution of patches
      map = taken(others_, [](const io::Entry* entry) { return entry->shape.size() == 4; });
    if (tokens) steps.push_back({{"table", tokens->name}});
    if (tokens && tokens->shape.back() != width_ && tokens->shape.front() == width_)
      steps.back()["layout"] = "oi";
    if (map && steps.empty()) steps.push_back({{"linear", std::exchange(map, nullptr)->name}});
    while (!tokens) {
      const io::Entry* first = taken(others_, is_class);
      if (!first) break;
      steps.push_back({{"prepend", first->name}});
    }
    if (positions) steps.push_back({{"table", positions->name}, {"by", "position"}});
    if (types) steps.push_back({{"table", types->name}, {"by", "type"}});
    if (const io::Entry* norm = other_norm({"emb"});
        norm && norm->name.find("after") == norm->name.npos)
      steps.push_back({{"norm", norm->name}});
    else if (norm)
      final_ = norm->name;
    if (map) steps.push_back({{"linear", map->name}});
    return steps;
  }

  DraftJson head_of_model() {
    const io::Entry* dense = other_matrix({"dense"}, {"transform"});
    const io::Entry* norm = dense ? other_norm({"head", "transform", "predictions"}) : nullptr;
    const io::Entry* weight =
        other_matrix({"decoder", "generator", "out", "output"}, {"head", "logits", "unembed"});
    if (!weight) return nullptr;
    DraftJson head{{"name", weight->name}};
    if (weight->shape.front() == width_ && weight->shape.back() != width_) head["layout"] = "io";
    if (dense) head["dense"] = dense->name, head["activation"] = "gelu";
    if (norm) head["norm"] = norm->name;
    return head;
  }

  std::string last_norm() {
    if (final_.empty())
      if (const io::Entry* norm = other_norm({""})) final_ = norm->name;
    return final_;
  }

  /// "config:KEY" of the first key that config.json has, behind any object's name; else the value.
  DraftJson configured(Words keys, DraftJson otherwise) const {
    for (const std::string_view key : keys)
      for (const auto& [name, value] : file_.config)
        if (name == key || name.ends_with("." + std::string(key))) return "config:" + name;
    return otherwise;
  }

  DraftJson settings(bool causal) const {
    DraftJson to;
    const bool of_heads = tensors_.contains("W_q") && tensors_["W_q"].is_object();
    if (!of_heads)
      to["num_heads"] =
          configured({"num_attention_heads", "num_heads", "n_head", "n_heads", "heads", "nhead",
                      "encoder_attention_heads", "attention_heads", "enc_num_heads"},
                     "HOW MANY?");
    to["causal"] = causal; // a head behind a dense map is of masked words
    if (std::ranges::any_of(stack_.of_first, [](const io::Entry* entry) {
          return speaks_of(entry->name, {"inv_freq", "rotary", "rot", "freqs"});
        }))
      to["rope"] = "half";
    return to;
  }

  /// What no key names, layers' tensors once.
  DraftJson leftovers() const {
    const auto part_of = [](std::string_view name) { return name.substr(0, name.find('.') + 1); };
    const auto is_used = [&](std::string_view part) {
      return part.empty() || std::ranges::any_of(claimed_, [&](const std::string& name) {
               return name.starts_with(part);
             });
    };
    DraftJson list = DraftJson::array();
    std::set<std::string> once;
    for (const io::Entry& entry : file_.tensors) {
      const std::string pattern = stack_.pattern(entry.name);
      if (claimed_.contains(pattern)) continue;
      const std::string_view part = part_of(pattern);
      const std::string shown = is_used(part) ? pattern : std::string(part) + "*";
      if (once.insert(shown).second) list.push_back(shown);
    }
    return list;
  }

  const io::Contents& file_;
  NumberedStack stack_;
  std::vector<const io::Entry*> matrices_, vectors_, others_; ///< of a layer; outside of them
  std::set<std::string> claimed_;                             ///< patterns
  DraftJson tensors_ = DraftJson::object();
  std::string norm_kind_ = "layer", final_;
  std::size_t width_ = 0; ///< d_model; 0: not known
  bool tokens_ = false;   ///< there is a table of them
};

} // namespace

std::optional<std::string> draft_naming(const io::Contents& file) {
  std::optional<NumberedStack> stack = numbered_stack(file);
  if (!stack) return std::nullopt;
  return Draft(file, std::move(*stack)).text();
}

} // namespace mha
