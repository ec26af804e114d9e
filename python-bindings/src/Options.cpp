//===- Options.cpp - the table of options in Python -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include "tandem/Execution/Compile.h"
#include "tandem/Execution/OptionValues.h"
#include <algorithm>

namespace tandem::python {

namespace {
/// `search-time-limit` as a keyword.
std::string nameOf(const OptionInfo &row) {
  std::string name(row.texts.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

const char *typeOf(const OptionInfo &row) {
  switch (row.getType()) {
  case OptionType::Flag:
    return "flag";
  case OptionType::Count:
    return "count";
  case OptionType::Bytes:
    return "bytes";
  case OptionType::Seconds:
    return "seconds";
  case OptionType::Integer:
    return "integer";
  case OptionType::Text:
  case OptionType::Device:
    return "text";
  case OptionType::Texts:
    return "texts";
  default:
    return "any";
  }
}

/// A member that says what a value of `texts` is.
template <auto Field> auto get(const OptionInfo &row) {
  return row.texts.*Field;
}

/// What the compiler does without the option; None for one of Python alone.
nb::object defaultOf(const OptionInfo &row) {
  Options options;
  return std::visit(
      [&](auto member) -> nb::object {
        if constexpr (std::is_same_v<decltype(member), std::monostate>)
          return nb::none();
        else
          return nb::cast(options.*member);
      },
      row.member);
}

void bindMember(nb::class_<CompileOptions> &options, const OptionInfo &row) {
  std::string name = nameOf(row);
  std::visit(
      [&](auto member) {
        if constexpr (!std::is_same_v<decltype(member), std::monostate>) {
          using Value = std::decay_t<decltype(std::declval<Options>().*member)>;
          options.def_prop_rw(
              name.c_str(),
              [member](const CompileOptions &self) { return self.*member; },
              [member](CompileOptions &self, Value value) {
                self.*member = std::move(value);
              });
        }
      },
      row.member);
}

bool hasMember(const OptionInfo &row) {
  return !std::holds_alternative<std::monostate>(row.member);
}
} // namespace

void bindOptions(nb::module_ &module) {
  nb::class_<CompileOptions> options(module, "CompileOptions");
  options.def(nb::init<>())
      .def_rw("uses_cache", &CompileOptions::usesCache)
      .def_rw("weighs_pipelines", &CompileOptions::weighsPipelines);
  for (const OptionInfo &row : getOptionTable())
    bindMember(options, row);
  nb::class_<OptionInfo>(module, "OptionInfo")
      .def_prop_ro("name", &nameOf)
      .def_prop_ro("type", &typeOf)
      .def_prop_ro("flag", &OptionInfo::getFlag)
      .def_prop_ro("default", &defaultOf)
      .def_ro("reader", &OptionInfo::reader)
      .def_ro("initial", &OptionInfo::initial)
      .def_prop_ro("has_member", &hasMember)
      .def_prop_ro("value", &get<&OptionTexts::value>)
      .def_prop_ro("is_step", &get<&OptionTexts::isStep>)
      .def_prop_ro("is_command", &get<&OptionTexts::isCommand>)
      .def_prop_ro("is_python", &get<&OptionTexts::isPython>)
      .def_prop_ro("is_flag", &get<&OptionTexts::isFlag>)
      .def_prop_ro("is_path", &get<&OptionTexts::isPath>)
      .def_prop_ro("is_compared", &get<&OptionTexts::isCompared>)
      .def_prop_ro("most", &get<&OptionTexts::most>)
      .def_prop_ro("choices", &getChoices)
      .def_prop_ro("help", &getHelp)
      .def_prop_ro("python", &get<&OptionTexts::python>)
      .def_prop_ro("expected", &getExpected);
  nb::enum_<PresetBatch>(module, "PresetBatch")
      .value("WHOLE", PresetBatch::Whole)
      .value("DATA", PresetBatch::Data)
      .value("DATA_OF_SEVERAL", PresetBatch::DataOfSeveral)
      .value("ALL", PresetBatch::All);
  nb::class_<PresetInfo>(module, "PresetInfo")
      .def_ro("name", &PresetInfo::name)
      .def_ro("help", &PresetInfo::help)
      .def_ro("batch", &PresetInfo::batch);
  module.attr("default_preset") = kDefaultPreset;
  module.def("option_table", &getOptionTable,
             "The rows of Options.def, in its order.");
  module.def(
      "parse_byte_size",
      [](const std::string &text) { return parseByteSize(text); },
      "Bytes of a text such as '24GiB'; None for another one.");
  module.def("has_architecture", &hasArchitecture, nb::arg("device"),
             nb::arg("architecture"),
             "Whether code for the device can be made for the architecture.");
  module.def("preset_table", &getPresetTable, "The rows of Presets.def.");
}

} // namespace tandem::python
