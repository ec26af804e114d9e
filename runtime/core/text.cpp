//===- text.cpp - words for messages --------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "tandem_rt/tensor.h"

namespace tandem::rt {

std::string shapeText(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string typeName(ElementType type, const Shape &shape) {
  return concat(elementName(type), shapeText(shape));
}

namespace {
template <typename Entries>
std::string entryText(const char *kind, const Entries &entries,
                      uint32_t index) {
  if (index >= entries.size())
    return concat(kind, " ", index);
  return concat(kind, " '", entries[index].role, "/", entries[index].name, "'");
}

void addForm(std::string &text, const std::string &item) {
  text += (text.empty() ? "" : ", ") + item;
}
} // namespace

std::string spaceText(const Program &program, const BufferRef &ref) {
  switch (ref.space) {
  case Space::Arena:
    return concat("arena ", ref.index);
  case Space::Argument:
    return entryText("argument", program.arguments, ref.index);
  case Space::Result:
    return entryText("result", program.results, ref.index);
  case Space::Constant:
    return concat("constant ", ref.index);
  }
  return "?";
}

std::string bufferText(const Program &program, const BufferRef &ref,
                       int64_t rank, int64_t iteration) {
  int64_t begin = program.evaluate(ref.offset, rank, iteration), end;
  if (__builtin_add_overflow(begin, ref.bytes, &end))
    return concat(spaceText(program, ref), " [", begin, ", +", ref.bytes, ")");
  return concat(spaceText(program, ref), " [", begin, ", ", end, ")");
}

std::string commandText(const Command &command) {
  std::string text = concat("command ", command.id, " '", command.name, "'");
  if (!command.location.empty())
    text += concat(" (", command.location, ")");
  return text;
}

std::string siteText(const Launch &launch, uint64_t site) {
  bool isNamed = site < launch.sites.size() && !launch.sites[site].empty();
  return isNamed ? launch.sites[site] + ": " : "";
}

std::string_view memoryKindName(MemoryKind kind) {
  static constexpr std::string_view kNames[] = {"host", "device", "pinned"};
  return kNames[size_t(kind)];
}

std::string_view codeKindName(CodeKind kind) {
  static constexpr std::string_view kNames[] = {"shared object", "ptx",
                                                "cubin"};
  return kNames[size_t(kind)];
}

std::string formText(const Program &program, const Form &form) {
  std::string text;
  for (size_t dim = 0; dim < form.dims.size(); ++dim) {
    if (form.dims[dim].timeFactor != 1)
      addForm(text, concat("time(", dim, "): ", form.dims[dim].timeFactor));
    for (uint32_t axis : form.dims[dim].axes)
      addForm(text, concat(program.mesh[axis].name, ": gather(", dim, ")"));
  }
  for (uint32_t axis : form.reduce)
    addForm(text, program.mesh[axis].name + ": reduce");
  for (const AxisPoint &at : form.at)
    addForm(text, concat(program.mesh[at.axis].name, ": at(", at.point, ")"));
  return text.empty() ? "full" : text;
}

} // namespace tandem::rt
