//===- LinkObjects.cpp - objects to a shared object -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/LowerToLLVM.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace tandem;

std::optional<std::string>
tandem::linkObjects(llvm::ArrayRef<std::string> objects, std::string &error) {
  llvm::SmallString<128> path;
  if (std::error_code code =
          llvm::sys::fs::createTemporaryFile("tandem-kernels", "so", path)) {
    error = "cannot make a temporary file: " + code.message();
    return std::nullopt;
  }
  std::string output(path);
  std::vector<const char *> args = {"ld.lld", "-shared",     "--threads=1",
                                    "-z",     "noexecstack", "--build-id=none",
                                    "-o",     output.c_str()};
  for (const std::string &object : objects)
    args.push_back(object.c_str());
  // The linker keeps its state in globals.
  static std::mutex mutex;
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result;
  {
    std::lock_guard<std::mutex> lock(mutex);
    result = lld::lldMain(args, llvm::nulls(), stream,
                          {{lld::Gnu, &lld::elf::link}});
  }
  std::optional<std::string> bytes;
  auto buffer = llvm::MemoryBuffer::getFile(output);
  if (result.retCode == 0 && buffer)
    bytes = (*buffer)->getBuffer().str();
  else
    error = "linking kernels failed: " + messages;
  llvm::sys::fs::remove(output);
  return bytes;
}
