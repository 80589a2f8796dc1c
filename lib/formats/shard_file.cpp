#include <mha/formats/shard_file.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/unaligned.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace mha::io {

namespace {

constexpr std::string_view part_key = "part", run_key = "part_run", items_key = "part_items";

std::string scalar_text(const Contents& contents, std::string_view key) {
  for (const auto& [name, value] : contents.scalars)
    if (name == key) return value;
  return "";
}

Tensor numbers(Shape shape, const std::vector<std::int64_t>& values) {
  Tensor tensor(DType::i64, std::move(shape));
  if (!values.empty()) std::memcpy(tensor.raw_mutable(), values.data(), tensor.bytes());
  return tensor;
}

class ShardWriter : public Writer {
public:
  ShardWriter(const std::string& path, std::string_view format, const Output& whole,
              std::vector<ElementRanges> runs, const ShardInfo& info)
      : runs_(std::move(runs)) {
    Output output;
    output.scalars.emplace_back(part_key, fmt::format("{}/{}", info.index + 1, info.count));
    output.scalars.emplace_back(run_key, info.run);
    output.labels.emplace_back(items_key, std::vector<std::string>());
    output.labels.insert(output.labels.end(), whole.labels.begin(), whole.labels.end());
    output.item_labels = whole.item_labels;
    std::vector<Tensor> places;
    for (std::size_t i = 0; i < whole.items.size(); ++i) {
      const Item& item = whole.items[i];
      std::vector<std::int64_t> runs_table, shape(item.shape.begin(), item.shape.end());
      std::size_t count = 0;
      for (const auto& [offset, n] : runs_[i]) {
        starts_.resize(i + 1);
        starts_[i].push_back(count);
        runs_table.push_back(static_cast<std::int64_t>(offset));
        runs_table.push_back(static_cast<std::int64_t>(n));
        count += n;
      }
      starts_.resize(i + 1);
      output.labels[0].second.push_back(item.name);
      places.push_back(numbers({runs_[i].size(), 2}, runs_table));
      places.push_back(numbers({shape.size()}, shape));
      output.items.push_back({item.name, item.dtype, {count}});
    }
    for (std::size_t i = 0; i < whole.items.size(); ++i)
      for (const char* end : {".runs", ".shape"}) {
        const Tensor& place = places[output.items.size() - whole.items.size()];
        output.items.push_back({whole.items[i].name + end, DType::i64, place.shape()});
      }
    writer_ = create(path, format, output);
    for (std::size_t i = 0; i < places.size(); ++i)
      writer_->write(whole.items.size() + i, 0, places[i].raw(), places[i].count());
  }

  void write(std::size_t item, std::size_t offset, const std::byte* data,
             std::size_t count) override {
    if (count == 0) return;
    const ElementRanges& runs = runs_.at(item);
    const auto after = std::upper_bound(runs.begin(), runs.end(),
                                        std::pair(offset, std::numeric_limits<std::size_t>::max()));
    const std::size_t run = static_cast<std::size_t>(after - runs.begin()) - 1;
    if (after == runs.begin() || offset + count > runs[run].first + runs[run].second)
      fail("elements {} to {} of item {} are not in this part", offset, offset + count, item);
    writer_->write(item, starts_[item][run] + (offset - runs[run].first), data, count);
  }

  void finish() override { writer_->finish(); }

private:
  std::vector<ElementRanges> runs_;
  std::vector<std::vector<std::size_t>> starts_; ///< of the runs, in the part
  std::unique_ptr<Writer> writer_;
};

/// A part file that was read.
struct ReadShard {
  const Contents* contents = nullptr;
  std::size_t index = 0, count = 0;
  std::string run;
  std::vector<std::string> items;
};

[[noreturn]] void refuse_damaged(const Contents& contents, std::string_view what) {
  fail("{}: damaged part of a dump: {}; make it again", shown(contents.name), what);
}

ReadShard read_part(const Contents& contents) {
  if (!is_shard(contents))
    fail("{}: not a part of a dump (made by `dump <part> I/N`), so it cannot be joined with one",
         shown(contents.name));
  ReadShard part{&contents, 0, 0, scalar_text(contents, run_key), {}};
  const std::string text = scalar_text(contents, part_key);
  std::string_view rest = text;
  part.index = take_number<std::size_t>(rest).value_or(0);
  if (rest.starts_with('/')) part.count = parse_number<std::size_t>(rest.substr(1)).value_or(0);
  if (part.index == 0 || part.index > part.count)
    refuse_damaged(contents, fmt::format("part is '{}'", shown(text)));
  --part.index;
  for (const auto& [name, list] : contents.labels)
    if (name == items_key) part.items = list;
  if (part.items.empty()) refuse_damaged(contents, "it names no tensors");
  return part;
}

const Entry& entry_of(const Contents& contents, const std::string& name) {
  const Entry* entry = contents.find(name);
  if (!entry) refuse_damaged(contents, fmt::format("{} is missing", shown(name)));
  return *entry;
}

/// Reads int64 values that must not be negative.
std::vector<std::size_t> sizes_in(const Contents& contents, const std::string& name,
                                  std::size_t axes) {
  const Entry& entry = entry_of(contents, name);
  if (entry.dtype != DType::i64 || entry.shape.size() != axes || (axes == 2 && entry.shape[1] != 2))
    refuse_damaged(contents, fmt::format("{} is {} {}", shown(name), name_of(entry.dtype),
                                         to_string(entry.shape)));
  const Tensor tensor = entry.read();
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const auto value = unaligned<std::int64_t>(tensor.raw() + i * sizeof(std::int64_t));
    if (value < 0) refuse_damaged(contents, fmt::format("{} has {}", shown(name), value));
    sizes.push_back(static_cast<std::size_t>(value));
  }
  return sizes;
}

Item item_of(const Contents& contents, const std::string& name) {
  Item item{name, entry_of(contents, name).dtype, sizes_in(contents, name + ".shape", 1)};
  require_sensible(fmt::format("{}: {}", shown(contents.name), shown(name)), item.shape);
  if (!bytes_of(item.shape, size_of(item.dtype)))
    refuse_damaged(contents, fmt::format("{}.shape is too large", shown(name)));
  return item;
}

/// Sorts the parts, and checks that they are of one run and that each appears once.
std::vector<ReadShard> sorted(const std::vector<Contents>& files) {
  std::vector<ReadShard> parts;
  for (const Contents& contents : files) parts.push_back(read_part(contents));
  std::stable_sort(parts.begin(), parts.end(),
                   [](const ReadShard& a, const ReadShard& b) { return a.index < b.index; });
  const ReadShard& first = parts[0];
  for (const ReadShard& part : parts) {
    if (part.count != first.count)
      fail("{} is one of {} parts, {} one of {}: these do not belong together",
           shown(part.contents->name), part.count, shown(first.contents->name), first.count);
    if (part.run != first.run || part.items != first.items)
      fail("{} and {} are parts of different runs: layer, text, patches, stages, selection, "
           "<dump_dtype> and N must be the same",
           shown(part.contents->name), shown(first.contents->name));
  }
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i].index == parts[i - 1].index)
      fail("part {}/{} appears twice: {} and {}", parts[i].index + 1, parts[i].count,
           shown(parts[i - 1].contents->name), shown(parts[i].contents->name));
  std::vector<std::string> missing;
  for (std::size_t i = 0, at = 0; i < first.count && missing.size() < 9; ++i)
    if (at < parts.size() && parts[at].index == i)
      ++at;
    else
      missing.push_back(std::to_string(i + 1));
  if (const std::size_t count = first.count - parts.size(); count > 0) {
    if (count > missing.size() || missing.size() > 8) missing.resize(8), missing.emplace_back("…");
    fail("{} of {} parts {} missing: {}; make {} with <part> I/{}", count, first.count,
         count == 1 ? "is" : "are", fmt::join(missing, ", "), count == 1 ? "it" : "them",
         first.count);
  }
  return parts;
}

void write_part(const ReadShard& part, std::size_t item, const Item& whole, Writer& writer) {
  const Contents& contents = *part.contents;
  const std::vector<std::size_t> runs = sizes_in(contents, whole.name + ".runs", 2);
  const Tensor values = entry_of(contents, whole.name).read();
  const std::size_t all = count_of(whole.shape), element = size_of(whole.dtype);
  std::size_t at = 0;
  for (std::size_t i = 0; i < runs.size(); i += 2) {
    const std::size_t offset = runs[i], count = runs[i + 1];
    if (offset > all || count > all - offset || count > values.count() - at)
      refuse_damaged(contents, fmt::format("{}.runs leads outside", shown(whole.name)));
    writer.write(item, offset, values.raw() + at * element, count);
    at += count;
  }
  if (at != values.count())
    refuse_damaged(contents, fmt::format("{} has elements in no run", shown(whole.name)));
}

} // namespace

std::unique_ptr<Writer> create_shard(const std::string& path, std::string_view format,
                                     const Output& whole, std::vector<ElementRanges> runs,
                                     const ShardInfo& info) {
  const std::string extension = format.empty() ? extension_of(path) : "." + std::string(format);
  if (extension != ".npz" && extension != ".safetensors")
    fail("{}: a part is written as .npz or .safetensors; `convert` joins the parts into any format",
         path == "-" ? "standard output" : shown(path));
  return std::make_unique<ShardWriter>(path, format, whole, std::move(runs), info);
}

bool is_shard(const Contents& contents) {
  return !scalar_text(contents, part_key).empty() && !scalar_text(contents, run_key).empty();
}

std::string shard_title(const Contents& contents) {
  return fmt::format("part {} of a dump", shown(scalar_text(contents, part_key)));
}

void join_shards(const std::vector<Contents>& files, const std::string& path,
                 std::string_view format) {
  const std::vector<ReadShard> parts = sorted(files);
  Output output;
  for (const auto& labels : parts[0].contents->labels)
    if (labels.first != items_key) output.labels.push_back(labels);
  output.item_labels = parts[0].contents->item_labels;
  for (const std::string& name : parts[0].items)
    output.items.push_back(item_of(*parts[0].contents, name));
  for (const ReadShard& part : parts)
    for (const Item& item : output.items) {
      const Item other = item_of(*part.contents, item.name);
      if (other.dtype != item.dtype || other.shape != item.shape)
        fail("{} and {} are parts of different runs: {} is {} {} and {} {}",
             shown(parts[0].contents->name), shown(part.contents->name), shown(item.name),
             name_of(item.dtype), to_string(item.shape), name_of(other.dtype),
             to_string(other.shape));
    }
  // Checked before memory is allocated: a header may claim any size.
  for (const Item& item : output.items) {
    std::size_t held = 0;
    for (const ReadShard& part : parts) held += count_of(entry_of(*part.contents, item.name).shape);
    if (held != count_of(item.shape))
      fail("{} has {} elements, and its parts hold {}: a part is damaged; make the parts again",
           shown(item.name), count_of(item.shape), held);
  }
  const std::unique_ptr<Writer> writer = create(path, format, output);
  for (std::size_t i = 0; i < output.items.size(); ++i)
    for (const ReadShard& part : parts) write_part(part, i, output.items[i], *writer);
  writer->finish();
}

} // namespace mha::io
