//===- collective.h - agreement within a group ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_COLLECTIVE_H
#define TANDEM_RT_CORE_COLLECTIVE_H

#include "tandem_rt/program.h"

namespace tandem::rt {

/// What one member brings to a collective.
struct Post {
  const Collective *op = nullptr;
  const char *source = nullptr;
  char *destination = nullptr;
};

/// By place in the group.
using Posts = std::vector<Post>;

/// Whether two members do the same; where their buffers are is their own.
bool isSame(const Collective &a, const Collective &b);

/// "all_reduce of f32[4]".
std::string describe(const Collective &op);

/// Type, shape and dimensions agree with so many members.
Status verifyCollective(const Collective &op, int64_t members);

/// The error of all members when one does not do what the first does.
Status disagreement(const Collective &first, size_t member,
                    const Collective &other);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_COLLECTIVE_H
