#include <mha/compare/reference_files.hpp>

#include <mha/compare/captures.hpp>
#include <mha/compare/hidden_states.hpp>
#include <mha/formats/formats.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/parts.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

ReferenceFile::ReferenceFile(io::Contents contents) : contents_(std::move(contents)) {
  name_bare_list(contents_);
  stacks_.name = contents_.name;
  for (const io::Entry& entry : contents_.tensors) {
    if (holds_states(entry.name)) { // each layer takes one state: the stack is read once
      io::Entry once = entry;
      once.read = [read = entry.read, kept = std::make_shared<Tensor>()] {
        if (kept->empty()) *kept = read();
        return *kept;
      };
      stacks_.tensors.push_back(std::move(once));
      continue;
    }
    const Capture capture = capture_of(entry.name, {});
    (capture.layer ? layers_[*capture.layer] : without_layer_).push_back(&entry);
  }
}

namespace {

/// The textbook has every stage, so that no other source would be compared.
void require_textbook_alone(const std::vector<std::string>& sources) {
  if (sources.size() > 1 && std::ranges::any_of(sources, is_textbook))
    fail("<against> textbook: the textbook has every stage, so it is compared alone; a file of "
         "that name is ./textbook");
}

} // namespace

ReferenceFiles::ReferenceFiles(std::vector<std::string> sources) : sources_(std::move(sources)) {
  if (sources_.empty())
    fail("no reference is given: <against> FILE, or <STAGE=FILE> for one stage");
  require_textbook_alone(sources_);
  if (!is_textbook()) return;
  io::Contents nothing;
  nothing.name = sources_.front();
  files_[sources_.front()] = std::make_shared<ReferenceFile>(std::move(nothing));
}

ReferenceFiles::ReferenceFiles(std::vector<std::string> sources, io::Contents memory)
    : sources_(std::move(sources)) {
  sources_.push_back(memory.name);
  require_textbook_alone(sources_);
  files_[sources_.back()] = std::make_shared<ReferenceFile>(std::move(memory));
}

std::shared_ptr<const ReferenceFile> ReferenceFiles::open(const std::string& path) const {
  std::shared_ptr<const ReferenceFile>& file = files_[path];
  if (!file) file = std::make_shared<ReferenceFile>(io::open(path));
  return file;
}

std::optional<std::string> ReferenceFiles::file_of(const io::Source& source) const {
  if (source.name.empty()) return source.path;
  if (!holds_states(source.name) || !source.axes.empty()) return std::nullopt;
  std::shared_ptr<const ReferenceFile>& file = files_[source.text];
  if (!file) file = std::make_shared<ReferenceFile>(states_named(source));
  return source.text;
}

bool ReferenceFiles::names(Stage stage, const std::vector<std::string>& layers) const {
  const auto is_named = [&](std::string_view name) {
    return last_part(name).find(name_of(stage)) != std::string_view::npos; // "ref_rollout_0"
  };
  return std::ranges::any_of(sources_, [&](const std::string& text) {
    io::Source source = io::parse_source(text);
    if (io::mentions_layer(source) && !layers.empty()) source = io::with_layer(source, layers[0]);
    const std::optional<std::string> file = file_of(source);
    return file ? std::ranges::any_of(open(*file)->contents().tensors, is_named, &io::Entry::name)
                : is_named(source.name);
  });
}

void ReferenceFiles::keep_text(const std::string& path, const TextPlace& place,
                               std::size_t T) const {
  io::Contents contents = open(path)->contents();
  for (io::Entry& entry : contents.tensors) entry = part_of_text(entry, place, T);
  files_[path] = std::make_shared<ReferenceFile>(std::move(contents));
}

void ReferenceFiles::keep_texts(const std::string& path, const std::vector<std::size_t>& firsts,
                                std::size_t rows, std::size_t T) const {
  io::Contents contents = open(path)->contents();
  for (io::Entry& entry : contents.tensors) entry = rows_of_texts(entry, firsts, rows, T);
  files_[path] = std::make_shared<ReferenceFile>(std::move(contents));
}

namespace {

/// Columns [first, first + width) of an entry, or of each of so many equal bands of its columns.
io::Entry columns_of(const io::Entry& entry, std::size_t first, std::size_t width,
                     std::size_t bands = 1) {
  io::Entry part = entry;
  part.shape.back() = bands * width;
  part.read = [read = entry.read, first, width, bands] {
    const Tensor whole = read();
    Shape shape = whole.shape();
    const std::size_t all = shape.back() / bands;
    shape.back() = bands * width;
    return part_of_axis(whole.reshaped({whole.count() / all, all}), 1, first, width)
        .reshaped(shape);
  };
  return part;
}

/// The last two axes as one: a module's result that was viewed by heads.
io::Entry heads_merged(const io::Entry& entry) {
  io::Entry merged = entry;
  merged.shape.pop_back();
  merged.shape.back() *= entry.shape.back();
  merged.read = [read = entry.read, shape = merged.shape] { return read().reshaped(shape); };
  return merged;
}

} // namespace

io::Entry first_columns(const io::Entry& entry, std::size_t width) {
  const bool wider = width > 0 && !entry.shape.empty() && entry.shape.back() > width;
  return wider ? columns_of(entry, 0, width) : entry;
}

bool same_numbers(const Tensor& a, const Tensor& b, double share) {
  if (a.count() != b.count()) return false;
  for (std::size_t i = 0; i < a.count(); ++i) {
    const double x = value_at(a, i), y = value_at(b, i);
    if (x != y && !(std::abs(x - y) <= share * std::abs(x))) return false;
  }
  return true;
}

bool looks_like_step(const Dims& dims, const io::Entry& entry) {
  if (!is_floating(entry.dtype) || entry.shape.size() < 2 ||
      entry.shape[entry.shape.size() - 2] != dims.T)
    return false;
  const std::size_t width = entry.shape.back();
  return width == dims.d_model || (dims.d_ff > 0 && width == dims.d_ff) ||
         (dims.vocabulary > 0 && width == dims.vocabulary);
}

namespace {

std::size_t packed_width(const Layer& layer, Stage stage) {
  const std::vector<Dim>& letters = info_of(stage).letters;
  const std::size_t width = layer.dims.size_of(letters.back());
  return letters.size() == 3 ? width * layer.dims.size_of(letters[0]) : width;
}

} // namespace

std::size_t width_side_by_side(const Layer& layer, const std::vector<Stage>& stages) {
  std::size_t width = 0;
  for (Stage stage : stages) width += packed_width(layer, stage);
  return width;
}

std::vector<StageColumns> stages_side_by_side(const Layer& layer, const std::vector<Stage>& stages,
                                              const io::Entry& entry, std::size_t groups) {
  const std::size_t all = width_side_by_side(layer, stages), rank = entry.shape.size();
  if (rank > 1 && entry.shape[rank - 1] != all &&
      entry.shape[rank - 2] * entry.shape[rank - 1] == all)
    return stages_side_by_side(layer, stages, heads_merged(entry), groups);
  if (entry.shape.empty() || entry.shape.back() != all) return {};
  std::vector<StageColumns> parts;
  const std::size_t bands = groups == 0 ? layer.dims.H_kv : groups;
  std::size_t first = 0;
  for (Stage stage : stages) {
    const std::size_t width = packed_width(layer, stage) / bands;
    parts.push_back({stage, columns_of(entry, first, width, bands)});
    first += width;
  }
  return parts;
}

} // namespace mha
