//===- kernel.h - what generated kernels and the runtime share --*- C -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel is `extern "C" void name(void *const *buffers,
// const int64_t *scalars)`. To report an error it calls through a pointer that
// its own code object exports and the loader sets:
//
//   extern "C" void (*tandem_rt_report_error_hook)(const char *) = nullptr;
//   if (index >= size) { tandem_rt_report_error_hook("index out of range"); }
//
// The pointer, and not the function's own name, because a code object that is
// loaded into Python does not see the symbols of an extension module. The
// first report of a launch ends the step on all ranks when the kernel returns;
// the kernel must still return in the normal way, without touching memory that
// is not its own.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_KERNEL_H
#define TANDEM_RT_KERNEL_H

#include <stdint.h>

#define TANDEM_RT_ERROR_HOOK "tandem_rt_report_error_hook"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*tandem_rt_kernel)(void *const *buffers, const int64_t *scalars);

/// Remembers the message for the calling thread's current launch.
void tandem_rt_report_error(const char *message);

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RT_KERNEL_H
