//===- ProgramCache.cpp - compiled steps on disk --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCache.h"
#include "CompilerVersion.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Support/TextFile.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Config/llvm-config.h"
#include <cstring>

using namespace tandem;

static bool isCachable(const CompileOptions &options) {
  return options.usesCache && options.from.empty() &&
         options.stopAfter.empty() && options.printAfter.empty() &&
         options.problemOut.empty() && options.compareWith.empty() &&
         !options.takesInterrupts;
}

/// All that decides what is compiled, in an order that tells fields apart.
/// False where a file cannot be read, which is the compilation's to say.
static bool listParts(std::string_view text, std::string_view name,
                      const CompileOptions &options,
                      llvm::SmallVectorImpl<std::string> &parts) {
  // All fields, so that a new one does not compile until it is looked at: one
  // that is forgotten here would give a Program of other options.
  const auto &[from, mesh, micro, accumulate, preset, pins, storedParts,
               planFile, search, cluster, searchTimeLimit, start, usesPresets,
               device, architecture, recompute, problemOut, costsPlan, explains,
               failOnReplicate, compareWith, timeline, printAfter,
               printLocations, stopAfter, takesInterrupts, isCancelled,
               progress, usesCache] = options;
  parts.append({kCompilerVersion, LLVM_VERSION_STRING, describeHostTarget(),
                std::string(name), std::string(text), mesh, preset, search,
                device, architecture});
  for (int64_t number :
       {micro, accumulate, failOnReplicate, int64_t(usesPresets),
        int64_t(recompute), int64_t(costsPlan), int64_t(explains),
        int64_t(timeline), int64_t(pins.size())})
    parts.push_back(std::to_string(number));
  char limit[sizeof searchTimeLimit];
  std::memcpy(limit, &searchTimeLimit, sizeof limit);
  parts.emplace_back(limit, sizeof limit);
  for (const std::string *path : {&planFile, &cluster, &start}) {
    std::string unreadable;
    std::optional<std::string> content;
    if (!path->empty() && !(content = readTextFile(*path, unreadable)))
      return false;
    parts.append({*path, content.value_or("")});
  }
  parts.append(pins.begin(), pins.end());
  parts.append(storedParts.begin(), storedParts.end());
  return true;
}

static std::string makeKey(std::string_view text, std::string_view name,
                           const CompileOptions &options) {
  llvm::SmallVector<std::string> parts;
  if (!isCachable(options) || !listParts(text, name, options, parts))
    return "";
  // With its length in front no part can pass for two.
  std::string all;
  for (const std::string &part : parts)
    all += std::to_string(part.size()) + " " + part;
  return hashText({all});
}

ProgramCache::ProgramCache(std::string_view text, std::string_view name,
                           const CompileOptions &options)
    : files(getDefaultCacheDirectory(), ".program"),
      key(makeKey(text, name, options)) {}

bool ProgramCache::check(std::string &error) const {
  return checkCacheDirectory(getDefaultCacheDirectory(), error) &&
         (key.empty() || getCacheLimit(error));
}

//===----------------------------------------------------------------------===//
// As bytes
//===----------------------------------------------------------------------===//

/// The parts of a result that are kept, for reading and for writing.
template <typename ResultT, typename FunctionT>
static void forEachText(ResultT &result, FunctionT visit) {
  for (auto *text : {&result.bytes, &result.planTable, &result.plan,
                     &result.explanation, &result.explanationJson})
    visit(*text);
}

static void write(std::string &bytes, uint64_t number) {
  bytes.append(reinterpret_cast<const char *>(&number), sizeof number);
}

static void write(std::string &bytes, const std::string &text) {
  write(bytes, text.size());
  bytes += text;
}

/// Of bytes whose checksum is right: they are what `store` wrote.
static uint64_t readNumber(llvm::StringRef &bytes) {
  uint64_t number;
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes = bytes.drop_front(sizeof number);
  return number;
}

static std::string readText(llvm::StringRef &bytes) {
  uint64_t size = readNumber(bytes);
  std::string text = bytes.take_front(size).str();
  bytes = bytes.drop_front(size);
  return text;
}

bool ProgramCache::lookup(CompiledProgram &result) const {
  std::optional<std::string> kept =
      key.empty() ? std::nullopt : files.read(key);
  if (!kept)
    return false;
  llvm::StringRef bytes = *kept;
  forEachText(result, [&](std::string &text) { text = readText(bytes); });
  for (uint64_t count = readNumber(bytes); count > 0; --count)
    result.remarks.push_back(readText(bytes));
  return true;
}

void ProgramCache::store(const CompiledProgram &result) const {
  if (key.empty())
    return;
  std::string bytes;
  forEachText(result, [&](const std::string &text) { write(bytes, text); });
  write(bytes, uint64_t(result.remarks.size()));
  for (const std::string &remark : result.remarks)
    write(bytes, remark);
  files.store(key, bytes);
  std::string unused;
  if (std::optional<uint64_t> limit = getCacheLimit(unused))
    files.evict(*limit);
}
