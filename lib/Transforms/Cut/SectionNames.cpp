//===- SectionNames.cpp - the names of a section's parameters -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Support/Glob.h"
#include "tandem/Transforms/Cut/Cut.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace tandem;

namespace {
/// No section.
constexpr int64_t kNone = -1;
/// Of what is below a module: several sections.
constexpr int64_t kSeveral = -2;
/// What a message lists of a section's names.
constexpr size_t kMostListed = 6;
} // namespace

/// Ends of the modules in a name: `a.`, `a.b.`.
static SmallVector<StringRef> getModules(StringRef name) {
  SmallVector<StringRef> modules;
  for (size_t end = name.find('.'); end != StringRef::npos;
       end = name.find('.', end + 1))
    modules.push_back(name.take_front(end + 1));
  return modules;
}

SmallVector<SectionNames> tandem::nameSections(func::FuncOp step) {
  std::vector<std::pair<StringRef, int64_t>> parameters;
  std::map<StringRef, int64_t> modules;
  SmallVector<SectionNames> names;
  for (unsigned index = 0; index < step.getNumArguments(); ++index) {
    DictionaryAttr attributes = step.getArgAttrDict(index);
    if (nn::getRole(attributes) != nn::Role::Parameter)
      continue;
    StringRef name = nn::getTensorName(attributes);
    int64_t section =
        getInteger(attributes, spmd::kSectionAttrName).value_or(kNone);
    parameters.emplace_back(name, section);
    for (StringRef module : getModules(name)) {
      auto [entry, isNew] = modules.try_emplace(module, section);
      if (!isNew && entry->second != section)
        entry->second = kSeveral;
    }
    names.resize(std::max<size_t>(names.size(), section + 1));
  }
  for (auto [name, section] : parameters) {
    if (section == kNone)
      continue;
    SmallVector<StringRef> above = getModules(name);
    auto whole = llvm::find_if(
        above, [&](StringRef module) { return modules[module] >= 0; });
    std::string glob =
        whole == above.end() ? makeGlob(name) : makeGlob(*whole) + "*";
    if (!llvm::is_contained(names[section], glob))
      names[section].push_back(glob);
  }
  return names;
}

/// Whether the names differ in one number, which is one more in `second`.
static bool follows(StringRef first, StringRef second) {
  auto parts = llvm::to_vector(llvm::split(first, '.'));
  auto others = llvm::to_vector(llvm::split(second, '.'));
  if (parts.size() != others.size())
    return false;
  unsigned numDifferent = 0;
  for (auto [part, other] : llvm::zip_equal(parts, others)) {
    unsigned number, next;
    if (part == other)
      continue;
    ++numDifferent;
    if (part.getAsInteger(10, number) || other.getAsInteger(10, next) ||
        next != number + 1)
      return false;
  }
  return numDifferent == 1;
}

std::string tandem::printSectionNames(const SectionNames &names) {
  SmallVector<std::string> parts;
  for (size_t i = 0, last; i < names.size(); i = last + 1) {
    for (last = i;
         last + 1 < names.size() && follows(names[last], names[last + 1]);)
      ++last;
    parts.push_back(i == last ? names[i] : names[i] + " to " + names[last]);
  }
  size_t numLeft = parts.size() - std::min(parts.size(), kMostListed);
  parts.truncate(parts.size() - numLeft);
  return llvm::join(parts, ", ") +
         (numLeft ? " and " + std::to_string(numLeft) + " more" : "");
}
