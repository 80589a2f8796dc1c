#include <mha/load/tokenizers/special_tokens.hpp>

#include <mha/load/tokenizers/fields.hpp>
#include <mha/load/tokenizers/tokenizer_files.hpp>

#include <mha/files/text.hpp>

#include <map>

namespace mha::tokenizers {

namespace {

std::optional<int> id_of(const Pipeline& parts, const std::string& piece) {
  if (const AddedToken* token = parts.added->find(piece)) return token->id;
  return parts.model->vocabulary().id_of(piece);
}

bool is_token(const Pipeline& parts, int id) {
  return parts.added->find(id) || parts.model->vocabulary().piece_of(id);
}

/// Settings of the files, by name; the file read first counts.
class Settings {
public:
  void read(const std::string& folder, const std::string& name) {
    const auto bytes = read_file_of(folder, name);
    if (!bytes) return;
    JsonText json(io::shown(bytes->name), bytes->text());
    for (const auto& [key, value] : JsonNode::root(json).members("the file"))
      read(name, key, value);
  }
  std::optional<bool> add_bos, add_eos;
  std::map<std::string, std::string> pieces; ///< "bos_token" → "<s>"
  std::map<std::string, int> ids;            ///< "bos_token_id" → 1

private:
  void read(const std::string& file, const std::string& key, const JsonNode& value) {
    const bool names = key == "bos_token" || key == "eos_token" || key == "mask_token";
    if (value.is_null()) return;
    if (file == "tokenizer_config.json" && (key == "add_bos_token" || key == "add_eos_token"))
      (key == "add_bos_token" ? add_bos : add_eos) = value.boolean(key);
    if (file == "config.json" && (key == "bos_token_id" || key == "eos_token_id") &&
        value.is_number())
      ids.emplace(key, value.integer(key, most_id));
    if (file == "config.json" || !names) return;
    // "<s>", or {"content": "<s>", …}.
    if (value.is_string()) {
      pieces.emplace(key, value.text(key));
      return;
    }
    for (const auto& [part, text] : value.members(key))
      if (part == "content") pieces.emplace(key, text.text(key));
  }
};

/// The token of a name such as "bos": by its piece, else by config.json's number.
std::optional<int> token(const Pipeline& parts, const Settings& settings, const std::string& name) {
  if (const auto piece = settings.pieces.find(name + "_token"); piece != settings.pieces.end())
    if (const auto id = id_of(parts, piece->second)) return id;
  const auto id = settings.ids.find(name + "_token_id");
  if (id == settings.ids.end() || !is_token(parts, id->second)) return std::nullopt;
  return id->second;
}

Frame with(Frame frame, std::optional<int> id, bool wanted, bool first) {
  const bool there = !frame.empty() && (first ? frame.front() : frame.back()) == id && id;
  if (there == wanted || !id) return frame;
  const auto place = first ? frame.begin() : there ? frame.end() - 1 : frame.end();
  if (there)
    frame.erase(place);
  else
    frame.insert(place, id);
  return frame;
}

void follow(Pipeline& parts, const Settings& settings, std::optional<bool> add, bool first) {
  if (!add) return;
  const std::optional<int> id = first ? parts.bos : parts.eos;
  const char* name = first ? "bos" : "eos";
  if (*add && !id) {
    const auto piece = settings.pieces.find(fmt::format("{}_token", name));
    fail("{}: tokenizer_config.json has add_{}_token, but {}; set add_{}_token to false, or name a "
         "{}_token of the vocabulary",
         io::shown(parts.name), name,
         piece == settings.pieces.end() ? fmt::format("no {}_token is named", name)
                                        : fmt::format("its {}_token '{}' is not in the vocabulary",
                                                      name, io::shown(piece->second)),
         name, name);
  }
  parts.frame = with(std::move(parts.frame), id, *add, first);
}

} // namespace

void read_special_tokens(const std::string& folder, Pipeline& parts) {
  Settings settings;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "config.json"})
    settings.read(folder, name);
  parts.bos = token(parts, settings, "bos");
  parts.eos = token(parts, settings, "eos");
  parts.mask = token(parts, settings, "mask");
  for (const char* usual : {"[MASK]", "<mask>"})
    if (!parts.mask) parts.mask = id_of(parts, usual);
  follow(parts, settings, settings.add_bos, true);
  follow(parts, settings, settings.add_eos, false);
}

Frame with_bos(const Pipeline& parts, bool wanted) {
  // Where no file names it, what opens the frame is it.
  std::optional<int> bos = parts.bos;
  if (!bos && !parts.frame.empty()) bos = parts.frame.front();
  if (!bos && wanted)
    fail("{}: which token is BOS is not known: no bos_token in tokenizer_config.json, no "
         "bos_token_id in config.json; write it into the text",
         io::shown(parts.name));
  return with(parts.frame, bos, wanted, true);
}

} // namespace mha::tokenizers
