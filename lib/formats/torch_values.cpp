#include <mha/formats/torch_values.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/eight_bits.hpp>
#include <mha/formats/pickle_walk.hpp>

#include <fmt/format.h>

namespace mha::io {

namespace {

/// The arguments of a call by position; throws Error if one does not have the expected type.
class Arguments {
public:
  Arguments(const Pickle& pickle, const std::string& where, std::span<const PickleRef> list)
      : pickle_(pickle), where_(where), list_(list) {}

  bool has(std::size_t place) const {
    return place < list_.size() && !pickle_.is(list_[place], PickleKind::none);
  }
  PickleRef value(std::size_t place, PickleKind kind, std::string_view what) const {
    if (place >= list_.size() || !pickle_.is(list_[place], kind)) refuse(what);
    return list_[place];
  }
  std::uint64_t count(std::size_t place, std::string_view what) const {
    const std::int64_t number = pickle_.integer(value(place, PickleKind::integer, what));
    if (number < 0) fail("{}: {} of {}", where_, what, number);
    return static_cast<std::uint64_t>(number);
  }
  std::vector<std::uint64_t> counts(std::size_t place, std::string_view what) const {
    constexpr std::size_t most = 1024; // the tensor's own limit is far below
    std::vector<std::uint64_t> list;
    const auto items = pickle_.items(value(place, PickleKind::tuple, what));
    if (items.size() > most) fail("{}: {} axes", where_, items.size());
    const Arguments inner(pickle_, where_, items);
    for (std::size_t i = 0; i < items.size(); ++i) list.push_back(inner.count(i, what));
    return list;
  }
  std::string text(std::size_t place, std::string_view what) const {
    if (place >= list_.size() || !pickle_.is_string(list_[place])) refuse(what);
    return std::string(pickle_.text(list_[place]));
  }
  std::string name(std::size_t place, std::string_view what) const {
    return pickle_.name(value(place, PickleKind::name, what));
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail("{}: {} is missing, or of another type", where_, what);
  }

private:
  const Pickle& pickle_;
  const std::string& where_;
  std::span<const PickleRef> list_;
};

class TorchValues {
  static constexpr std::uint64_t most_repeated = std::uint64_t{256} << 20;

public:
  TorchValues(Contents& contents, const std::shared_ptr<const PickleFile>& file,
              const FindStorage& find)
      : contents_(contents), file_(file), pickle_(file->pickle), find_(find) {}

  void add() {
    StateDict state = find_state_dict(pickle_, stem_of(contents_.name));
    for (auto& [name, value] : state.tensors) {
      const std::string where = fmt::format("{}: {}", shown(contents_.name), shown(name));
      if (pickle_.is(value, PickleKind::stored))
        add_storage(where, std::move(name), value);
      else if (pickle_.call(value) == PickleCall::tensor ||
               pickle_.call(value) == PickleCall::typed_tensor)
        add_tensor(where, std::move(name), value);
      else
        add_pickled_array(contents_, file_, std::move(name), value);
    }
    std::ranges::move(state.scalars, std::back_inserter(contents_.scalars));
    std::ranges::move(state.labels, std::back_inserter(contents_.labels));
    contents_.config.merge(state.config);
    std::ranges::move(state.notes, std::back_inserter(contents_.notes));
    require_no_scales(contents_);
    if (complex_.empty()) return;
    const std::vector<std::string_view> names(complex_.begin(), complex_.end());
    contents_.notes.push_back("complex numbers, which are not read: " + listed(names));
  }

private:
  /// Adds a storage in place of a tensor, as a row of numbers.
  void add_storage(const std::string& where, std::string name, PickleRef value) {
    const StoredId id = stored_id(pickle_, value, where);
    const DType dtype = id.type.untyped ? DType::u8 : id.type.dtype.value_or(DType::f32);
    const std::uint64_t count = id.view_count.value_or(id.count);
    add_view(where, std::move(name), id, id.type.untyped ? std::optional(dtype) : id.type.dtype,
             {id.offset, {count}, {1}});
  }

  /// _rebuild_tensor(storage, offset, size, stride); _v2 also (…, requires_grad, hooks, metadata);
  /// _v3 also (…, requires_grad, hooks, dtype, metadata).
  void add_tensor(const std::string& where, std::string name, PickleRef value) {
    const Arguments given(pickle_, where, pickle_.arguments(value));
    const StoredId id =
        stored_id(pickle_, given.value(0, PickleKind::stored, "its storage"), where);
    TorchView view{given.count(1, "its offset"), given.counts(2, "its size"),
                   given.counts(3, "its stride")};
    if (__builtin_add_overflow(view.offset, id.offset, &view.offset))
      fail("{}: its offset leads beyond any storage", where);
    const bool typed = pickle_.call(value) == PickleCall::typed_tensor;
    const TorchType type = typed ? torch_type(where, given.name(6, "its dtype")) : id.type;
    if (type.untyped) fail("{}: a storage of bytes without a dtype", where);
    if (const std::size_t place = typed ? 7 : 6; given.has(place))
      refuse_negated(where, given, place);
    const std::size_t before = contents_.tensors.size();
    add_view(where, std::move(name), id, type.dtype, view);
    if (type.floats && contents_.tensors.size() > before)
      contents_.tensors.back() = as_floats(std::move(contents_.tensors.back()), *type.floats);
  }

  /// Refuses tensors whose metadata has PyTorch's flag for negation on reading.
  void refuse_negated(const std::string& where, const Arguments& given, std::size_t place) const {
    const auto items = pickle_.items(given.value(place, PickleKind::dict, "its metadata"));
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (pickle_.is_string(items[i]) && pickle_.text(items[i]) == "neg" &&
          pickle_.is(items[i + 1], PickleKind::boolean) && pickle_.truth(items[i + 1]))
        fail("{}: its numbers are stored with the other sign: save t.resolve_neg()", where);
  }

  void add_view(const std::string& where, std::string name, const StoredId& id,
                std::optional<DType> dtype, const TorchView& view) {
    if (!dtype) {
      complex_.push_back(std::move(name));
      return;
    }
    const auto storage = find_(where, id.key, id.type, id.count);
    if (storage->dtype && *storage->dtype != *dtype)
      fail("{}: storage {} is {} here and {} elsewhere", where, shown(id.key), name_of(*dtype),
           name_of(*storage->dtype));
    Entry entry = torch_entry(where, std::move(name), *dtype, view, storage);
    if (const std::uint64_t bytes = count_of(entry.shape) * size_of(*dtype); bytes > storage->bytes)
      repeated_ += bytes;
    if (repeated_ > most_repeated)
      fail("{}: tensors that repeat their storages have {} bytes so far; at most {} are read: save "
           "t.contiguous()",
           where, repeated_, most_repeated);
    contents_.tensors.push_back(std::move(entry));
  }

  Contents& contents_;
  const std::shared_ptr<const PickleFile>& file_;
  const Pickle& pickle_;
  const FindStorage& find_;
  std::vector<std::string> complex_;
  std::uint64_t repeated_ = 0; ///< bytes of the tensors that are larger than their storages
};

} // namespace

StoredId stored_id(const Pickle& pickle, PickleRef at, const std::string& where) {
  constexpr std::string_view what = "the id of its storage";
  const std::span<const PickleRef> parts = pickle.items(pickle.stored(at));
  const Arguments given(pickle, where, parts);
  StoredId id;
  id.type = torch_type(where, given.name(1, what));
  if (parts.size() > 2 && pickle.is(parts[2], PickleKind::integer))
    id.key = std::to_string(pickle.integer(parts[2]));
  else
    id.key = given.text(2, what);
  id.count = given.count(4, what);
  if (!given.has(5)) return id;
  const auto view = pickle.items(given.value(5, PickleKind::tuple, what));
  const Arguments of_view(pickle, where, view);
  id.offset = of_view.count(1, what);
  id.view_count = of_view.count(2, what);
  if (id.offset > id.count || *id.view_count > id.count - id.offset)
    fail("{}: a view of {} numbers from {} on, of a storage of {}", where, *id.view_count,
         id.offset, id.count);
  return id;
}

void add_values(Contents& contents, const std::shared_ptr<const PickleFile>& file,
                const FindStorage& find) {
  TorchValues(contents, file, find).add();
}

} // namespace mha::io
