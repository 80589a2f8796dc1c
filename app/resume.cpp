#include "resume.hpp"

#include "console.hpp"
#include "text_groups.hpp"
#include <mha/files/contents.hpp>
#include <mha/files/inputs.hpp>
#include <mha/files/output_file.hpp>
#include <mha/system/parse.hpp>

#include <bit>
#include <filesystem>

namespace mha::app {

namespace {

/// The first field of a state names the version that wrote it, because another one may compute
/// different bits or keep different fields.
constexpr std::string_view any_version = "mha-inspect-resume-",
                           this_version = "mha-inspect-resume-" MHA_VERSION;

std::string checksum_of(std::string_view state) {
  return Fingerprint().add(state.data(), state.size()).text();
}

} // namespace

RunState& RunState::field(std::size_t& number) {
  if (writes_) {
    text_ += fmt::format("{:x} ", number);
    return *this;
  }
  std::string_view left = rest();
  const auto found = take_number<std::size_t>(left, 16);
  if (!found || !left.starts_with(' ')) refuse();
  at_ = text_.size() - left.size() + 1;
  number = *found;
  return *this;
}

RunState& RunState::field(double& number) {
  auto bits = static_cast<std::size_t>(std::bit_cast<std::uint64_t>(number));
  field(bits);
  number = std::bit_cast<double>(static_cast<std::uint64_t>(bits));
  return *this;
}

RunState& RunState::field(bool& flag) {
  std::size_t number = flag ? 1 : 0;
  field(number);
  flag = number != 0;
  return *this;
}

RunState& RunState::field(std::string& text) {
  std::size_t size = text.size();
  field(size);
  if (writes_) {
    text_ += text;
    text_ += ' ';
    return *this;
  }
  if (size >= text_.size() - at_ || text_[at_ + size] != ' ') refuse();
  text = text_.substr(at_, size);
  at_ += size + 1;
  return *this;
}

RunState& RunState::field(MeanSpread& spread) {
  return field(spread.count).field(spread.centre).field(spread.squares);
}

void RunState::refuse() const {
  fail("{}: damaged: no valid state at byte {}; remove the file to start from the beginning", path_,
       at_);
}

std::string run_fingerprint(const OpenedModel& model, const std::string& settings) {
  const Texts& texts = *model.texts();
  Fingerprint fingerprint;
  fingerprint.add(settings);
  texts.add_to(fingerprint);
  // All texts share patches and weights, so the layers of the first text represent all.
  const OpenedModel first(model, std::make_shared<const Texts>(texts, 0, 1, "--text", true));
  for (const LayerListing& layer : first.sources().layers())
    mha::add_to(fingerprint, first.outline(layer.id));
  return fingerprint.text();
}

ResumeFile::ResumeFile(bool asked, const std::string& result)
    : asked_(asked), path_(result + ".resume") {
  std::error_code ignored;
  const bool is_not_a_file = std::filesystem::exists(result, ignored) &&
                             !std::filesystem::is_regular_file(result, ignored);
  if (asked && (result.empty() || result == "-" || is_not_a_file))
    throw UsageError("--resume keeps its state beside the result: give --output FILE");
}

std::optional<ResumeFile::Found> ResumeFile::find(const std::string& fingerprint) {
  fingerprint_ = fingerprint;
  if (!asked_ || !std::filesystem::exists(path_)) return std::nullopt;
  const io::NotAnInput not_an_input; // so that the next state may replace this one
  const io::Bytes bytes = io::read_bytes(path_);
  RunState state(std::string(bytes.text()), path_);
  const auto next_text = [](RunState& from) {
    std::string text;
    from.field(text);
    return text;
  };
  // The first field starts after its length.
  const std::string_view version_field = bytes.text().substr(bytes.text().find(' ') + 1);
  if (!version_field.starts_with(any_version))
    fail("{}: not written by --resume, which would save its state there; move the file away, or "
         "give another --output",
         path_);
  if (const std::string version = next_text(state); version != this_version)
    fail("{}: written by another version of mha-inspect ({}, this is {}), which may compute "
         "different bits; continue with that version, or remove the file to start from the "
         "beginning",
         path_, version.substr(any_version.size()), MHA_VERSION);
  const std::string checksum = next_text(state), found = checksum_of(state.rest());
  if (found != checksum)
    fail("{}: damaged: its checksum is {}, not {}; remove the file to start from the beginning",
         path_, found, checksum);
  if (next_text(state) != fingerprint)
    fail("{}: belongs to a run with another text, model, patch or setting; give the same ones to "
         "continue, remove the file to start from the beginning, or give another --output",
         path_);
  std::size_t texts = 0;
  state.field(texts);
  return Found{texts, std::move(state)};
}

void ResumeFile::write(std::size_t texts, const std::string& state) const {
  std::string fingerprint = fingerprint_, version(this_version);
  RunState run_fields;
  const std::string body = run_fields.field(fingerprint).field(texts).text() + state;
  std::string checksum = checksum_of(body);
  RunState header;
  header.field(version).field(checksum);
  io::OutputFile file(path_);
  file.write(0, header.text());
  file.write(header.text().size(), body);
  file.commit();
}

void ResumeFile::remove() {
  if (!asked_) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

GrowingFile::GrowingFile(const std::string& path) {
  if (!path.empty() && path != "-") file_.emplace(path);
}

void GrowingFile::write(std::string_view text) {
  if (!file_) return print(text);
  file_->write(size_, text);
  size_ += text.size();
}

void GrowingFile::finish() {
  if (file_)
    file_->commit();
  else
    flush();
}

void GrowingFile::visit(RunState& state) {
  std::string so_far;
  if (state.writes() && file_ && size_ > 0) {
    const io::NotAnInput not_an_input; // it is this run's own output
    so_far = io::read_bytes(file_->temporary()).text();
  }
  state.field(so_far);
  if (!state.writes()) write(so_far);
}

} // namespace mha::app
