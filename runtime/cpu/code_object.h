//===- code_object.h - loads generated kernels ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_CODE_OBJECT_H
#define TANDEM_RT_CPU_CODE_OBJECT_H

#include "tandem_rt/kernel.h"
#include "tandem_rt/program.h"

#include <memory>
#include <optional>

namespace tandem::rt::cpu {

/// A kernel that several threads share: by one phase, or by several.
struct SharedKernel {
  tandem_rt_kernel_part part = nullptr;
  tandem_rt_kernel_phase phase = nullptr; ///< Where `part` is null.
  tandem_rt_kernel_phases phases = {1, 1};

  bool isShared(int64_t number) const { return (phases.shared >> number) & 1; }
  void run(void *const *buffers, const int64_t *scalars, int64_t number,
           int64_t index, int64_t parts) const {
    if (part)
      part(buffers, scalars, index, parts);
    else
      phase(buffers, scalars, number, index, parts);
  }
};

/// A shared object that was loaded from memory; unloaded on destruction.
class LoadedCode {
public:
  static Expected<std::unique_ptr<LoadedCode>> load(const CodeObject &object);
  ~LoadedCode();
  LoadedCode(const LoadedCode &) = delete;
  LoadedCode &operator=(const LoadedCode &) = delete;

  Expected<tandem_rt_kernel> find(const std::string &symbol) const;
  /// How the kernel is done in parts, if it can be.
  std::optional<SharedKernel> findShared(const std::string &symbol) const;

private:
  LoadedCode(std::string name, int file, void *handle)
      : name(std::move(name)), file(file), handle(handle) {}

  std::string name;
  int file;
  void *handle;
};

/// What a kernel reports.
struct BadIndex {
  int64_t site, index, bound;
};

/// Forgets what the calling thread's kernels reported.
void clearBadIndex();
void setBadIndex(const BadIndex &index);
/// The first that they reported since.
std::optional<BadIndex> getBadIndex();

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_CODE_OBJECT_H
