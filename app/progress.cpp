#include "progress.hpp"

#include "console.hpp"
#include <mha/model/run.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/error.hpp>
#include <mha/system/watch.hpp>

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace mha::app {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds patience{1000}; // before the bar appears
constexpr std::chrono::milliseconds interval{100};  // between two updates

std::atomic<bool> drawn = false;

void write_to_terminal(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return; // the terminal is gone
}

/// "7 s", "3 min 20 s", "2 h 5 min".
std::string duration(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

class Bar : public Watcher {
public:
  void expect(std::size_t layers) { layers_ = std::max<std::size_t>(layers, 1); }

  void begin(double work) override {
    const std::lock_guard hold(lock_);
    const Clock::time_point now = Clock::now();
    ++begun_;
    if (begun_ == 1 || layers_ == 1) started_ = now;
    total_ = work;
    done_ = 0;
  }

  void advance(double done) override {
    const std::unique_lock hold(lock_);
    done_ += done, all_done_ += done;
    const Clock::time_point now = Clock::now();
    if (now - started_ < patience || now - shown_ < interval) return;
    shown_ = now;
    draw(std::chrono::duration<double>(now - started_).count());
  }

  void end() override {
    const std::lock_guard hold(lock_);
    if (layers_ == 1) all_done_ = 0;
    clear_progress();
  }

private:
  void draw(double seconds) {
    const double part = total_ > 0 ? std::min(done_ / total_, 1.0) : 1;
    const double layers = static_cast<double>(layers_);
    // Every layer is assumed to be as much work as this one.
    const double whole =
        std::min((static_cast<double>(std::min(begun_, layers_)) - 1 + part) / layers, 1.0);
    std::string text = fmt::format(" {:3.0f} % · {:.1f} GFLOP/s · {} left", std::floor(whole * 100),
                                   all_done_ / seconds * 1e-9,
                                   duration(seconds * (1 - whole) / std::max(whole, 1e-3)));
    if (layers_ > 1) text += fmt::format(" · layer {} of {}", std::min(begun_, layers_), layers_);
    const render::TextStyle text_style = text_style_of_messages(Color::automatic);
    const std::size_t used = render::display_width(text) + 1;
    const std::size_t cells =
        text_style.width > used + 10 ? std::min<std::size_t>(text_style.width - used, 30) : 0;
    const auto full = static_cast<std::size_t>(whole * static_cast<double>(cells));
    std::string bar;
    for (std::size_t i = 0; i < cells; ++i) bar += i < full ? "━" : "╌";
    drawn = true;
    write_to_terminal("\r" + bar + render::shortened(text, text_style.width - 1) + "\x1b[K");
  }

  std::mutex lock_;
  std::size_t layers_ = 1, begun_ = 0;
  double total_ = 0, done_ = 0, all_done_ = 0; ///< operations, of this computation and of all
  Clock::time_point started_, shown_;
};

} // namespace

void show_progress(std::size_t layers) {
  const char* term = std::getenv("TERM");
  if (isatty(STDERR_FILENO) != 1 || !term || std::strcmp(term, "dumb") == 0) return;
  static auto* bar = new Bar; // never deleted: threads may report to it until the end
  bar->expect(layers);
  watch_computations(bar);
}

void clear_progress() noexcept {
  if (drawn.exchange(false)) write_to_terminal("\r\x1b[K");
}

MoreTimings passes_of(const WorkCount& work, const OpenedModel& model, std::size_t threads) {
  const double operations = work.operations();
  const Uncounted unit(model.sources());
  const WorkCount one;
  const std::shared_ptr<const TextLayers> made = model.text_layers();
  const TextLayers& layers = *made;
  Advance pass;
  pass.threads = threads;
  const Layer ends = layers.ends(advance(layers, layers.embedded(), layers.count(), pass).x);
  if (ends.ends->has(Stage::logits)) trace(ends, {Stage::logits}, {}, threads);
  return [operations, passes = operations / one.operations()](render::JsonText& json) {
    json.key("operations").raw(fmt::format("{:.6g}", operations));
    add_fixed(json, "passes", passes, 2);
  };
}

} // namespace mha::app
