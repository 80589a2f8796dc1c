// Drafts the parts around the layers: embedding, last norm, head, settings and leftovers.

#include <mha/load/draft.hpp>

#include <mha/formats/onnx_graph.hpp>

#include <nlohmann/json.hpp>

#include <utility>

namespace mha {

namespace {

using EndsJson = nlohmann::ordered_json;

} // namespace

bool Draft::is_other_matrix(const io::Entry& entry) {
  return squeezed(entry.shape, 2).size() == 2 && !is_one_row(entry) && !is_of_stack(entry.name);
}

const io::Entry* Draft::other_matrix(WordList words, WordList parts) {
  return taken(others_, [&](const io::Entry* entry) {
    return is_other_matrix(*entry) &&
           (has_word(entry->name, words) || mentions(entry->name, parts));
  });
}

const io::Entry* Draft::other_norm(WordList parts, const Shape& widths) {
  return taken(others_, [&](const io::Entry* entry) {
    return is_one_row(*entry) &&
           (widths.empty() || std::ranges::count(widths, entry->shape.back()) > 0) &&
           is_norm_weight(entry->name) && !is_of_stack(entry->name) &&
           mentions(entry->name, {"norm", "ln"}) && mentions(entry->name, parts);
  });
}

const io::Entry* Draft::table_of_positions() {
  const auto type = file_.config.find("position_embedding_type");
  if (type != file_.config.end() && type->second != "absolute") return nullptr;
  return taken(others_, [&](const io::Entry* entry) {
    const Shape shape = squeezed(entry->shape, 2);
    return shape.size() == 2 && shape[0] > 1 && (width_ == 0 || shape[1] == width_) &&
           !is_of_stack(entry->name) &&
           (has_word(entry->name, {"pe", "wpe"}) || mentions(entry->name, {"pos"}));
  });
}

const io::Entry* Draft::norm_of_embedding() {
  const io::Entry* norm = other_norm({"emb"});
  if (norm && norm->name.find("after") != norm->name.npos)
    final_ = std::exchange(norm, nullptr)->name;
  if (norm) return norm;
  return taken(others_, [&](const io::Entry* entry) { // "ln_pre", "pre_layrnorm"
    return is_one_row(*entry) && is_norm_weight(entry->name) && has_word(entry->name, {"pre"}) &&
           !is_of_stack(entry->name) && entry->shape.back() == width_;
  });
}

std::string Draft::steps_of_embed() {
  EndsJson steps = EndsJson::array();
  const io::Entry* positions = table_of_positions();
  const io::Entry* types = other_matrix({}, {"type", "segment"});
  const auto is_map = [](const io::Entry* entry) {
    return mentions(entry->name, {"map", "proj", "init", "patch"});
  };
  const auto is_class = [](const io::Entry* entry) {
    return is_one_row(*entry) && mentions(entry->name, {"cls", "class", "dist"});
  };
  const io::Entry* map = taken(others_, [&](const io::Entry* entry) {
    return entry->shape.size() > 1 && is_map(entry) && mentions(entry->name, {"emb"});
  });
  // Where patches enter these layers, a table elsewhere belongs to another part.
  const std::string root = stack_.literal_prefix.substr(0, stack_.literal_prefix.find('.') + 1);
  const bool patches =
      (map && map->shape.size() == 4) ||
      (!stack_.towers.empty() && std::ranges::any_of(others_, [&](const io::Entry* entry) {
        return entry->shape.size() == 4 && entry->name.starts_with(root);
      }));
  const io::Entry* tokens = taken(others_, [&](const io::Entry* entry) {
    return squeezed(entry->shape, 2).size() == 2 && !is_map(entry) && !is_one_row(*entry) &&
           (!patches || entry->name.starts_with(root)) && !mentions(entry->name, {"pos"}) &&
           (has_word(entry->name, {"wte", "lut", "luts"}) ||
            mentions(entry->name, {"emb", "tok", "word"}));
  });
  if (!tokens && !map) tokens = other_matrix({"encoder"}, {});
  tokens_ = tokens != nullptr;
  if (tokens)
    words_ = tokens->shape.back() == width_ ? tokens->shape.front() : tokens->shape.back();
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
  positions_ = positions != nullptr;
  if (positions) steps.push_back({{"table", positions->name}, {"by", "position"}});
  // OPT and BART have more rows than positions: the first ones belong to no token.
  const auto most = file_.config.find("max_position_embeddings");
  if (const std::size_t rows = positions ? squeezed(positions->shape, 2)[0] : 0;
      rows > 0 && most != file_.config.end())
    for (std::size_t first = 1; first <= 4; ++first)
      if (std::to_string(rows - std::min(rows, first)) == most->second)
        steps.back()["first"] = first;
  if (types) steps.push_back({{"table", types->name}, {"by", "type"}});
  const io::Entry* norm = norm_of_embedding();
  if (norm) steps.push_back({{"norm", EndsJson::parse(norm_named(norm->name, norm->name))}});
  if (map) steps.push_back({{"linear", map->name}});
  return steps.dump();
}

const io::Entry* Draft::head_weight() {
  // A square map of the stream is not a head.
  const auto is_square = [&](const io::Entry* entry) {
    return squeezed(entry->shape, 2) == Shape{width_, width_} && words_ != width_;
  };
  const auto is_head = [&](const io::Entry* entry) {
    return is_other_matrix(*entry) && !is_square(entry) && !is_buffer(*entry) &&
           (has_word(entry->name, {"decoder", "generator", "out", "output"}) ||
            mentions(entry->name, {"head", "logits", "unembed"}));
  };
  if (const io::Entry* named = taken(others_, is_head)) return named;
  return taken(others_, [&](const io::Entry* entry) {
    const Shape shape = squeezed(entry->shape, 2);
    return tokens_ && (shape == Shape{words_, width_} || shape == Shape{width_, words_});
  });
}

std::string Draft::head_of_model() {
  if (stack_.is_read_by_decoder()) return "null";
  const io::Entry* dense = taken(others_, [](const io::Entry* entry) {
    return is_other_matrix(*entry) && !mentions(entry->name, {"pool"}) &&
           has_word(entry->name, {"dense", "transform"});
  });
  const io::Entry* norm =
      dense ? other_norm({"head", "transform", "predictions"}, squeezed(dense->shape, 2)) : nullptr;
  const io::Entry* weight = head_weight();
  if (!weight) return tokens_ && predicts_next() ? R"({"tied": true})" : "null";
  EndsJson head{{"name", weight->name}};
  if (weight->shape.front() == width_ && weight->shape.back() != width_) head["layout"] = "io";
  const std::size_t words = head.contains("layout") ? weight->shape.back() : weight->shape.front();
  if (!file_.find(bias_beside(weight->name)))
    if (const io::Entry* bias = taken(others_, [&](const io::Entry* entry) {
          if (entry->shape != Shape{words} || !entry->name.ends_with("bias")) return false;
          const std::string of = entry->name.substr(0, entry->name.size() - 4) + "weight";
          return file_.find(of) == nullptr; // else it is that weight's
        }))
      head["bias"] = bias->name;
  if (dense) head["dense"] = dense->name, head["activation"] = "gelu";
  if (norm) head["norm"] = EndsJson::parse(norm_named(norm->name, norm->name));
  return head.dump();
}

void Draft::sort_others() {
  std::ranges::stable_sort(others_, std::ranges::greater(),
                           [&](const io::Entry* entry) { return stack_.nearness(entry->name); });
}

std::string Draft::last_norm() {
  if (!final_.empty()) return final_;
  // Of several, the one nearest to the layers: "encoder.norm", not "pool_norm".
  sort_others();
  if (const io::Entry* norm = other_norm({""}, width_ > 0 ? Shape{width_} : Shape()))
    final_ = norm->name;
  return final_;
}

const std::pair<const std::string, std::string>*
Draft::config_of_layers(std::string_view key) const {
  for (auto at = file_.config.lower_bound(stack_.literal_prefix);
       at != file_.config.end() && at->first.starts_with(stack_.literal_prefix); ++at)
    if (at->first.ends_with("." + std::string(key))) return &*at;
  return nullptr;
}

bool Draft::predicts_next() const {
  const auto made = file_.config.find("architectures");
  // In a model of several parts the class's name is about the text's part or the decoder.
  const bool is_named = stack_.parts.empty() || (stack_.part != "image" && stack_.part != "audio" &&
                                                 stack_.part != "encoder");
  for (const char* kind : {"CausalLM", "LMHead"})
    if (is_named && made != file_.config.end() && made->second.find(kind) != std::string::npos)
      return true;
  return std::ranges::any_of(file_.tensors, [&](const io::Entry& entry) {
    const Shape shape = squeezed(entry.shape, 2);
    return has_word(entry.name, {"mask", "tril", "causal"}) && shape.size() == 2 &&
           shape[0] == shape[1] && shape[0] > 1 && stack_.other_tower(entry.name).empty();
  });
}

bool Draft::is_other_module(std::string_view object) const {
  const std::string module = std::string(object) + ".";
  return !stack_.literal_prefix.starts_with(module) &&
         std::ranges::any_of(
             file_.tensors, [&](const io::Entry& entry) { return entry.name.starts_with(module); });
}

std::string Draft::key_of_part(std::string_view key) const {
  const std::string ending = "." + std::string(key);
  // One part's file may have a config.json of several: with a table of tokens it is the text's.
  const std::string_view part = !stack_.part.empty() ? stack_.part : tokens_ ? "text" : "";
  const std::pair<const std::string, std::string>* found = nullptr;
  bool differ = false;
  for (const auto& member : file_.config) {
    if (!member.first.ends_with(ending)) continue;
    const std::string object = member.first.substr(0, member.first.size() - ending.size());
    if (stack_.is_of_other_part(object) || is_other_module(object)) continue;
    if (!part.empty() && part_of_model(object) == part) return member.first;
    differ = differ || (found && found->second != member.second);
    if (!found) found = &member;
  }
  return found && !differ ? found->first : "";
}

std::string Draft::configured(WordList keys, std::string otherwise, std::string_view near) const {
  const auto from = [](const std::string& key) { return EndsJson("config:" + key).dump(); };
  for (std::size_t dot = near.rfind('.'); dot != near.npos && dot >= stack_.literal_prefix.size();
       dot = near.rfind('.', dot - 1))
    for (const std::string_view key : keys)
      if (const std::string own = fmt::format("{}.{}", near.substr(0, dot), key);
          file_.config.contains(own))
        return from(own);
  for (const std::string_view key : keys)
    if (const auto* own = config_of_layers(key)) return from(own->first);
  for (const std::string_view key : keys)
    if (file_.config.contains(std::string(key))) return from(std::string(key));
  for (const std::string_view key : keys)
    if (const std::string of_part = key_of_part(key); !of_part.empty()) return from(of_part);
  return otherwise;
}

std::string Draft::norm_named(const std::string& tensor, const std::string& stored) const {
  const auto own = file_.config.find(tensor.substr(0, tensor.rfind('.')) + ".eps");
  const auto* const usual = config_of_layers("eps");
  if (own == file_.config.end() || (usual && usual->second == own->second))
    return EndsJson(stored).dump();
  return EndsJson{{"weight", stored}, {"eps", "config:" + own->first}}.dump();
}

std::string Draft::settings(bool causal) const {
  constexpr const char* unknown = "\"HOW MANY?\"";
  EndsJson to;
  const bool of_heads = tensors_.find("W_q").starts_with('{');
  if (heads_ > 0)
    to["num_heads"] = heads_;
  else if (!of_heads)
    to["num_heads"] = EndsJson::parse(
        configured({"num_attention_heads", "num_heads", "n_head", "n_heads", "heads", "nhead",
                    "encoder_attention_heads", "attention_heads", "enc_num_heads",
                    stack_.literal_prefix.find("decoder") == std::string::npos ? "n_audio_head"
                                                                               : "n_text_head"},
                   unknown, attention_ ? attention_->name : ""));
  if (shares_keys_)
    to["num_kv_heads"] = EndsJson::parse(configured({"num_key_value_heads", "n_kv_heads"}, unknown,
                                                    attention_ ? attention_->name : ""));
  to["causal"] = causal; // a head after a dense map predicts masked words
  const auto is_any = [&](WordList words, WordList parts) {
    return std::ranges::any_of(file_.tensors, [&](const io::Entry& entry) {
      return stack_.other_tower(entry.name).empty() && !stack_.is_of_other_part(entry.name) &&
             (has_word(entry.name, words) || mentions(entry.name, parts));
    });
  };
  if (is_any({"rot", "rope", "freq", "freqs"}, {"rotary"}))
    to["rope"] = "half";
  else if (tokens_ && !positions_ && !is_any({"rel", "slopes"}, {"relative", "alibi", "distance"}))
    to["rope"] = "HALF, INTERLEAVED OR NONE?"; // the tokens' positions must enter somewhere
  if (const std::string base = configured({"rope_theta", "rotary_emb_base"}, "");
      to.contains("rope") && !base.empty())
    to["rope_base"] = EndsJson::parse(base);
  return to.dump();
}

bool Draft::is_buffer(const io::Entry& entry) {
  return !is_floating(entry.dtype) ||
         has_word(entry.name, {"mask", "masked", "tril", "version", "freq", "freqs", "cached"});
}

std::vector<std::string> Draft::leftovers() const {
  const auto part_of = [](std::string_view name) { return name.substr(0, name.find('.') + 1); };
  const auto is_used = [&](std::string_view part) {
    return part.empty() || std::ranges::any_of(claimed_, [&](const std::string& name) {
             return name.starts_with(part);
           });
  };
  std::vector<std::string> list;
  std::set<std::string> once;
  for (const io::Entry& entry : file_.tensors) {
    const std::string pattern = stack_.pattern(entry.name);
    if (claimed_.contains(pattern) || (file_.graph && !file_.graph->is_of_module(entry))) continue;
    const std::string_view tower = stack_.other_tower(entry.name),
                           part = tower.empty() ? part_of(pattern) : tower;
    const bool used = tower.empty() && is_used(part);
    if (used && !is_buffer(entry)) continue;
    const std::string shown = used ? pattern : std::string(part) + "*";
    if (once.insert(shown).second) list.push_back(shown);
  }
  return list;
}

} // namespace mha
