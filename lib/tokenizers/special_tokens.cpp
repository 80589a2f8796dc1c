#include <mha/tokenizers/special_tokens.hpp>

#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/tokenizer_files.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace mha::tokenizers {

namespace {

std::optional<int> id_of(const Pipeline& parts, const std::string& piece) {
  if (const AddedToken* token = parts.added->find(piece)) return token->id;
  return parts.model->vocabulary().id_of(piece);
}

bool is_token(const Pipeline& parts, int id) {
  return parts.added->find(id) || parts.model->vocabulary().piece_of(id);
}

/// The names of special tokens, in the order in which new ones get their ids.
constexpr std::string_view special_names[]{"bos_token", "eos_token", "unk_token", "sep_token",
                                           "pad_token", "cls_token", "mask_token"};
/// Lists of further special tokens, or objects with names of their own.
constexpr std::string_view lists[]{"additional_special_tokens", "extra_special_tokens"};

/// A token in a file, with the id that the file gives it.
struct Named {
  AddedToken token;
  std::optional<int> id;
  std::string file; ///< for messages
};

/// "<s>", or {"content": "<s>", "lstrip": false, …}.
AddedToken read_named(const JsonNode& node, const std::string& what) {
  AddedToken token;
  if (node.is_string()) {
    token.content = node.text(what);
    return token;
  }
  Fields fields(node, what);
  fields.ignore({"__type"});
  token.content = fields.text("content", "");
  token.single_word = fields.boolean("single_word", false);
  token.lstrip = fields.boolean("lstrip", false);
  token.rstrip = fields.boolean("rstrip", false);
  token.special = fields.boolean("special", false);
  token.normalized = fields.boolean("normalized", !token.special);
  return token;
}

/// Classes of Transformers that make their template from add_bos_token and add_eos_token.
constexpr std::string_view of_llama[]{
    "LlamaTokenizer",  "LlamaTokenizerFast",  "GemmaTokenizer",     "GemmaTokenizerFast",
    "CohereTokenizer", "CohereTokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast"};

/// FileSettings of all files, by name; the file that is read first wins.
class FileSettings {
public:
  void read(const std::string& folder, const std::string& name) {
    const auto bytes = read_file_of(folder, name);
    if (!bytes) return;
    JsonDocument json(io::shown(bytes->name), bytes->text(), JsonWords::pythons);
    for (const auto& [key, value] : JsonNode::root(json).members("the file"))
      read(name, key, value);
  }
  /// Reads {"<tool>": 50257}, which older files have instead of tokens in tokenizer_config.json.
  void read_added(const std::string& folder) {
    constexpr const char* name = "added_tokens.json";
    const auto bytes = read_file_of(folder, name);
    if (!bytes || has_decoder_) return;
    JsonDocument json(io::shown(bytes->name), bytes->text(), JsonWords::pythons);
    JsonNode::root(json).each_member("the file", [&](std::string_view key, const JsonNode& value) {
      AddedToken token;
      token.content = key;
      token.normalized = true;
      added.push_back({token, value.integer("a token's number", most_id), name});
    });
  }
  std::optional<bool> add_bos, add_eos;
  std::string family;                        ///< tokenizer_class
  std::map<std::string, std::string> pieces; ///< "bos_token" → "<s>"
  std::map<std::string, int> ids;            ///< "bos_token_id" → 1
  std::map<std::string, AddedToken> special; ///< "bos_token" → its token
  std::vector<AddedToken> more;              ///< from the lists
  std::vector<Named> added;                  ///< with their ids

private:
  void read(const std::string& file, const std::string& key, const JsonNode& value) {
    if (value.is_null()) return;
    const bool config = file == "config.json", own = file == "tokenizer_config.json";
    if (own && (key == "add_bos_token" || key == "add_eos_token"))
      (key == "add_bos_token" ? add_bos : add_eos) = value.boolean(key);
    if (own && key == "tokenizer_class") family = value.text(key);
    if (config && (key == "bos_token_id" || key == "eos_token_id") && value.is_number())
      ids.emplace(key, value.integer(key, most_id));
    if (config) return;
    if (is_one_of(key, special_names)) {
      const AddedToken token = read_named(value, key);
      pieces.emplace(key, token.content);
      special.emplace(key, token);
    }
    if (is_one_of(key, lists)) read_list(key, value);
    if (own && key == "added_tokens_decoder") read_decoder(value);
  }

  void read_list(const std::string& key, const JsonNode& value) {
    if (value.is_object())
      value.each_member(key, [&](std::string_view, const JsonNode& node) {
        more.push_back(read_named(node, key));
      });
    else
      value.each_element(key, [&](const JsonNode& node) { more.push_back(read_named(node, key)); });
  }

  /// {"50257": {"content": "<tool>", …}}.
  void read_decoder(const JsonNode& value) {
    has_decoder_ = true;
    value.each_member("added_tokens_decoder", [&](std::string_view key, const JsonNode& node) {
      const std::optional<int> id = parse_number<int>(key);
      if (!id || *id < 0 || *id > most_id)
        node.refuse(fmt::format("'{}' is not a token's number", io::shown(key)));
      added.push_back(
          {read_named(node, "a token of added_tokens_decoder"), *id, "tokenizer_config.json"});
    });
  }

  bool has_decoder_ = false;
};

/// Adds the tokens that the files name and the tokenizer lacks, with the id of their piece, or else
/// the id that the files give, or else the next one. Two tokens with one id are an error.
void add_named(const FileSettings& settings, Pipeline& parts) {
  std::vector<Named> wanted = settings.added;
  std::ranges::stable_sort(wanted, {}, [](const Named& named) { return named.id.value_or(0); });
  std::set<std::string_view> special;
  for (const auto& [name, token] : settings.special) special.insert(token.content);
  for (const AddedToken& token : settings.more) special.insert(token.content);
  for (const std::string_view name : special_names)
    if (const auto found = settings.special.find(std::string(name));
        found != settings.special.end())
      wanted.push_back({found->second, std::nullopt, std::string(name)});
  for (const AddedToken& token : settings.more) wanted.push_back({token, std::nullopt, "a list"});

  std::vector<AddedToken> tokens = parts.added->tokens();
  std::set<std::string> known;
  std::map<int, std::string> by_id;
  for (const AddedToken& token : tokens)
    known.insert(token.content), by_id.emplace(token.id, token.content);
  const Vocabulary& vocabulary = parts.model->vocabulary();
  int next = std::max(vocabulary.size(), by_id.empty() ? 0 : by_id.rbegin()->first + 1);
  bool changed = false;
  std::map<std::string, int> given; // ids that the files give to tokens
  for (Named& named : wanted) {
    AddedToken& token = named.token;
    if (token.content.empty()) continue;
    const auto piece = id_of(parts, token.content);
    if (named.id && piece && *piece != *named.id)
      fail("{}: {} gives the token '{}' the number {}, which is {} here", io::shown(parts.name),
           named.file, io::shown(token.content), *named.id, *piece);
    if (const auto [first, is_new] = given.emplace(token.content, named.id.value_or(-1));
        named.id && !is_new && first->second != *named.id)
      fail("{}: {} gives the token '{}' the number {}, and before it {}", io::shown(parts.name),
           named.file, io::shown(token.content), *named.id, first->second);
    if (!known.insert(token.content).second) continue;
    token.id = piece ? *piece : named.id ? *named.id : next;
    if (!named.id || special.contains(token.content))
      token.special = true, token.normalized = named.id ? token.normalized : false;
    const auto other = piece ? std::nullopt : vocabulary.piece_of(token.id);
    const auto [taken, is_new] = by_id.emplace(token.id, token.content);
    if (other || !is_new)
      fail("{}: {} gives the token '{}' the number {}, which is that of '{}'",
           io::shown(parts.name), named.file, io::shown(token.content), token.id,
           io::shown(other ? *other : std::string_view(taken->second)));
    next = std::max(next, token.id + 1);
    tokens.push_back(token);
    changed = true;
  }
  if (changed) parts.added.emplace(std::move(tokens), parts.normalizer);
}

/// The token with a name such as "bos", by its piece or else by config.json's id.
std::optional<int> token(const Pipeline& parts, const FileSettings& settings,
                         const std::string& name) {
  if (const auto piece = settings.pieces.find(name + "_token"); piece != settings.pieces.end())
    if (const auto id = id_of(parts, piece->second)) return id;
  const auto id = settings.ids.find(name + "_token_id");
  if (id == settings.ids.end() || !is_token(parts, id->second)) return std::nullopt;
  return id->second;
}

TokenTemplate with(TokenTemplate post_template, std::optional<int> id, bool wanted, bool first) {
  const bool is_present =
      !post_template.empty() && (first ? post_template.front() : post_template.back()) == id && id;
  if (is_present == wanted || !id) return post_template;
  const auto place = first        ? post_template.begin()
                     : is_present ? post_template.end() - 1
                                  : post_template.end();
  if (is_present)
    post_template.erase(place);
  else
    post_template.insert(place, id);
  return post_template;
}

void follow(Pipeline& parts, const FileSettings& settings, std::optional<bool> add, bool first) {
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
  const TokenTemplate before = parts.post_template;
  parts.post_template = with(std::move(parts.post_template), id, *add, first);
  // Classes that make their own template do this regularly.
  if (parts.post_template != before && !is_one_of(settings.family, of_llama))
    parts.notes.emplace_back(
        fmt::format("tokenizer_config.json has add_{}_token {}, the tokenizer's own template "
                    "{}: the first counts",
                    name, *add ? "true" : "false", *add ? "adds none" : "adds one"));
}

} // namespace

void read_special_tokens(const std::string& folder, Pipeline& parts) {
  FileSettings settings;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "config.json"})
    settings.read(folder, name);
  settings.read_added(folder);
  add_named(settings, parts);
  parts.bos = token(parts, settings, "bos");
  parts.eos = token(parts, settings, "eos");
  parts.mask = token(parts, settings, "mask");
  for (const char* usual : {"[MASK]", "<mask>"})
    if (!parts.mask) parts.mask = id_of(parts, usual);
  follow(parts, settings, settings.add_bos, true);
  follow(parts, settings, settings.add_eos, false);
}

TokenTemplate with_bos(const Pipeline& parts, bool wanted) {
  // If no file names BOS, it is the first token of the template.
  std::optional<int> bos = parts.bos;
  if (!bos && !parts.post_template.empty()) bos = parts.post_template.front();
  if (!bos && wanted)
    fail("{}: which token is BOS is not known: no bos_token in tokenizer_config.json, no "
         "bos_token_id in config.json; write it into the text",
         io::shown(parts.name));
  return with(parts.post_template, bos, wanted, true);
}

} // namespace mha::tokenizers
