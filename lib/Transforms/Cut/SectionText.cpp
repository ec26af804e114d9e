//===- SectionText.cpp - sections as users write them ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SectionText.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"
#include <set>

using namespace mlir;
using namespace tandem;

/// `embedding, layers.[0-5].*:0`.
static FailureOr<SectionEntry> parseSection(Location loc, StringRef text,
                                            StringRef axis, int64_t points) {
  SectionEntry entry;
  auto [globs, point] = text.rsplit(':');
  for (StringRef glob : llvm::split(globs, ','))
    if (!glob.trim().empty())
      entry.globs.push_back(glob.trim().str());
  bool isNumber = !point.trim().getAsInteger(10, entry.point);
  if (!isNumber || entry.globs.empty())
    return emitError(loc) << "section '" << text
                          << "', expected names of parameters and a point, "
                             "such as 'layers.[0-5].*:0'";
  if (entry.point < 0 || entry.point >= points)
    return emitError(loc) << "section '" << globs << "' lies on point "
                          << entry.point << ", but axis '" << axis << "' has "
                          << points << " points, from 0 on";
  return entry;
}

/// More sections would be more than any step has parameters.
static constexpr int64_t kMostSections = 1 << 20;

/// `4@0,1,1,0`, or `4` alone.
static FailureOr<SectionList> parseNumber(Location loc, StringRef text,
                                          int64_t number, StringRef places,
                                          int64_t points) {
  SectionList list;
  list.isNumber = true;
  list.entries.resize(std::clamp<int64_t>(number, 0, kMostSections));
  for (auto [index, entry] : llvm::enumerate(list.entries))
    entry.point = index % std::max<int64_t>(points, 1);
  if (places.empty())
    return list;
  SmallVector<StringRef> parts;
  places.split(parts, ',');
  bool isRead = parts.size() == list.entries.size();
  for (auto [part, entry] : llvm::zip(parts, list.entries))
    isRead &= !part.trim().getAsInteger(10, entry.point) && entry.point >= 0 &&
              entry.point < points;
  if (!isRead)
    return emitError(loc) << "sections '" << text << "', expected a point from "
                          << "0 to " << points - 1 << " for each";
  return list;
}

static FailureOr<SectionList> parseList(Location loc, StringRef text,
                                        StringRef axis, int64_t points) {
  auto [digits, places] = text.split('@');
  SectionList list;
  int64_t number = 0;
  if (!digits.trim().getAsInteger(10, number))
    return parseNumber(loc, text, number, places, points);
  for (StringRef part : llvm::split(text, ';')) {
    if (part.trim().empty())
      continue;
    FailureOr<SectionEntry> entry =
        parseSection(loc, part.trim(), axis, points);
    if (failed(entry))
      return failure();
    list.entries.push_back(std::move(*entry));
  }
  return list;
}

FailureOr<SectionList> tandem::parseSections(Location loc, StringRef text,
                                             StringRef axis, int64_t points) {
  FailureOr<SectionList> list = parseList(loc, text, axis, points);
  if (failed(list))
    return failure();
  if (list->entries.empty())
    return emitError(loc) << "found no sections, expected names of parameters "
                             "and points, such as 'layers.[0-5].*:0'";
  llvm::SmallBitVector used(points);
  for (const SectionEntry &entry : list->entries)
    used.set(entry.point);
  if (int unused = used.flip().find_first(); unused >= 0)
    return emitError(loc) << "point " << unused << " of axis '" << axis
                          << "' has no section, expected at least one for each "
                             "of its "
                          << points << " points";
  return list;
}

/// Whether a glob is that of a parameter, or of a module that it is below.
static bool matches(const llvm::GlobPattern &pattern, StringRef name) {
  for (size_t end = name.find('.'); end != StringRef::npos;
       end = name.find('.', end + 1))
    if (pattern.match(name.take_front(end)))
      return true;
  return pattern.match(name);
}

/// The first section, and the glob of it, that matches `name`.
static std::optional<std::pair<int64_t, StringRef>>
findMatch(ArrayRef<SectionEntry> sections,
          ArrayRef<SmallVector<llvm::GlobPattern>> patterns, StringRef name,
          int64_t from) {
  for (int64_t section = from, end = sections.size(); section < end; ++section)
    for (auto [glob, pattern] :
         llvm::zip_equal(sections[section].globs, patterns[section]))
      if (matches(pattern, name))
        return std::pair(section, StringRef(glob));
  return std::nullopt;
}

static FailureOr<SmallVector<SmallVector<llvm::GlobPattern>>>
compileGlobs(Location loc, ArrayRef<SectionEntry> sections) {
  SmallVector<SmallVector<llvm::GlobPattern>> patterns(sections.size());
  for (auto [section, own] : llvm::zip_equal(sections, patterns))
    for (const std::string &glob : section.globs) {
      auto pattern = llvm::GlobPattern::create(glob);
      if (!pattern)
        return emitError(loc) << "section or pin of '" << glob
                              << "': " << llvm::toString(pattern.takeError());
      own.push_back(std::move(*pattern));
    }
  return patterns;
}

static LogicalResult checkUsed(Location loc, ArrayRef<SectionEntry> sections,
                               const std::set<StringRef> &used) {
  for (const SectionEntry &section : sections)
    for (const std::string &glob : section.globs)
      if (!used.contains(glob))
        return emitError(loc)
               << "section or pin of '" << glob
               << "': no parameter or module has this name, or one before it "
                  "matches all of them";
  return success();
}

FailureOr<llvm::DenseMap<unsigned, int64_t>>
tandem::matchSections(func::FuncOp step, ArrayRef<SectionEntry> sections) {
  auto patterns = compileGlobs(step.getLoc(), sections);
  if (failed(patterns))
    return failure();
  llvm::DenseMap<unsigned, int64_t> matched;
  std::set<StringRef> used;
  for (unsigned index = 0; index < step.getNumArguments(); ++index) {
    DictionaryAttr attributes = step.getArgAttrDict(index);
    StringRef name = nn::getTensorName(attributes);
    if (nn::getRole(attributes) != nn::Role::Parameter)
      continue;
    auto found = findMatch(sections, *patterns, name, 0);
    if (!found)
      continue;
    if (auto second = findMatch(sections, *patterns, name, found->first + 1))
      return emitError(step.getLoc())
             << "parameter '" << name << "' is in two sections: in section "
             << found->first << " by '" << found->second << "', and in section "
             << second->first << " by '" << second->second << "'";
    matched[index] = found->first;
    used.insert(found->second);
  }
  if (failed(checkUsed(step.getLoc(), sections, used)))
    return failure();
  return matched;
}
