#include "support/thread_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace {

/// What the threads share: where they meet, and what they send to the first.
class Meeting {
public:
  explicit Meeting(std::size_t count) : texts_(count), sent_(count) {}
  std::size_t count() const { return texts_.size(); }

  std::vector<std::string> exchange(std::size_t rank, const std::string& mine) {
    std::unique_lock hold(lock_);
    texts_[rank] = mine;
    const std::size_t round = round_;
    if (++here_ < count()) {
      changed_.wait(hold, [&] { return round_ != round; });
    } else {
      heard_ = texts_;
      here_ = 0, ++round_;
      changed_.notify_all();
    }
    return heard_; // the next round ends when all have left this one
  }
  void send(std::size_t rank, const std::string& bytes) {
    const std::lock_guard hold(lock_);
    sent_[rank].push_back(bytes);
    changed_.notify_all();
  }
  std::string receive(std::size_t rank) {
    std::unique_lock hold(lock_);
    changed_.wait(hold, [&] { return !sent_[rank].empty(); });
    std::string bytes = std::move(sent_[rank].front());
    sent_[rank].pop_front();
    return bytes;
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::size_t here_ = 0, round_ = 0;
  std::vector<std::string> texts_, heard_;
  std::vector<std::deque<std::string>> sent_;
};

class ThreadRank : public mha::Ranks {
public:
  ThreadRank(Meeting& meeting, std::size_t rank) : meeting_(meeting) {
    rank_ = rank, count_ = meeting.count();
    host_ = "test";
  }

protected:
  std::vector<std::string> exchange(const std::string& mine) override {
    return meeting_.exchange(rank_, mine);
  }
  void send(const std::string& bytes) override { meeting_.send(rank_, bytes); }
  std::string receive(std::size_t rank, std::size_t) override { return meeting_.receive(rank); }

private:
  Meeting& meeting_;
};

} // namespace

std::string run_ranks(std::size_t count, const std::function<void(mha::Ranks& ranks)>& work) {
  Meeting meeting(count);
  std::vector<std::string> messages(count);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      ThreadRank ranks(meeting, rank);
      try {
        work(ranks);
        ranks.meet();
      } catch (const mha::RankFailed& error) {
        messages[rank] = error.what();
      } catch (const std::exception& error) {
        messages[rank] = ranks.failed(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (std::count(messages.begin(), messages.end(), messages[0]) ==
      static_cast<std::ptrdiff_t>(count))
    return messages[0];
  return fmt::format("{}", fmt::join(messages, " | "));
}
