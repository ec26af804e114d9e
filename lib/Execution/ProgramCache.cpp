//===- ProgramCache.cpp - compiled steps on disk --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCache.h"
#include "ChooseLayout.h"
#include "CompilerVersion.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Support/Options.h"
#include "llvm/Config/llvm-config.h"
#include <cstring>

using namespace tandem;

static std::string makeKey(std::string_view text, std::string_view name,
                           const CompileOptions &options) {
  if (!options.usesCache || options.takesInterrupts || !isCachable(options))
    return "";
  // A file that cannot be read is the compilation's to say.
  std::optional<std::string> values = makeKeyText(options);
  if (!values)
    return "";
  return hashText(
      {joinParts({kCompilerVersion, LLVM_VERSION_STRING, describeHostTarget(),
                  std::string(name), std::string(text), *values,
                  weighsLayouts(options) ? "layouts" : ""})});
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
  for (auto *text :
       {&result.bytes, &result.planTable, &result.plan, &result.layouts,
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
