#include <mha/load/families/config_keys.hpp>

#include <mha/files/contents.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

namespace mha::naming {

namespace {

// One list for each size. A key that means another size in some family (embedding_size,
// padded_vocab_size) is in none.
constexpr std::string_view heads[]{"num_attention_heads", "n_head", "n_heads", "num_heads",
                                   "nhead"};
constexpr std::string_view kv_heads[]{"num_key_value_heads", "num_kv_heads", "n_kv_heads",
                                      "n_head_kv", "n_key_value_heads"};
constexpr std::string_view head_width[]{"head_dim", "d_head", "d_kv", "kv_channels",
                                        "attention_head_size"};
constexpr std::string_view width[]{"hidden_size", "n_embd", "d_model", "dim"};
constexpr std::string_view layers[]{"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
constexpr std::string_view feed_forward[]{
    "intermediate_size", "n_inner", "d_mlp", "hidden_dim", "d_ff", "ffn_dim", "ffn_hidden_size"};
constexpr std::string_view vocabulary[]{"vocab_size", "d_vocab", "n_vocab"};

constexpr std::span<const std::string_view> sizes[]{heads,  kv_heads,     head_width, width,
                                                    layers, feed_forward, vocabulary};

/// The members of a section: their names after it, and their values.
std::vector<std::pair<std::string, std::string>> members_of(const Config& config,
                                                            std::string_view section) {
  std::vector<std::pair<std::string, std::string>> members;
  for (auto at = config.lower_bound(std::string(section));
       at != config.end() && at->first.starts_with(section); ++at)
    members.emplace_back(at->first.substr(section.size()), at->second);
  return members;
}

} // namespace

std::span<const std::string_view> size_spellings(std::string_view key) {
  for (const std::span<const std::string_view> size : sizes)
    if (is_one_of(key, size)) return size;
  return {};
}

void require_computed(const Group& group) {
  if (group.description) return; // it defines the meaning of its keys
  for (const auto& [key, why] : members_of(*group.config, io::refused_section))
    fail("{}: {} {}; describe the model by <naming> FILE.json<draft naming>", group.contents->name,
         key, why);
}

std::optional<std::string> name_in_file(const Group& group, std::string_view key,
                                        std::string_view value) {
  if (group.contents->format != "gguf") return std::string(key);
  const auto own = group.config->find(std::string(io::own_key_section) + std::string(key));
  if (own == group.config->end() || value == "0" || value == "false") return std::nullopt;
  return own->second;
}

std::vector<Note> doubts_of(const Group& group) {
  std::vector<Note> notes;
  for (const auto& [key, why] : members_of(*group.config, io::doubted_section))
    notes.push_back(warning(fmt::format("{}: {} {}", group.contents->name, key, why)));
  return notes;
}

std::optional<std::string> element(const std::string& list, std::size_t index) {
  if (list.starts_with('[') && list.ends_with(']')) // a list of one
    return index == 0 ? std::optional(list.substr(1, list.size() - 2)) : std::nullopt;
  const std::vector<std::string_view> elements = split_at(list, ',');
  if (index >= elements.size()) return std::nullopt;
  return std::string(elements[index]);
}

} // namespace mha::naming
