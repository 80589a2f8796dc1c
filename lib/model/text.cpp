#include <mha/model/text.hpp>

#include <mha/files/bytes.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/system/error.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>
#include <mha/tokenizers/tokenizer.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace mha {

bool Text::given() const {
  const bool cut = !texts.empty() || !files.empty(), with_bos = special.bos.value_or(false);
  if (each_line && files.empty())
    fail("<each_line> is for the lines of a <text_file>: without one it changes nothing; leave it "
         "out, or give the text in a file");
  if (special.none && with_bos)
    fail("<bos> and <special false> contradict each other: the one adds what the other leaves out; "
         "remove one of them");
  if (!cut && (special.none || special.bos))
    fail("{} changes nothing: {}; leave it out, or give <text>",
         special.none ? message("<special false>")
         : with_bos   ? message("<bos>")
                      : message("<bos false>"),
         ids.empty() ? "there is no text to cut" : message("<ids> are tokens already"));
  return cut || !ids.empty() || !rows.empty();
}

namespace {

bool is_file(const std::string& text) {
  return text == "-" || text.find_first_not_of("0123456789, \t\n-") != std::string::npos;
}

std::vector<int> typed_ids(const std::string& text) {
  std::vector<int> ids;
  std::string_view rest = text;
  const auto skip_blanks = [&] {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n"), rest.size()));
  };
  while (true) {
    skip_blanks();
    const std::optional<int> id = take_number<int>(rest);
    if (!id || *id < 0)
      fail("<ids> is '{}': token numbers separated by commas expected, such as 464,2068, or a file",
           text);
    ids.push_back(*id);
    skip_blanks();
    if (rest.empty()) return ids;
    if (rest[0] != ',') fail("<ids> is '{}': token numbers separated by commas expected", text);
    rest.remove_prefix(1);
  }
}

/// Tensors that a tokenizer, or `dump`, writes beside the numbers.
constexpr std::string_view mask_name = "attention_mask", types_name = "token_type_ids",
                           positions_name = "position_ids", lengths_name = "lengths";
constexpr std::string_view beside_ids[]{mask_name, types_name, positions_name, lengths_name};

/// Other names of masks. They are refused, since the tokens that they hide would not be hidden.
constexpr std::string_view other_masks[]{
    "mask",       "padding_mask", "key_padding_mask",    "attn_mask",
    "block_mask", "pad_mask",     "src_key_padding_mask"};

/// Other inputs of a model's call, which would change its numbers.
constexpr std::string_view other_inputs[]{"inputs_embeds",
                                          "past_key_values",
                                          "encoder_hidden_states",
                                          "encoder_outputs",
                                          "encoder_attention_mask",
                                          "decoder_input_ids",
                                          "decoder_attention_mask",
                                          "decoder_inputs_embeds",
                                          "head_mask",
                                          "cross_attn_head_mask",
                                          "global_attention_mask",
                                          "pixel_values",
                                          "input_features",
                                          "input_values",
                                          "bbox",
                                          "langs"};

/// The tensor `input_ids`, or the one with that name after a prefix, as in SGLang's dumps:
/// "model.forward_batch_info.input_ids". Null: none, or several.
const io::Entry* input_ids_of(const io::Contents& file) {
  if (const io::Entry* own = file.find("input_ids")) return own;
  const io::Entry* found = nullptr;
  for (const io::Entry& entry : file.tensors)
    if (last_part(entry.name) == "input_ids") {
      if (found) return nullptr;
      found = &entry;
    }
  return found;
}

/// The tensor of a file that holds the numbers: `ids`, `input_ids`, or the only one beside a mask.
const io::Entry& ids_of(const io::Contents& file) {
  const io::Entry *const ids = file.find("ids"), *const input_ids = input_ids_of(file);
  if (ids && input_ids) fail("<ids> {}: holds ids and input_ids: remove one of them", file.name);
  if (ids || input_ids) return ids ? *ids : *input_ids;
  const io::Entry* only = nullptr;
  for (const io::Entry& entry : file.tensors)
    if (!is_one_of(entry.name, beside_ids)) {
      if (only) fail("<ids> {}: holds several tensors, none is called ids", file.name);
      only = &entry;
    }
  if (!only) fail("<ids> {}: holds no list of token numbers: (T) or (B, T) expected", file.name);
  return *only;
}

/// Throws Error for masks by another name, and for segments and positions that are not computed
/// here. Positions count from a text's first token, `before[b]` numbers after the row's beginning;
/// those of padding do not matter.
void require_plain(const io::Contents& file, const std::string& path,
                   const std::vector<std::vector<int>>& texts,
                   const std::vector<std::size_t>& before, std::size_t T) {
  for (const io::Entry& entry : file.tensors) {
    if (is_one_of(entry.name, other_masks))
      fail("<ids> {}: '{}' is not read beside ids: padding is marked by attention_mask, 1 for a "
           "token "
           "and 0 for padding",
           path, entry.name);
    if (is_one_of(entry.name, other_inputs))
      fail("<ids> {}: '{}' is not read beside ids, and a model that takes it has other numbers; "
           "leave it out to compute without",
           path, entry.name);
    if (!is_one_of(entry.name, beside_ids)) {
      if (const std::string meant = closest(entry.name, beside_ids); !meant.empty())
        fail("<ids> {}: '{}' is not a name here; did you mean '{}'?", path, entry.name, meant);
      continue;
    }
    if (entry.name == mask_name || entry.name == lengths_name) continue;
    const Tensor tensor = entry.read();
    for (std::size_t i = 0; i < tensor.count(); ++i) {
      const double value = value_at(tensor, i);
      const std::size_t b = i / T % before.size(), t = i % T;
      if (t < before[b] || t >= before[b] + texts[b].size()) continue;
      if (entry.name == types_name && value != 0)
        fail("<ids> {}: token_type_ids has segment {}: every token is of segment 0 here; leave "
             "token_type_ids out to compute it so",
             path, value);
      if (entry.name == positions_name && value != static_cast<double>(t - before[b]))
        fail("<ids> {}: position_ids has {} for token {}: tokens are at 0, 1, 2 … here; leave "
             "position_ids out to compute it so",
             path, value, t - before[b]);
    }
  }
}

int whole(const Tensor& tensor, std::size_t i, const std::string& name) {
  const double value = value_at(tensor, i);
  if (value != std::floor(value) || value < 0 || value > std::numeric_limits<int>::max())
    fail("<ids> {}: number {} is {}: a token's number expected", name, i,
         std::isnan(value) ? std::string("null or NaN") : fmt::format("{}", value));
  return static_cast<int>(value);
}

/// The number of tokens of each text, where a file of B texts of T numbers has `lengths`; else
/// empty.
std::vector<std::size_t> lengths_in(const io::Contents& file, const std::string& path,
                                    std::size_t B, std::size_t T) {
  const io::Entry* entry = file.find(lengths_name);
  if (!entry) return {};
  const Tensor tensor = entry->read();
  if (tensor.count() != B)
    fail("<ids> {}: lengths is {}: a number for each of {} texts expected", path,
         to_string(tensor.shape()), B);
  std::vector<std::size_t> lengths;
  for (std::size_t b = 0; b < B; ++b) {
    const double value = value_at(tensor, b);
    if (value != std::floor(value) || value < 0 || value > static_cast<double>(T))
      fail("<ids> {}: lengths has {} for text {}: 0 to {} expected", path, value, b, T);
    lengths.push_back(static_cast<std::size_t>(value));
  }
  return lengths;
}

/// Texts of a file, without their padding; `before` gets the padding before each.
std::vector<std::vector<int>> ids_in_file(const std::string& path, bool& batched,
                                          std::vector<std::size_t>& before) {
  const io::Contents file = io::open(path, {.token_lines = true});
  const io::Entry& entry = ids_of(file);
  if (entry.dtype == DType::boolean)
    fail("<ids> {}: {} holds true and false: token numbers expected", path, entry.name);
  const Tensor ids = entry.read();
  if (ids.rank() != 1 && ids.rank() != 2)
    fail("<ids> {}: {} is {}: T or B × T expected", path, entry.name, to_string(ids.shape()));
  const std::size_t T = ids.shape().back(), B = ids.rank() == 2 ? ids.shape()[0] : 1;
  batched = batched || ids.rank() == 2;
  Tensor mask;
  if (const io::Entry* mask_entry = file.find(mask_name)) {
    mask = mask_entry->read();
    if (mask.shape() != ids.shape())
      fail("<ids> {}: attention_mask is {}, but {} is {}", path, to_string(mask.shape()),
           entry.name, to_string(ids.shape()));
    for (std::size_t i = 0; i < mask.count(); ++i)
      if (const double value = value_at(mask, i); value != 0 && value != 1)
        fail("<ids> {}: attention_mask has {}: 1 for a token and 0 for padding expected", path,
             value);
  }
  std::vector<std::vector<int>> texts(B);
  before.assign(B, 0);
  const std::vector<std::size_t> lengths = lengths_in(file, path, B, T);
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t t = 0; t < (lengths.empty() ? T : lengths[b]); ++t) {
      if (!mask.empty() && value_at(mask, b * T + t) == 0) continue;
      if (texts[b].empty()) before[b] = t;
      if (before[b] + texts[b].size() != t)
        fail("<ids> {}: text {} has padding between its tokens: it is read before the first and "
             "after the last",
             path, b);
      texts[b].push_back(whole(ids, b * T + t, path));
    }
  if (T > 0) require_plain(file, path, texts, before, T);
  return texts;
}

/// Every vector of a batch is computed, at its own place. Throws Error for tensors beside them that
/// contradict this.
void require_plain_rows(const io::Contents& file, const std::string& path, std::size_t T) {
  for (const io::Entry& entry : file.tensors) {
    if (is_one_of(entry.name, other_masks) ||
        (entry.name != "inputs_embeds" && is_one_of(entry.name, other_inputs)))
      fail("<inputs_embeds> {}: '{}' is not read beside vectors; leave it out to compute without",
           path, entry.name);
    if (!is_one_of(entry.name, beside_ids)) continue;
    const Tensor tensor = entry.read();
    for (std::size_t i = 0; i < tensor.count(); ++i) {
      const double expected = entry.name == mask_name        ? 1
                              : entry.name == types_name     ? 0
                              : entry.name == positions_name ? static_cast<double>(i % T)
                                                             : static_cast<double>(T);
      if (value_at(tensor, i) != expected)
        fail("<inputs_embeds> {}: {} has {}, and every vector is a token of segment 0 here, at 0, "
             "1, 2 … of its text; give each text its own vectors alone, without {}",
             path, entry.name, value_at(tensor, i), entry.name);
    }
  }
}

} // namespace

Tensor read_embedding_rows(const std::string& path, std::size_t width) {
  const io::Contents file = io::open(path);
  const io::Entry* entry = file.find("inputs_embeds");
  if (!entry && file.tensors.size() == 1) entry = &file.tensors[0];
  if (!entry)
    fail("<inputs_embeds> {}: {}, none is called inputs_embeds", path,
         counted(file.tensors.size(), "tensors"));
  const Shape& shape = entry->shape;
  if ((shape.size() != 2 && shape.size() != 3) || count_of(shape) == 0)
    fail("<inputs_embeds> {}: {} is {}: T × {} or B × T × {} expected", path, entry->name,
         to_string(shape), width, width);
  if (shape.back() != width)
    fail("<inputs_embeds> {}: {} is {}: vectors of {} expected, which enter the embedding", path,
         entry->name, to_string(shape), counted(width, "numbers"));
  if (!is_floating(entry->dtype))
    fail("<inputs_embeds> {}: {} is {}: floating-point numbers expected; token numbers are <ids>",
         path, entry->name, name_of(entry->dtype));
  const std::size_t tokens = count_of(shape) / width;
  if (tokens > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    fail("<inputs_embeds> {}: {} tokens: too many", path, tokens);
  require_plain_rows(file, path, shape[shape.size() - 2]);
  return entry->read();
}

TokenIds padded(std::vector<std::vector<int>> texts, bool batched, int pad) {
  TokenIds ids;
  std::size_t longest = 0;
  for (const auto& text : texts) longest = std::max(longest, text.size());
  for (auto& text : texts) {
    ids.lengths.push_back(text.size());
    text.resize(longest, pad);
  }
  ids.ids = std::move(texts), ids.batched = batched;
  return ids;
}

TokenIds read_ids(const std::vector<std::string>& typed, int pad) {
  std::vector<std::vector<int>> texts;
  bool batched = typed.size() > 1;
  std::vector<Message> notes;
  for (const std::string& text : typed) {
    if (!is_file(text)) {
      texts.push_back(typed_ids(text));
      continue;
    }
    std::vector<std::size_t> before;
    for (std::vector<int>& one : ids_in_file(text, batched, before))
      texts.push_back(std::move(one));
    const auto padded_ones =
        before.size() - static_cast<std::size_t>(std::ranges::count(before, 0U));
    if (padded_ones > 0)
      notes.push_back(message(
          "<ids> {}: padding before the tokens of {} is left out: positions count from the first "
          "token that attention_mask marks",
          text, before.size() == 1 ? "the text" : counted(padded_ones, "texts")));
  }
  TokenIds ids = padded(std::move(texts), batched, pad);
  ids.notes = std::move(notes);
  return ids;
}

std::vector<std::string> texts_of(std::vector<std::string> typed,
                                  const std::vector<std::string>& files, bool each_line) {
  for (const std::string& path : files) {
    const io::Bytes bytes = io::read_bytes(path, io::text_limit);
    std::string_view text = bytes.text();
    if (text.size() > tokenizers::longest_text)
      fail("{}: a text of {} bytes; at most {} GiB can be cut into tokens", io::shown(path),
           text.size(), tokenizers::longest_text >> 30);
    if (!each_line) {
      typed.emplace_back(text);
      continue;
    }
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      typed.emplace_back(line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  return typed;
}

std::vector<Note> notes_of_line_feeds(const Text& text, const std::vector<std::string>& texts) {
  std::vector<Note> notes;
  if (text.each_line) return notes;
  for (std::size_t i = 0; i < text.files.size(); ++i)
    if (text.files[i] == "-" && texts[text.texts.size() + i].ends_with('\n'))
      notes.push_back({message("the text from standard input ends with a line feed, which is part "
                               "of it (printf '%s' instead of echo leaves it out)")});
  return notes;
}

std::string place_of_text(const Text& text, std::size_t b) {
  if (text.each_line && text.files.size() == 1 && b >= text.texts.size())
    return fmt::format("line {} of {}", b - text.texts.size() + 1, io::shown(text.files[0]));
  return fmt::format("text {}", b);
}

} // namespace mha
