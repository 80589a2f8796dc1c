#include <mha/model/independent_passes.hpp>

#include <mha/system/parallel.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace mha {

namespace {

// Passes with more rows run one after the other with all threads. Measured on two cores with a
// model of GPT-2 small's size: the threads of one pass keep 1.7 cores busy with 128 rows, 1.95 with
// 1,024. The limit also bounds the memory of passes that run side by side.
constexpr std::size_t max_rows_side_by_side = 512;

/// The number of passes whose rows fit into one stream. 1 if there are several texts, or if patches
/// apply after the last layer, where they name positions of the text.
std::size_t passes_per_stream(const TextLayers& layers, const IndependentPasses& passes) {
  const std::size_t texts = layers.texts().lengths().size(), places = passes.places.size();
  if (texts > 1 || places == 0 || !layers.ends(layers.embedded().x).patches.list.empty()) return 1;
  return std::max<std::size_t>(1, layers.texts().tokens() / places);
}

/// Copies row j of one tensor to row i of another: a matrix, or a stream of a single text.
void copy_row(Tensor& to, std::size_t i, const Tensor& from, std::size_t j) {
  const std::size_t bytes = to.shape().back() * size_of(to.dtype());
  std::memcpy(to.raw_mutable() + i * bytes, from.raw() + j * bytes, bytes);
}

/// The rows of a stream after the last layer at the given places, with shape (places, d_model).
Tensor rows_of_places(const Tensor& stream, const std::vector<TextPosition>& places) {
  Tensor rows = Tensor::uninitialised(stream.dtype(), {places.size(), stream.shape().back()});
  for (std::size_t i = 0; i < places.size(); ++i) copy_row(rows, i, stream, places[i].second);
  return rows;
}

/// Visits the rows of passes [first, last), which are put into one stream one after the other, so
/// that the unembedding is read once for all of them.
void visit_in_one_stream(const TextLayers& layers, const IndependentPasses& passes,
                         const std::vector<Tensor>& rows, std::size_t first, std::size_t last,
                         const VisitPassRow& visit) {
  const std::size_t places = passes.places.size(), d_model = rows[first].shape()[1];
  Tensor stream(rows[first].dtype(), {1, layers.texts().tokens(), d_model}); // zeros
  std::vector<TextPosition> positions;
  for (std::size_t r = first; r < last; ++r)
    for (std::size_t i = 0; i < places; ++i) {
      copy_row(stream, positions.size(), rows[r], i);
      positions.emplace_back(0, positions.size());
    }
  visit_predictions(
      layers.ends(stream), positions, passes.threads,
      [&](std::size_t k, const PredictionRow& row) { visit(first + k / places, k % places, row); });
}

} // namespace

void independent_passes(std::size_t count, std::size_t rows, std::size_t threads,
                        const std::function<void(std::size_t, std::size_t)>& pass,
                        const std::function<void(std::size_t)>& reached) {
  const bool side_by_side = rows <= max_rows_side_by_side &&
                            workers_for(count, threads) == workers_for(SIZE_MAX, threads);
  std::atomic<std::size_t> done = 0;
  std::size_t last_reached = 0;
  const std::thread::id caller = std::this_thread::get_id();
  parallel_for(count, side_by_side ? threads : 1, [&](std::size_t i) {
    pass(i, side_by_side ? 1 : threads);
    const std::size_t done_now = ++done;
    if (reached && std::this_thread::get_id() == caller) reached(last_reached = done_now);
  });
  if (reached && last_reached < count) reached(count);
}

void visit_passes(const TextLayers& layers, const IndependentPasses& passes,
                  const VisitPassRow& visit) {
  const auto report_progress = [&](std::size_t done) {
    const auto count = static_cast<double>(passes.count);
    if (passes.progress) passes.progress(passes.count == 0 ? 1 : static_cast<double>(done) / count);
  };
  report_progress(0);
  const std::size_t per_stream = passes_per_stream(layers, passes);
  std::vector<Tensor> rows(per_stream > 1 ? passes.count : 0);
  independent_passes(
      passes.count, layers.texts().tokens(), passes.threads,
      [&](std::size_t r, std::size_t threads) {
        const Tensor stream = passes.stream(r, threads);
        if (per_stream > 1)
          rows[r] = rows_of_places(stream, passes.places);
        else
          visit_predictions(layers.ends(stream), passes.places, threads,
                            [&](std::size_t i, const PredictionRow& row) { visit(r, i, row); });
      },
      report_progress);
  for (std::size_t first = 0; first < rows.size(); first += per_stream)
    visit_in_one_stream(layers, passes, rows, first, std::min(first + per_stream, rows.size()),
                        visit);
}

} // namespace mha
