//===- attention_tf32.cpp - attention of float32 with factors of 10 bits --===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A module of its own, as a driver compiles a whole one when it is asked for a
// kernel, which takes seconds.
//
//===----------------------------------------------------------------------===//

#include "attend_kernels.h"

TANDEM_ATTENTION_TF32(TANDEM_ATTENTION)
