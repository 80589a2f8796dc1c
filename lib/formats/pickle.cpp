// Access to the values of a pickle.

#include <mha/formats/pickle.hpp>

#include <mha/formats/pickle_builder.hpp>

#include <bit>

namespace mha::io {

double Pickle::real(Ref at) const {
  return std::bit_cast<double>(nodes_[at].a);
}

std::span<const Pickle::Ref> Pickle::items(Ref at) const {
  switch (kind(at)) {
  case PickleKind::list:
  case PickleKind::tuple:
  case PickleKind::dict:
  case PickleKind::set:
    return lists_[nodes_[at].a];
  default:
    return {};
  }
}

std::string Pickle::name(Ref at) const {
  constexpr std::size_t most_of_name = 1000; // no Python name is longer
  if (!is(at, PickleKind::name)) return "";
  const std::string_view module = text(static_cast<Ref>(nodes_[at].a)),
                         own = text(static_cast<Ref>(nodes_[at].b));
  std::string whole(module.substr(0, most_of_name));
  whole += '.';
  return canonical_python_name(whole.append(own.substr(0, most_of_name)));
}

std::string Pickle::record_class(Ref at) const {
  return name(lists_[nodes_[at].a][0]);
}

std::vector<Pickle::Ref> Pickle::record_parts(Ref at) const {
  const std::vector<Ref>& own = lists_[nodes_[at].a];
  std::vector<Ref> parts(own.begin() + 1, own.end());
  if (nodes_[at].extra != 0) parts.push_back(nodes_[at].extra);
  if (nodes_[at].b != 0) parts.push_back(static_cast<Ref>(nodes_[at].b));
  return parts;
}

} // namespace mha::io
