// Access to the values of a pickle.

#include <mha/formats/pickle.hpp>

#include <mha/formats/pickle_builder.hpp>

#include <bit>

namespace mha::io {

double Pickle::real(Ref ref) const {
  return std::bit_cast<double>(nodes_[ref].a);
}

std::span<const Pickle::Ref> Pickle::items(Ref ref) const {
  switch (kind(ref)) {
  case PickleKind::list:
  case PickleKind::tuple:
  case PickleKind::dict:
  case PickleKind::set:
    return lists_[nodes_[ref].a];
  default:
    return {};
  }
}

std::string Pickle::name(Ref ref) const {
  constexpr std::size_t most_of_name = 1000; // no Python name is longer
  if (!is(ref, PickleKind::name)) return "";
  const std::string_view module = text(static_cast<Ref>(nodes_[ref].a)),
                         own = text(static_cast<Ref>(nodes_[ref].b));
  std::string whole(module.substr(0, most_of_name));
  whole += '.';
  return canonical_python_name(whole.append(own.substr(0, most_of_name)));
}

std::string Pickle::record_class(Ref ref) const {
  return name(lists_[nodes_[ref].a][0]);
}

std::vector<Pickle::Ref> Pickle::record_parts(Ref ref) const {
  const std::vector<Ref>& own = lists_[nodes_[ref].a];
  std::vector<Ref> parts(own.begin() + 1, own.end());
  if (nodes_[ref].extra != 0) parts.push_back(nodes_[ref].extra);
  if (nodes_[ref].b != 0) parts.push_back(static_cast<Ref>(nodes_[ref].b));
  return parts;
}

} // namespace mha::io
