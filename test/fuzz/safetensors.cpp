//===- safetensors.cpp - files of tensors ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both readers: the runtime's, and that of the reference interpreter.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/SafeTensors.h"
#include "Fuzz.h"
#include "mlir/IR/MLIRContext.h"
#include "tandem_rt/safetensors.h"

using namespace tandem;

/// Reads every byte of what a reader says is there.
static void touch(const rt::SafetensorsFile &file) {
  volatile uint8_t last = 0;
  for (const auto &[name, view] : file.tensors()) {
    int64_t bytes = rt::numElements(view.shape) * rt::elementBytes(view.type);
    for (int64_t i = 0; i < bytes; ++i)
      last = static_cast<const uint8_t *>(view.data)[i];
  }
  (void)last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  fuzz::MemoryFile file(fuzz::asText(data, size));
  auto mapped = rt::SafetensorsFile::open(file.getPath());
  if (mapped.ok())
    touch(*mapped);
  else
    fuzz::expectError(mapped.status().message());
  auto read = reference::readSafeTensors(file.getPath(), &context);
  if (!read)
    fuzz::expectError(llvm::toString(read.takeError()));
  return 0;
}
