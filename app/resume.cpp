#include "resume.hpp"

#include "text_groups.hpp"

#include <mha/files/contents.hpp>
#include <mha/files/inputs.hpp>
#include <mha/files/output_file.hpp>
#include <mha/system/parse.hpp>

#include <bit>
#include <filesystem>

namespace mha::app {

namespace {

/// The first word of a state: other versions may compute other bits, or keep other things.
constexpr std::string_view any_version = "mha-inspect-resume-",
                           this_version = "mha-inspect-resume-" MHA_VERSION;

std::string checksum_of(std::string_view state) {
  return Fingerprint().add(state.data(), state.size()).text();
}

} // namespace

StateWriter& StateWriter::add(std::size_t number) {
  text_ += fmt::format("{:x} ", number);
  return *this;
}

StateWriter& StateWriter::add(double number) {
  return add(static_cast<std::size_t>(std::bit_cast<std::uint64_t>(number)));
}

StateWriter& StateWriter::add(std::string_view text) {
  add(text.size());
  text_ += text;
  text_ += ' ';
  return *this;
}

StateWriter& StateWriter::add(const MeanSpread& spread) {
  return add(spread.count).add(spread.centre).add(spread.squares);
}

void StateReader::refuse() const {
  fail("{}: is damaged: it says nothing at byte {} that a run would go on from; remove it to begin "
       "anew",
       path_, at_);
}

std::size_t StateReader::hexadecimal() {
  std::string_view rest = std::string_view(text_).substr(at_);
  const auto number = take_number<std::size_t>(rest, 16);
  if (!number || !rest.starts_with(' ')) refuse();
  at_ = text_.size() - rest.size() + 1;
  return *number;
}

std::size_t StateReader::number() {
  return hexadecimal();
}

double StateReader::real() {
  return std::bit_cast<double>(static_cast<std::uint64_t>(hexadecimal()));
}

std::string StateReader::word() {
  const std::size_t size = hexadecimal();
  if (size >= text_.size() - at_ || text_[at_ + size] != ' ') refuse();
  std::string word = text_.substr(at_, size);
  at_ += size + 1;
  return word;
}

MeanSpread StateReader::spread() {
  MeanSpread spread;
  spread.count = number(), spread.centre = real(), spread.squares = real();
  return spread;
}

std::string mark_of_texts(const OpenedModel& model, const std::string& settings) {
  const Texts& texts = *model.texts();
  Fingerprint mark;
  mark.add(settings);
  texts.add_to(mark);
  // Layers as the first text has them: patches and weights are those of all.
  const OpenedModel first(model, std::make_shared<const Texts>(texts, 0, 1, "--text", true));
  for (const LayerListing& layer : first.sources().layers())
    mha::add_to(mark, first.outline(layer.id));
  return mark.text();
}

ResumeFile::ResumeFile(bool asked, const std::string& result)
    : asked_(asked), path_(result + ".resume") {
  std::error_code ignored;
  const bool is_device = std::filesystem::exists(result, ignored) &&
                         !std::filesystem::is_regular_file(result, ignored);
  if (asked && (result.empty() || result == "-" || is_device))
    throw UsageError("--resume keeps what is done beside the result: give --output FILE");
}

std::optional<ResumeFile::Found> ResumeFile::find(const std::string& mark) {
  mark_ = mark;
  if (!asked_ || !std::filesystem::exists(path_)) return std::nullopt;
  const io::NotAnInput result_of_before;
  const io::Bytes bytes = io::read_bytes(path_);
  StateReader state(std::string(bytes.text()), path_);
  const std::string_view word = bytes.text().substr(bytes.text().find(' ') + 1);
  if (!word.starts_with(any_version))
    fail("{}: is no state of a run over many texts; --resume keeps its own there: move the file "
         "away, or give another --output",
         path_);
  if (const std::string version = state.word(); version != this_version)
    fail("{}: was kept by another version of mha-inspect ({}, this is {}), which may compute other "
         "bits: let that one go on, or remove the file to begin anew",
         path_, version.substr(any_version.size()), MHA_VERSION);
  const std::string checksum = state.word(), found = checksum_of(state.rest());
  if (found != checksum)
    fail("{}: is damaged: its checksum is {}, not {}; remove it to begin anew", path_, found,
         checksum);
  if (state.word() != mark)
    fail("{}: is of a run with another text, model, patch or setting: give those again to go on, "
         "remove the file to begin anew, or give another --output",
         path_);
  const std::size_t texts = state.number();
  return Found{texts, std::move(state)};
}

void ResumeFile::write(std::size_t texts, const std::string& state) const {
  StateWriter head, of_run;
  const std::string body = of_run.add(mark_).add(texts).text() + state;
  head.add(this_version).add(checksum_of(body));
  io::OutputFile file(path_);
  file.write(0, head.text());
  file.write(head.text().size(), body);
  file.commit();
}

void ResumeFile::remove() {
  if (!asked_) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

} // namespace mha::app
