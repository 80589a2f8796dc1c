#include <mha/load/families/reads.hpp>

namespace mha::naming {

namespace {

void insert_once(Reads::Names& names, std::string_view name) {
  if (!names.contains(name)) names.emplace(name);
}

} // namespace

void Reads::ask_setting(std::string_view key) {
  const std::lock_guard hold(lock_);
  insert_once(settings_, key);
}
void Reads::ask_tensor(std::string_view name) {
  const std::lock_guard hold(lock_);
  insert_once(tensors_, name);
}
void Reads::use(std::string_view name) {
  const std::lock_guard hold(lock_);
  insert_once(used_, name);
}

void Reads::skip(std::string_view name) {
  const std::lock_guard hold(lock_);
  insert_once(skipped_, name);
}

void Reads::overrule(std::string_view key) {
  const std::lock_guard hold(lock_);
  insert_once(overruled_, key);
}

bool Reads::asked_setting(std::string_view key) const {
  const std::lock_guard hold(lock_);
  return settings_.contains(key);
}
bool Reads::overruled(std::string_view key) const {
  const std::lock_guard hold(lock_);
  return overruled_.contains(key);
}
bool Reads::used(std::string_view name) const {
  const std::lock_guard hold(lock_);
  return used_.contains(name);
}
bool Reads::skipped(std::string_view name) const {
  const std::lock_guard hold(lock_);
  return skipped_.contains(name);
}
Reads::Names Reads::settings() const {
  const std::lock_guard hold(lock_);
  return settings_;
}
Reads::Names Reads::tensors() const {
  const std::lock_guard hold(lock_);
  return tensors_;
}

} // namespace mha::naming
