//===- kernel.h - interface of generated kernels ------------------*- C -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel is `extern "C" void name(void *const *buffers,
// const int64_t *scalars)`. It can fail in one way: an index that it reads is
// out of range. Then it calls through a pointer that its own code object
// exports and the loader sets:
//
//   extern "C" tandem_rt_index_hook tandem_rt_report_index_hook = nullptr;
//   if (index < 0 || index >= bound)
//     tandem_rt_report_index_hook(site, index, bound);
//
// `site` is the place in the kernel, which Launch::sites names for people.
// Three numbers, not a text: equal kernels of different lines are one, and a
// device without a host's functions can write them to memory. The pointer, and
// not the function's own name, because a code object that is loaded into Python
// does not see the symbols of an extension module. The first report of a launch
// ends the step on all ranks when the kernel returns; the kernel must still
// return in the normal way, without touching memory that is not its own.
//
// A kernel whose work can be shared has a second function, `name_part`, with
// the number of a part and of all parts, from 1 on: whoever calls it for each
// of them, in any order and on any threads, has done what `name` does, to the
// bit. Where some of the work needs what all parts have done, there is
// `name_phase` in its place, with the number of a phase before these: whoever
// calls it for one phase after the other, once for each part of those that can
// be shared, and as part 0 of 1 for the others, has done what `name` does. How
// many phases there are, and which can be shared, says `name_phases`.
//
// On a GPU a kernel has one parameter of 8 bytes for each address and number:
//
//   name(inputs..., outputs..., [workspace], scalars...,
//        tandem_rt_launch_report *report, int64_t launch)
//
// and reports an index by exchanging `launch`, which is not 0, for the 0 in
// report->launch; who succeeds writes the rest. What runs after it in the step
// finds the values that it left. A launch whose number is below 0 writes what
// outlives the step: it does nothing where report->refused is not 0, which a
// check has set. So a step runs to its end without a look by the host.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_KERNEL_H
#define TANDEM_RT_KERNEL_H

#include <stdint.h>

#define TANDEM_RT_INDEX_HOOK "tandem_rt_report_index_hook"
#define TANDEM_RT_PART_SUFFIX "_part"
#define TANDEM_RT_PHASE_SUFFIX "_phase"
#define TANDEM_RT_PHASES_SUFFIX "_phases"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*tandem_rt_kernel)(void *const *buffers, const int64_t *scalars);
typedef void (*tandem_rt_kernel_part)(void *const *buffers,
                                      const int64_t *scalars, int64_t part,
                                      int64_t parts);

typedef void (*tandem_rt_kernel_phase)(void *const *buffers,
                                       const int64_t *scalars, int64_t phase,
                                       int64_t part, int64_t parts);

typedef struct tandem_rt_kernel_phases {
  int64_t count;
  int64_t shared; /* bit i: phase i can be shared */
} tandem_rt_kernel_phases;

/// `index` was read at `site`, expected 0 <= index < `bound`.
typedef void (*tandem_rt_index_hook)(int64_t site, int64_t index,
                                     int64_t bound);

typedef struct tandem_rt_launch_report {
  int64_t launch, site, index, bound, refused;
} tandem_rt_launch_report;

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RT_KERNEL_H
