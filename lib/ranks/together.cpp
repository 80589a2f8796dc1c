#include <mha/ranks/together.hpp>

#include <mha/files/output_file.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/flat.hpp>
#include <mha/formats/formats.hpp>
#include <mha/layer/fingerprint.hpp>
#include <mha/ranks/ranks.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <optional>

namespace mha {

PhaseTimes compute_together(Ranks& ranks, const Layer& layer, const Plan& plan, Mergeable& observer,
                            std::size_t threads, const ComputeLayer& by) {
  // Derived stages are made of whole stages: each rank computes them, and the first uses its own.
  if (std::ranges::any_of(plan.wanted, is_derived)) return by(layer, plan, observer, threads);
  const PhaseTimes seconds = by(layer, shard_of(layer, plan, ranks.part()), observer, threads);
  gather(ranks, layer, plan, observer);
  return seconds;
}

void gather(Ranks& ranks, const Layer& layer, const Plan& plan, Mergeable& observer) {
  if (ranks.count() == 1) return;
  const auto part = [&](std::size_t rank) { return shard_of(layer, plan, {rank, ranks.count()}); };
  require_same_input(ranks, Fingerprint().add(layer).text());
  ranks.to_first(ranks.is_first() ? "" : observer.part_bytes(layer, part(ranks.rank())),
                 [&](std::size_t rank, std::string_view bytes) {
                   observer.merge_part(layer, part(rank), bytes);
                 });
}

void require_same_input(Ranks& ranks, const std::string& fingerprint) {
  if (ranks.count() == 1) return;
  const std::vector<std::string> all = ranks.all(fingerprint);
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i] != all[0])
      fail("rank {} of {} reads another layer, or was given other options, than rank 0: all ranks "
           "must see the same files",
           i, all.size());
}

namespace {

/// Writes one file from all ranks: the first rank makes it under a temporary name and renames it at
/// the end, and every rank writes its elements in place.
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
    ranks.meet(); // all ranks have opened it
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
    ranks_.meet(); // the file has its final name
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
