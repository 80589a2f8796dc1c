#include <mha/ranks/ranks.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace mha {

namespace {

// The first letter of what ranks exchange.
constexpr char fine = '=', bad = '!';

std::string bytes_of(double value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
double value_of(const std::string& bytes) {
  double value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

/// The message of the lowest rank that cannot go on; "" where all can.
std::string message_of(const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    if (text.starts_with(bad)) return text.substr(1);
  return "";
}

} // namespace

std::vector<std::string> Ranks::all(const std::string& mine) {
  std::vector<std::string> texts = exchange(fine + mine);
  if (const std::string message = message_of(texts); !message.empty()) throw RankFailed(message);
  for (std::string& text : texts) text.erase(0, 1);
  return texts;
}

std::string Ranks::failed(const std::string& message) {
  if (count_ == 1) return message;
  if (is_first()) return message_of(exchange(bad + message));
  return message_of(
      exchange(fmt::format("{}rank {} of {} on {}: {}", bad, rank_, count_, host_, message)));
}

void Ranks::to_first(const std::string& mine, const Taker& take) {
  const std::vector<std::string> sizes = all(std::to_string(mine.size()));
  if (!is_first()) return send(mine);
  // Receives everything even after a bad message, so that no rank waits for its message to be
  // received.
  std::exception_ptr problem;
  for (std::size_t rank = 1; rank < count_; ++rank) {
    const std::string bytes = receive(rank, std::stoull(sizes[rank]));
    if (problem) continue;
    try {
      take(rank, bytes);
    } catch (...) {
      problem = std::current_exception();
    }
  }
  if (problem) std::rethrow_exception(problem);
}

double Ranks::largest(double value) {
  for (const std::string& text : all(bytes_of(value))) value = std::max(value, value_of(text));
  return value;
}

double Ranks::sum(double value) {
  double sum = 0; // in the order of the ranks: the same on each
  for (const std::string& text : all(bytes_of(value))) sum += value_of(text);
  return sum;
}

std::unique_ptr<SharedFile> Ranks::open(const std::string& path) {
  fail("{}: a single rank cannot share a file", path);
}

void Ranks::send(const std::string&) {}

std::string Ranks::receive(std::size_t, std::size_t) {
  return "";
}

bool launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

bool mpirun_without_mpi() {
  if (world().count() > 1) return false;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name); size && std::strtoul(size, nullptr, 10) > 1)
      return true;
  return false;
}

Ranks& world() {
  static const std::unique_ptr<Ranks> ranks = [] {
    std::unique_ptr<Ranks> joined = launched_by_mpi() ? join_mpi() : nullptr;
    return joined ? std::move(joined) : std::make_unique<Ranks>();
  }();
  return *ranks;
}

} // namespace mha
