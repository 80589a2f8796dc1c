// One file, written by all ranks: the first makes it, each writes its elements where they belong,
// the first gives it its name.

#include <mha/files/output_file.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/flat.hpp>
#include <mha/formats/formats.hpp>
#include <mha/ranks/ranks.hpp>

#include <atomic>
#include <filesystem>
#include <numeric>
#include <optional>

namespace mha {

namespace {

class SharedWriter : public io::Writer {
public:
  SharedWriter(Ranks& ranks, std::string path, std::string_view format, const io::Output& output)
      : ranks_(ranks),
        path_(std::move(path)),
        items_(output.items),
        layout_(io::layout_for(path_, format, {items_, output.scalars, output.labels})) {
    std::string temporary;
    if (ranks.is_first()) {
      whole_.emplace(path_);
      if (whole_->temporary().empty())
        fail("{}: several processes write a file together, not a stream", io::shown(path_));
      temporary = std::filesystem::absolute(whole_->temporary()).string();
      whole_->write(0, layout_.header);
      whole_->resize(layout_.size);
    }
    file_ = ranks.open(ranks.from_first(temporary));
    ranks.meet(); // all have it open
  }

  void write(std::size_t item, std::size_t offset, const std::byte* data,
             std::size_t count) override {
    const std::size_t all = count_of(items_[item].shape), element = size_of(items_[item].dtype);
    if (offset > all || count > all - offset)
      fail("{}: elements {} to {} are outside of {}", io::shown(path_), offset, offset + count,
           io::shown(items_[item].name));
    file_->write(layout_.offsets[item] + offset * element, data, count * element);
    written_ += count;
  }

  void finish() override {
    file_->close();
    std::size_t written = 0, all = 0;
    for (const std::string& text : ranks_.all(std::to_string(written_)))
      written += std::stoull(text);
    for (const io::Item& item : items_) all += count_of(item.shape);
    if (written != all)
      fail("{}: {} elements were written, not {}: do all ranks read the same files?",
           io::shown(path_), written, all);
    if (whole_) whole_->commit();
    ranks_.meet(); // it is there
  }

private:
  Ranks& ranks_;
  std::string path_;
  std::vector<io::Item> items_;
  io::Layout layout_;
  std::optional<io::OutputFile>
      whole_;                        ///< of the first rank: its temporary name, and the final one
  std::unique_ptr<SharedFile> file_; ///< after whole_: closed before that is removed
  std::atomic<std::size_t> written_ = 0;
};

} // namespace

std::unique_ptr<io::Writer> create_together(Ranks& ranks, const std::string& path,
                                            std::string_view format, const io::Output& output) {
  if (ranks.count() == 1) return io::create(path, format, output);
  return std::make_unique<SharedWriter>(ranks, path, format, output);
}

} // namespace mha
