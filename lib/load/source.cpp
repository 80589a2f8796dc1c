#include <mha/load/source.hpp>

#include <mha/files/bytes.hpp>
#include <mha/files/paths.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/load/slices.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <filesystem>

namespace mha::io {

namespace {

constexpr std::string_view layer_word = "{layer}";
constexpr std::string_view axis_letters = "LBHTSDCIO";

bool is_name(std::string_view text) {
  return !text.empty() && (is_letter(text[0]) || text[0] == '_') &&
         std::ranges::all_of(
             text, [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.'; });
}

bool exists(std::string_view path) {
  std::error_code ignored;
  return path == "-" || std::filesystem::exists(path, ignored);
}

/// Whether a path names a file with tensors inside, so that ':' chooses one.
bool is_container(std::string_view path) {
  const std::string extension = extension_of(path);
  std::error_code ignored;
  return std::ranges::any_of(
             formats(), [&](const Format& format) { return has_extension(format, extension); }) ||
         std::filesystem::is_directory(path, ignored);
}

std::optional<DType> dtype_or_none(std::string_view name) {
  try {
    return dtype_named(name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Shape parse_shape(const std::string& text, std::string_view list) {
  Shape shape;
  while (!list.empty()) {
    std::string_view rest = list;
    const auto length = take_number<std::size_t>(rest);
    if (!length || (!rest.empty() && (rest[0] != ',' || rest.size() == 1)))
      fail("{}: '[{}]' is not a shape; expected whole numbers, as in [2,512,12,64]", shown(text),
           shown(list));
    shape.push_back(*length);
    list = rest.empty() ? rest : rest.substr(1);
  }
  if (shape.size() > 32) fail("{}: more than 32 axes", shown(text));
  count_of(shape);
  return shape;
}

/// Takes "@BTHD" off the end. An '@' within a path is followed by a slash or a dot at some point.
std::string take_axes(const std::string& text, std::string& rest) {
  const std::size_t at = rest.find_last_of('@');
  if (at == std::string::npos || exists(rest)) return "";
  std::string axes = rest.substr(at + 1);
  if (!std::ranges::all_of(axes, is_letter)) return "";
  if (axes.empty()) fail("{}: no axes after '@'", shown(text));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axis_letters.find(axes[i]) == std::string_view::npos)
      fail("{}: axis '{}' is unknown: L layer, B batch, H head, T query, S key, D width of one "
           "head, C all widths, I in, O out",
           shown(text), axes[i]);
    if (axes.find(axes[i], i + 1) != std::string::npos)
      fail("{}: axis {} is named twice", shown(text), axes[i]);
  }
  rest.resize(at);
  return axes;
}

/// Takes "[0:20]" off the end. After "FILE:DTYPE" such an end is a shape instead.
std::string take_slice(std::string& rest) {
  const std::size_t open = rest.rfind('[');
  if (!rest.ends_with(']') || open == std::string::npos || exists(rest)) return "";
  const std::string whole = rest.substr(0, open);
  const std::size_t colon = exists(whole) ? std::string::npos : whole.rfind(':');
  if (colon != std::string::npos && (!is_container(whole.substr(0, colon)) ||
                                     dtype_or_none(std::string_view(whole).substr(colon + 1))))
    return "";
  std::string slice = rest.substr(open);
  rest = whole;
  return slice;
}

/// Parses the text after "FILE:" in a binding: TENSOR, TENSOR:bf16, bf16, DTYPE[SHAPE].
void parse_choice(Source& source, std::string choice) {
  if (choice.empty()) fail("{}: nothing after ':'", shown(source.text));
  const std::size_t bracket = choice.find('[');
  if (bracket != std::string::npos && choice.ends_with(']')) {
    const std::string_view dtype = std::string_view(choice).substr(0, bracket);
    const std::string_view list(choice.data() + bracket + 1, choice.size() - bracket - 2);
    if (dtype_or_none(dtype) || !is_container(source.path)) {
      try {
        source.raw_dtype = dtype_named(dtype);
      } catch (const Error& error) {
        fail("{}: {}", shown(source.text), error.message());
      }
      source.raw_shape = parse_shape(source.text, list);
      return;
    }
  }
  if (!is_container(source.path) && source.path != "-") {
    source.raw_dtype = dtype_or_none(choice);
    if (source.raw_dtype) return;
  }
  for (const std::string_view word : {"bf16", "bfloat16"}) {
    if (choice == word) {
      source.raw_dtype = DType::bf16;
      return;
    }
    if (choice.ends_with(fmt::format(":{}", word))) {
      source.raw_dtype = DType::bf16;
      choice.resize(choice.size() - word.size() - 1);
    }
  }
  source.tensor = std::move(choice);
}

std::string filled(const std::string& text, std::string_view layer) {
  std::string result = text;
  for (std::size_t at = 0; (at = result.find(layer_word, at)) != std::string::npos;
       at += layer.size())
    result.replace(at, layer_word.size(), layer);
  return result;
}

} // namespace

Source parse_source(const std::string& text) {
  Source source;
  source.text = source.path = text;
  if (text.empty()) fail("an empty word is not a source");
  if (exists(text)) return source;

  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || !is_name(std::string_view(text).substr(0, equals))) {
    const std::size_t colon = text.find_last_of(':');
    if (colon != std::string::npos && exists(text.substr(0, colon)))
      fail("{0}: no such file; a part of a file needs a name: NAME={0}", shown(text));
    return source;
  }
  source.name = text.substr(0, equals);
  std::string rest = text.substr(equals + 1);
  if (rest.empty()) fail("{}: no file after '='", shown(text));
  source.axes = take_axes(text, rest);
  const std::string slice = take_slice(rest);
  if (rest.empty()) fail("{}: no file after '='", shown(text));

  // The file is the longest part before a ':' that exists; else the shortest.
  std::size_t split = rest.size();
  while (!exists(rest.substr(0, split))) {
    const std::size_t colon = split == 0 ? std::string::npos : rest.find_last_of(':', split - 1);
    if (colon == std::string::npos) {
      split = std::min(rest.find(':'), rest.size());
      break;
    }
    split = colon;
  }
  source.path = rest.substr(0, split);
  if (source.path.empty()) fail("{}: no file before ':'", shown(text));
  if (split < rest.size()) parse_choice(source, rest.substr(split + 1));
  source.tensor += slice;
  return source;
}

bool mentions_layer(const Source& source) {
  return source.path.find(layer_word) != std::string::npos ||
         source.tensor.find(layer_word) != std::string::npos;
}

Source with_layer(const Source& source, std::string_view layer) {
  Source result = source;
  // A layer's name comes from a file, so that it must not lead anywhere else as part of a path.
  if (source.path.find(layer_word) != std::string::npos)
    result.path = filled(source.path, path_component(layer.empty() ? "0" : layer));
  result.tensor = filled(source.tensor, layer);
  return result;
}

const Contents& LastOpened::open(const std::string& path, bool bfloat16) {
  if (!contents_ || path_ != path || bfloat16_ != bfloat16) {
    contents_.emplace(io::open(path, {bfloat16, gguf_order}));
    path_ = path, bfloat16_ = bfloat16;
  }
  return *contents_;
}

Entry bound_entry(const Source& source) {
  LastOpened opened;
  return bound_entry(source, opened);
}

namespace {

Entry whole_entry(const Source& source, LastOpened& opened) {
  if (!source.memory.empty())
    return {source.name, source.memory.dtype(), source.memory.shape(), false,
            [tensor = source.memory] { return tensor; }};
  if (source.raw_shape)
    return read_raw(source.path, source.name, source.raw_dtype.value_or(DType::f32),
                    *source.raw_shape);
  if (source.raw_dtype && source.path != "-" && !is_container(source.path))
    fail("{}: raw bytes need a shape: {}:{}[SHAPE], as in [2,512,12,64]", shown(source.text),
         shown(source.path), name_of(*source.raw_dtype));

  const Contents& contents = opened.open(source.path, source.raw_dtype.has_value());
  const std::string where = shown(contents.name);

  const Entry* entry = contents.find(source.tensor.empty() ? source.name : source.tensor);
  if (!entry && !source.tensor.empty()) {
    const auto own = std::ranges::find(contents.tensors, source.tensor, &Entry::own_name);
    if (own != contents.tensors.end()) entry = &*own;
  }
  if (!entry && source.tensor.empty() && contents.tensors.size() == 1) entry = &contents.tensors[0];
  std::vector<std::string_view> names; // for messages
  for (std::size_t i = 0; !entry && i < contents.tensors.size(); ++i)
    names.push_back(contents.tensors[i].name);
  if (!entry && names.empty()) fail("{}: no tensor in it", where);
  if (!entry && source.tensor.empty())
    fail("{}: which of its tensors is {}? write {}={}:TENSOR, one of {}", where, shown(source.name),
         shown(source.name), shown(source.path), listed(names));
  if (!entry)
    fail("{}: no tensor '{}'{} (there: {})", where, shown(source.tensor),
         did_you_mean(source.tensor, names), listed(names));
  if (source.raw_dtype && entry->dtype != DType::bf16)
    fail("{}: {} is {}; ':bf16' is for 2-byte void elements", where, shown(entry->name),
         name_of(entry->dtype));
  return *entry;
}

} // namespace

Entry bound_entry(const Source& source, LastOpened& opened) {
  const std::size_t open = source.tensor.rfind('[');
  if (!source.tensor.ends_with(']') || open == std::string::npos ||
      (!source.raw_shape && source.memory.empty() &&
       opened.open(source.path, source.raw_dtype.has_value()).find(source.tensor)))
    return whole_entry(source, opened); // a tensor may be called "k[0]"
  Source whole = source;
  whole.tensor.resize(open);
  const std::string_view slice = std::string_view(source.tensor).substr(open + 1);
  return sliced(whole_entry(whole, opened), slice.substr(0, slice.size() - 1), shown(source.text));
}

LabelLists labels_of_numbers(const Tensor& numbers) {
  std::vector<std::string> texts(numbers.count());
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = element_text(numbers, i);
  if (numbers.rank() != 2) return {std::move(texts), {}};
  LabelLists labels;
  labels.items.resize(numbers.shape()[0]);
  for (std::size_t i = 0; i < texts.size(); ++i)
    labels.items[i / numbers.shape()[1]].push_back(std::move(texts[i]));
  return labels;
}

std::vector<std::string> read_labels(const Source& source) {
  LabelLists labels = read_label_lists(source);
  if (!labels.items.empty())
    fail("{}: one list of labels expected, not one of each batch item", shown(source.path));
  return std::move(labels.one);
}

LabelLists read_label_lists(const Source& source) {
  // A file of unknown kind is text with one label a line; so is .txt, whatever it starts with.
  const std::string extension = extension_of(source.path);
  const bool listing = extension == ".txt" || extension == ".tokens";
  if (listing || (extension.empty() && source.path != "-" && !is_container(source.path))) {
    const Bytes bytes = read_bytes(source.path, text_limit);
    const std::size_t bad = invalid_utf8(bytes.text());
    if (bad != std::string::npos) fail("{}: byte {} is not UTF-8", shown(bytes.name), bad);
    std::vector<std::string> lines;
    for (std::string_view rest = bytes.text(); !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      lines.emplace_back(line);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return {std::move(lines), {}};
  }

  const Contents contents = open(source.path);
  const std::string where = shown(contents.name);
  const std::string& wanted = source.tensor.empty() ? source.name : source.tensor;
  for (const auto& [name, texts] : contents.labels)
    if (name == wanted || (source.tensor.empty() && contents.labels.size() == 1))
      return {texts, {}};
  for (const auto& [name, lists] : contents.item_labels)
    if (name == wanted || (source.tensor.empty() && contents.item_labels.size() == 1))
      return {{}, lists};
  // Token numbers are also labels.
  const Entry* entry = contents.find(wanted);
  if (!entry && source.tensor.empty() && contents.tensors.size() == 1 && contents.labels.empty())
    entry = &contents.tensors[0];
  if (entry && (entry->shape.size() == 1 || entry->shape.size() == 2))
    return labels_of_numbers(entry->read());
  std::vector<std::string_view> names;
  for (const auto& [name, texts] : contents.labels) names.push_back(name);
  if (names.empty()) fail("{}: no list of text in it; labels are [\"the\", \"cat\"]", where);
  fail("{}: no list of text '{}'{} (there: {})", where, shown(wanted), did_you_mean(wanted, names),
       listed(names));
}

} // namespace mha::io
