//===- api.h - NCCL functions -----------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declared here, so that neither headers nor the library are needed to build.
// A line per function: its name in the library, the name that it has here, and
// its parameters. The emulator defines the same list; `make setup-cuda`
// compares it with NVIDIA's header.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_NCCL_API_H
#define TANDEM_RT_COMM_NCCL_API_H

#include <climits>
#include <cstddef>

namespace tandem::rt::nccl {

using Result = int;
using Comm = struct ncclComm *;
using Stream = void *; ///< A CUstream.

struct UniqueId {
  char bytes[128];
};

inline constexpr Result kSuccess = 0, kUnhandledCudaError = 1, kSystemError = 2,
                        kInternalError = 3, kInvalidArgument = 4,
                        kInvalidUsage = 5, kRemoteError = 6, kInProgress = 7;
/// Of ncclDataType_t: bytes.
inline constexpr int kUint8 = 1;
inline constexpr int kUndefined = INT_MIN;

/// The begin of ncclConfig_t, which is as long as `version` says.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = 0;
  int cgaClusterSize = kUndefined, minCtas = kUndefined, maxCtas = kUndefined;
  const char *netName = nullptr;
  int splitShare = kUndefined;
};

/// The oldest version, which has ncclCommSplit with this Config.
inline constexpr int kOldestVersion = 21800;

#define TANDEM_NCCL(F)                                                         \
  F(Result, ncclGetVersion, getVersion, (int *version))                        \
  F(Result, ncclGetUniqueId, getUniqueId, (UniqueId * id))                     \
  F(Result, ncclCommInitRankConfig, commInitRankConfig,                        \
    (Comm * comm, int ranks, UniqueId id, int rank, Config *config))           \
  F(Result, ncclCommSplit, commSplit,                                          \
    (Comm comm, int color, int key, Comm *made, Config *config))               \
  F(Result, ncclCommGetAsyncError, commGetAsyncError,                          \
    (Comm comm, Result * error))                                               \
  F(Result, ncclCommAbort, commAbort, (Comm comm))                             \
  F(const char *, ncclGetErrorString, getErrorString, (Result result))         \
  F(const char *, ncclGetLastError, getLastError, (Comm comm))                 \
  F(Result, ncclGroupStart, groupStart, ())                                    \
  F(Result, ncclGroupEnd, groupEnd, ())                                        \
  F(Result, ncclSend, send,                                                    \
    (const void *source, size_t count, int type, int peer, Comm comm,          \
     Stream stream))                                                           \
  F(Result, ncclRecv, receive,                                                 \
    (void *destination, size_t count, int type, int peer, Comm comm,           \
     Stream stream))                                                           \
  F(Result, ncclAllGather, allGather,                                          \
    (const void *source, void *destination, size_t count, int type, Comm comm, \
     Stream stream))

#define TANDEM_NCCL_MEMBER(result, symbol, name, parameters)                   \
  result(*name) parameters;
/// The functions of the library, found when it was loaded.
struct Api {
  TANDEM_NCCL(TANDEM_NCCL_MEMBER)
};
#undef TANDEM_NCCL_MEMBER

} // namespace tandem::rt::nccl

#endif // TANDEM_RT_COMM_NCCL_API_H
