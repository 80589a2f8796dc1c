#include <mha/formats/pickle_builder.hpp>

#include <mha/system/named.hpp>

#include <algorithm>

namespace mha::io {

namespace {

using RuleKind = PickleRule::Kind;

struct RuleRow {
  std::string_view name;
  PickleRule rule;
};

constexpr RuleRow pickle_rules[] = {
    {"collections.OrderedDict", {RuleKind::dict}},
    {"collections.defaultdict", {RuleKind::dict}},
    {"collections.Counter", {RuleKind::dict}}, // torchtext's frequencies
    {"collections.deque", {RuleKind::list}},
    {"builtins.set", {RuleKind::set}},
    {"builtins.frozenset", {RuleKind::set}},
    {"copyreg._reconstructor", {RuleKind::reconstructor}},
    {"_codecs.encode", {RuleKind::encode}},
    {"builtins.bytes", {RuleKind::empty_bytes}}, // of protocols below 3
    {"torch._utils._rebuild_tensor", {RuleKind::call, PickleCall::tensor}},
    {"torch._utils._rebuild_tensor_v2", {RuleKind::call, PickleCall::tensor}},
    {"torch._utils._rebuild_tensor_v3", {RuleKind::call, PickleCall::typed_tensor}},
    {"torch._utils._rebuild_parameter", {RuleKind::first_argument}},
    {"torch._utils._rebuild_parameter_with_state", {RuleKind::first_argument}},
    {"torch._tensor._rebuild_from_type", {RuleKind::from_type}}, // of tensors with attributes
    {"torch._tensor._rebuild_from_type_v2", {RuleKind::from_type}},
    {"torch.tensor._rebuild_from_type", {RuleKind::from_type}},
    {"torch.nn.parameter.Parameter", {RuleKind::first_argument}}, // before 1.0
    {"torch.nn.backends.thnn._get_thnn_function_backend",
     {RuleKind::argument_tuple}}, // of modules before 1.3
    {"torch.Size", {RuleKind::first_argument}},
    {"torch.device", {RuleKind::first_argument}},
    {"torch.serialization._get_layout", {RuleKind::first_argument}},
    // TorchScript writes the type of a list beside it.
    {"torch.jit._pickle.build_intlist", {RuleKind::first_argument}},
    {"torch.jit._pickle.build_doublelist", {RuleKind::first_argument}},
    {"torch.jit._pickle.build_boollist", {RuleKind::first_argument}},
    {"torch.jit._pickle.build_tensorlist", {RuleKind::first_argument}},
    {"torch.jit._pickle.restore_type_tag", {RuleKind::first_argument}},
    {"numpy.core.multiarray._reconstruct", {RuleKind::call, PickleCall::array}},
    {"numpy.core.numeric._frombuffer", {RuleKind::call, PickleCall::flat_array}},
    {"numpy.core.multiarray.scalar", {RuleKind::call, PickleCall::number}},
    {"numpy.dtype", {RuleKind::call, PickleCall::dtype}},
    {"pathlib.PosixPath", {RuleKind::argument_tuple}},
    {"pathlib.WindowsPath", {RuleKind::argument_tuple}},
    {"pathlib.PurePosixPath", {RuleKind::argument_tuple}},
    {"pathlib.PureWindowsPath", {RuleKind::argument_tuple}},
    {"pathlib._local.PosixPath", {RuleKind::argument_tuple}},
    {"pathlib._local.WindowsPath", {RuleKind::argument_tuple}},
    {"pathlib._local.PurePosixPath", {RuleKind::argument_tuple}},
    {"pathlib._local.PureWindowsPath", {RuleKind::argument_tuple}},
    // Values in settings and training states that are not needed.
    {"functools.partial", {RuleKind::inert}},
    {"operator.itemgetter", {RuleKind::inert}},
    {"operator.attrgetter", {RuleKind::inert}},
    {"operator.methodcaller", {RuleKind::inert}},
    {"datetime.date", {RuleKind::inert}},
    {"datetime.time", {RuleKind::inert}},
    {"datetime.datetime", {RuleKind::inert}},
    {"datetime.timedelta", {RuleKind::inert}},
    {"datetime.timezone", {RuleKind::inert}},
    {"decimal.Decimal", {RuleKind::inert}},
    {"fractions.Fraction", {RuleKind::inert}},
    {"types.SimpleNamespace", {RuleKind::inert}},
    {"random.Random", {RuleKind::inert}},
    {"re._compile", {RuleKind::inert}},
    {"builtins.bytearray", {RuleKind::inert}},
    {"builtins.complex", {RuleKind::inert}},
    {"builtins.range", {RuleKind::inert}},
    {"builtins.xrange", {RuleKind::inert}},
    {"builtins.slice", {RuleKind::inert}},
    {"numpy.random._pickle.__randomstate_ctor", {RuleKind::inert}},
    {"numpy.random._pickle.__generator_ctor", {RuleKind::inert}},
    {"numpy.random._pickle.__bit_generator_ctor", {RuleKind::inert}},
};

struct RefusalRow {
  std::string_view part, why;
};

constexpr RefusalRow pickle_refusals[] = {
    {"torch._utils._rebuild_qtensor", "a quantised tensor, which is not read: save t.dequantize()"},
    {"torch._utils._rebuild_meta_tensor",
     "a tensor of the device meta, which has a shape and no numbers: load the model before it is "
     "saved"},
    {"torch._utils._rebuild_sparse", "a sparse tensor, which is not read: save t.to_dense()"},
    {"torch.storage._load_from_bytes",
     "a pickle within the pickle, which is not read: save it by torch.save instead of pickle"},
    {"torch.ops.quantized",
     "packed weights of a quantised module, which are not read: save the module before it is "
     "quantised"},
    {"", "and a pickle's calls are not carried out, but for containers, tensors and arrays: save "
         "tensors alone, as in torch.save(model.state_dict(), 'weights.pt')"},
};

} // namespace

std::string canonical_python_name(std::string name) {
  constexpr std::pair<std::string_view, std::string_view> modules[] = {
      {"__builtin__.", "builtins."}, {"copy_reg.", "copyreg."}, {"numpy._core.", "numpy.core."}};
  for (const auto& [other, canonical] : modules)
    if (name.starts_with(other)) return std::string(canonical) + name.substr(other.size());
  return name;
}

std::optional<PickleRule> rule_of(std::string_view name) {
  const RuleRow* const found = find_named(pickle_rules, name);
  return found ? std::optional(found->rule) : std::nullopt;
}

std::string_view refusal_of(std::string_view name) {
  return std::ranges::find_if(pickle_refusals,
                              [&](const RefusalRow& row) { return name.starts_with(row.part); })
      ->why;
}

} // namespace mha::io
