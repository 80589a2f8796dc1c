// What llama.cpp's eval-callback prints: of each tensor its name, operation and axes, then the
// first three and the last three numbers along each axis, with four decimals.

#include <mha/files/text.hpp>
#include <mha/formats/text_numbers.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/not_saved.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace mha::io {

namespace {

constexpr std::size_t axes = 4, shown_at_each_end = 3;
constexpr double step = 1e-4; // four decimals
/// Few numbers claim a large tensor, which is kept as a whole.
constexpr std::size_t most_in_callback = 15'000'000;

/// The line before a tensor's numbers: "ggml_debug: Qcur-0 = (f32) MUL_MAT(…) = {64, 5, 1, 1}".
struct Heading {
  std::string_view name, operation;
  std::array<std::size_t, axes> lengths{}; ///< the contiguous axis first
};

std::optional<Heading> heading_of(std::string_view line) {
  line = trimmed(line);
  const std::size_t colon = line.find(": "), type = line.find(" = ("), end = line.rfind(") = {");
  if (colon == line.npos || type == line.npos || end == line.npos || colon > type || type >= end ||
      !line.ends_with('}'))
    return std::nullopt;
  Heading heading;
  heading.name = trimmed(line.substr(colon + 1, type - colon - 1));
  const std::size_t operation = line.find(") ", type);
  if (operation == line.npos) return std::nullopt;
  heading.operation = trimmed(line.substr(operation + 1));
  heading.operation = heading.operation.substr(0, heading.operation.find('('));
  const std::vector<std::string_view> lengths =
      words_of(line.substr(end + 5, line.size() - end - 6), ", ");
  if (lengths.size() != axes || heading.name.empty()) return std::nullopt;
  for (std::size_t i = 0; i < axes; ++i) {
    const auto length = parse_number<std::uint32_t>(lengths[i]);
    if (!length || *length == 0) return std::nullopt;
    heading.lengths[i] = *length;
  }
  return heading;
}

/// The positions that are printed along an axis.
std::size_t shown_of(std::size_t length) {
  return std::min(length, 2 * shown_at_each_end);
}
/// The position of the i-th that is printed.
std::size_t place_of(std::size_t i, std::size_t length) {
  return i < shown_at_each_end || length <= 2 * shown_at_each_end ? i
                                                                  : length - shown_of(length) + i;
}

class CallbackReader {
public:
  explicit CallbackReader(const TextFile& file) : file_(file), lines_(file.text) {}

  void read(Contents& contents) {
    while (!lines_.at_end()) {
      const std::string_view line = lines_.next();
      if (const auto heading = heading_of(line)) {
        finish();
        begin(*heading);
      } else if (open_) {
        take(line);
      }
    }
    finish();
    // What reshapes and views show again, with other numbers left out, is another part of it.
    std::erase_if(entries_, [&](const auto& one) {
      const std::size_t note = one.first.find(" (");
      return (note != one.first.npos && entries_.contains(one.first.substr(0, note))) ||
             doubtful_.contains(one.first);
    });
    if (entries_.empty()) fail("{}: no tensor with numbers in it", shown(file_.name));
    for (auto& [name, entry] : entries_) contents.tensors.push_back(std::move(entry));
    contents.notes.emplace_back("read as eval-callback: the first and last 3 numbers of each axis, "
                                "4 decimals; NaN: others");
    if (again_ > 0)
      contents.notes.emplace_back(
          fmt::format("a second pass, from line {} on, is not read", again_));
  }

private:
  void begin(const Heading& heading) {
    const std::pair key{std::string(heading.name), std::string(heading.operation)};
    if (first_.first.empty()) first_ = key;
    if (key == first_ && !entries_.empty() && again_ == 0) again_ = lines_.line();
    // What two steps of a layer make under one name, as both of its norms do, is neither of them.
    if (!seen_.insert(key).second && again_ == 0) doubtful_.insert(key.first);
    heading_ = heading;
    numbers_.clear();
    open_ = again_ == 0, line_ = lines_.line();
  }

  /// Takes the numbers of a line: "[ 0.1000, 0.2000, ..., 0.3000],".
  void take(std::string_view line) {
    if (line.find("sum =") != line.npos) return;
    for (const std::string_view word : words_of(line, " \t[],")) {
      if (word == "...") continue;
      const auto number = printed_number(word);
      if (!number) { // another program's line
        open_ = numbers_.empty();
        return;
      }
      numbers_.push_back(*number);
    }
  }

  void finish() {
    if (numbers_.empty()) return;
    const auto& n = heading_.lengths;
    const std::size_t expected = shown_of(n[0]) * shown_of(n[1]) * shown_of(n[2]) * n[3];
    if (numbers_.size() != expected)
      file_.refuse(line_, fmt::format("{} has {}: {} expected, the first and last 3 of each axis",
                                      quoted(heading_.name), counted(numbers_.size(), "numbers"),
                                      expected));
    Shape shape{n[3], n[2], n[1], n[0]};
    while (shape.size() > 2 && shape[0] == 1) shape.erase(shape.begin());
    std::string name(heading_.name);
    // llama.cpp calls queries and keys the same before and after the rotation.
    if (const std::size_t dash = name.find('-');
        heading_.operation.starts_with("ROPE") && dash != name.npos)
      name.insert(dash, "_rope");
    const std::size_t count = n[0] * n[1]; // of 32 bits each
    if (n[2] > most_in_callback || n[3] > most_in_callback ||
        count > most_in_callback / (n[2] * n[3]))
      file_.refuse(line_, fmt::format("{} is {}: at most {} numbers are read", quoted(name),
                                      to_string(shape), most_in_callback));
    Entry entry{name, DType::f32, shape, true,
                [n, shape, numbers = numbers_] { return among_not_saved(n, shape, numbers); }};
    entry.steps = steps_of_digits({}, step);
    entries_.insert_or_assign(std::move(name), std::move(entry));
    numbers_.clear(), open_ = false;
  }

  static Tensor among_not_saved(const std::array<std::size_t, axes>& n, const Shape& shape,
                                const std::vector<double>& numbers) {
    Tensor tensor = Tensor::uninitialised(DType::f32, shape);
    const auto values = tensor.as_mutable<float>();
    std::ranges::fill(values, static_cast<float>(not_saved()));
    std::size_t next = 0;
    for (std::size_t i3 = 0; i3 < n[3]; ++i3)
      for (std::size_t i2 = 0; i2 < shown_of(n[2]); ++i2)
        for (std::size_t i1 = 0; i1 < shown_of(n[1]); ++i1)
          for (std::size_t i0 = 0; i0 < shown_of(n[0]); ++i0)
            values[((i3 * n[2] + place_of(i2, n[2])) * n[1] + place_of(i1, n[1])) * n[0] +
                   place_of(i0, n[0])] = static_cast<float>(numbers[next++]);
    return tensor;
  }

  const TextFile& file_;
  LineReader lines_;
  Heading heading_;
  std::vector<double> numbers_;
  bool open_ = false;
  std::size_t line_ = 0, again_ = 0;
  std::pair<std::string, std::string> first_; ///< which a second pass begins with
  std::set<std::pair<std::string, std::string>> seen_;
  std::set<std::string> doubtful_;
  std::map<std::string, Entry> entries_;
};

} // namespace

bool is_eval_callback(std::string_view text) {
  constexpr std::size_t most_log = std::size_t{1} << 18; // before the first tensor
  for (LineReader lines(text.substr(0, most_log)); !lines.at_end();)
    if (heading_of(lines.next())) return true;
  return false;
}

void read_eval_callback(const TextFile& file, Contents& contents) {
  CallbackReader(file).read(contents);
}

} // namespace mha::io
