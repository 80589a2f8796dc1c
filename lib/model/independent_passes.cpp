#include <mha/model/independent_passes.hpp>

#include <mha/system/parallel.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace mha {

namespace {

// Measured with GPT-2 small's size on two cores: 128 rows keep 1.7 of them busy, 1,024 rows 1.95.
// It also bounds the memory that passes side by side take.
constexpr std::size_t few_rows_of_pass = 512;

/// The number of passes whose rows fit one stream of a lone text. 1 for several texts, and where a
/// patch names positions after the last layer.
std::size_t passes_of_stream(const TextLayers& layers, const IndependentPasses& passes) {
  const std::size_t texts = layers.texts().lengths().size(), places = passes.places.size();
  if (texts > 1 || places == 0 || !layers.ends(layers.embedded().x).patches.list.empty()) return 1;
  return std::max<std::size_t>(1, layers.texts().tokens() / places);
}

/// Copies row j of a stream of a lone text, or of a matrix, to row i of another.
void copy_row(Tensor& to, std::size_t i, const Tensor& from, std::size_t j) {
  const std::size_t bytes = to.shape().back() * size_of(to.dtype());
  std::memcpy(to.raw_mutable() + i * bytes, from.raw() + j * bytes, bytes);
}

/// The places' rows of a stream after the last layer: places, d_model.
Tensor rows_of_places(const Tensor& stream, const std::vector<TextPosition>& places) {
  Tensor rows = Tensor::uninitialised(stream.dtype(), {places.size(), stream.shape().back()});
  for (std::size_t i = 0; i < places.size(); ++i) copy_row(rows, i, stream, places[i].second);
  return rows;
}

/// Visits the rows of passes [first, last) through one stream, which holds them one after the
/// other.
void visit_together(const TextLayers& layers, const IndependentPasses& passes,
                    const std::vector<Tensor>& rows, std::size_t first, std::size_t last,
                    const VisitPassRow& visit) {
  const std::size_t places = passes.places.size(), d_model = rows[first].shape()[1];
  Tensor stream(rows[first].dtype(), {1, layers.texts().tokens(), d_model}); // zeros
  std::vector<TextPosition> at;
  for (std::size_t r = first; r < last; ++r)
    for (std::size_t i = 0; i < places; ++i) {
      copy_row(stream, at.size(), rows[r], i);
      at.emplace_back(0, at.size());
    }
  visit_predictions(
      layers.ends(stream), at, passes.threads,
      [&](std::size_t k, const PredictionRow& row) { visit(first + k / places, k % places, row); });
}

} // namespace

void independent_passes(std::size_t count, std::size_t rows, std::size_t threads,
                        const std::function<void(std::size_t, std::size_t)>& pass,
                        const std::function<void(std::size_t)>& reached) {
  const bool side_by_side =
      rows <= few_rows_of_pass && workers_for(count, threads) == workers_for(SIZE_MAX, threads);
  std::atomic<std::size_t> done = 0;
  std::size_t last_reached = 0;
  const std::thread::id caller = std::this_thread::get_id();
  parallel_for(count, side_by_side ? threads : 1, [&](std::size_t i) {
    pass(i, side_by_side ? 1 : threads);
    const std::size_t so_far = ++done;
    if (reached && std::this_thread::get_id() == caller) reached(last_reached = so_far);
  });
  if (reached && last_reached < count) reached(count);
}

void visit_passes(const TextLayers& layers, const IndependentPasses& passes,
                  const VisitPassRow& visit) {
  const auto reached = [&](std::size_t done) {
    const auto all = static_cast<double>(passes.count);
    if (passes.progress) passes.progress(passes.count == 0 ? 1 : static_cast<double>(done) / all);
  };
  reached(0);
  const std::size_t together = passes_of_stream(layers, passes);
  std::vector<Tensor> rows(together > 1 ? passes.count : 0);
  independent_passes(
      passes.count, layers.texts().tokens(), passes.threads,
      [&](std::size_t r, std::size_t threads) {
        const Tensor stream = passes.stream(r, threads);
        if (together > 1)
          rows[r] = rows_of_places(stream, passes.places);
        else
          visit_predictions(layers.ends(stream), passes.places, threads,
                            [&](std::size_t i, const PredictionRow& row) { visit(r, i, row); });
      },
      reached);
  for (std::size_t first = 0; first < rows.size(); first += together)
    visit_together(layers, passes, rows, first, std::min(first + together, rows.size()), visit);
}

} // namespace mha
