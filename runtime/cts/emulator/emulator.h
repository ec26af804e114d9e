//===- emulator.h - the emulated GPU ----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stands for a GPU in tests. Nothing runs before somebody waits for it; then
// the streams' work is done one after the other, in an order that is drawn from
// a seed and respects streams and events, and nothing else. Addresses of the
// device are none of the host's. Set by variables:
//
//   TANDEM_EMULATED_SEED        of all orders (0)
//   TANDEM_EMULATED_GPUS        how many there are (1)
//   TANDEM_EMULATED_DRIVER      the version of the driver (13000)
//   TANDEM_EMULATED_CAPABILITY  90 of sm_90 (90)
//   TANDEM_EMULATED_MEMORY      bytes (2^34)
//   TANDEM_EMULATED_FASTEST     which of cuBLASLt's algorithms takes no hour
//                               longer, as events see it (1)
//   TANDEM_EMULATED_PRIORITIES  1: what is ready in streams of the greatest
//                               priority comes first, as on a GPU that is full
//                               (0: priorities do not count)
//   TANDEM_EMULATED_NCCL        the version of NCCL (22809)
//   TANDEM_EMULATED_NCCL_CTAS   communicators that may take more
//                               multiprocessors are refused (none)
//   TANDEM_EMULATED_NCCL_HANGS  which of its operations here never ends (none)
//   TANDEM_EMULATED_NCCL_FAILS  which of them fails
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_EMULATOR_EMULATOR_H
#define TANDEM_RT_CTS_EMULATOR_EMULATOR_H

#include "cuda/driver/api.h"
#include "tandem_rt/emulated.h"

#include <array>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#define TANDEM_EXPORT __attribute__((visibility("default")))

namespace tandem::rt::cuda::emulated {

/// A number that a variable sets.
TANDEM_EXPORT int64_t setting(const char *name, int64_t otherwise);

//===--- Memory (access.cpp) ----------------------------------------------===//

/// Filled with NaN, and with an end that no access passes.
CUresult allocate(CUdeviceptr &address, size_t bytes);
CUresult release(CUdeviceptr address);
/// All of the device's, as when its context goes.
void releaseAll(CUdevice device);
void getMemory(size_t &free, size_t &total);
/// Memory of the host that the GPU copies from and to at its own address; null
/// above TANDEM_EMULATED_PINNED bytes in all.
void *pin(size_t bytes);
void unpin(void *start);
/// The host's address of bytes on the device; null, with a text, where these
/// are not all of one allocation.
TANDEM_EXPORT char *hostOf(CUdeviceptr address, size_t bytes,
                           std::string *why = nullptr);
/// That the work that is done now touches these bytes (order.h); the host.
TANDEM_EXPORT void touch(CUdeviceptr address, size_t bytes, bool writes);
void touchByHost(CUdeviceptr address, size_t bytes, bool writes);
/// The allocation with an address that hostOf() knows.
struct Range {
  CUdeviceptr begin = 0, end = 0;
  char *host = nullptr;
  CUdevice device = 0;
};
Range allocationOf(CUdeviceptr address);

//===--- Streams (streams.cpp) --------------------------------------------===//

/// Work of a stream; what it returns is an error of all that follows.
using Task = std::function<CUresult()>;
/// Work that waits for others: it is begun, asked until it is done, and ended.
class Operation {
public:
  virtual ~Operation() = default;
  virtual CUresult begin() = 0;
  virtual bool isDone() = 0;
  virtual CUresult end() = 0;
};
using MakeOperation = std::function<std::unique_ptr<Operation>()>;

/// Into a stream, or into the graph for which it is captured.
TANDEM_EXPORT CUresult enqueue(CUstream stream, Task task,
                               const std::string &name = "a product");
/// Of a graph each launch makes one anew.
TANDEM_EXPORT CUresult enqueueOperation(CUstream stream, MakeOperation make,
                                        const std::string &name);
/// Does work until the stream has none left, or all of the present device have.
CUresult finish(CUstream stream);
CUresult finishAll();
/// Does work until the event has been recorded as often as it was asked for.
CUresult finishEvent(CUevent event);
/// Does what can be done at once; kNotReady if more is left in the stream.
CUresult query(CUstream stream);
/// The error that has ended everything, and its words.
CUresult getFailure();
std::string getFailureText();
TANDEM_EXPORT CUresult fail(CUresult error, const std::string &text);
/// Numbers that the seed determines.
std::mt19937_64 &random();

/// Priorities are as CUDA counts them: the lower number comes first.
inline constexpr int kLeastPriority = 0, kGreatestPriority = -5;
CUstream createStream(int priority);
void destroyStream(CUstream stream);
CUevent createEvent();
void destroyEvent(CUevent event);
CUresult recordEvent(CUevent event, CUstream stream);
CUresult waitForEvent(CUstream stream, CUevent event);
/// When it was recorded last, in nanoseconds; 0: never.
int64_t timeOf(CUevent event);
/// Events that are recorded from here on are an hour later.
TANDEM_EXPORT void spendHour();

//===--- Graphs (streams.cpp) ---------------------------------------------===//

CUresult beginCapture(CUstream stream);
CUresult endCapture(CUstream stream, CUgraph *graph);
/// Of a call that no capture of this thread survives: success where there is
/// none.
CUresult breakCapture();
/// Nodes have the priorities of the streams that they were captured in, or,
/// without `keepsPriorities`, the least one.
CUgraphExec instantiate(CUgraph graph, bool keepsPriorities);
CUresult launch(CUgraphExec graph, CUstream stream);
void destroy(CUgraph graph);
void destroy(CUgraphExec graph);

//===--- The order of accesses (streams.cpp) ------------------------------===//

/// From here on, and anew, without the wait or edge of that number, from 1 on;
/// or no longer. Nothing may be under way. How many waits and edges there were.
class Order;
TANDEM_EXPORT Order *watchOrder(bool isOn, int64_t leftOut);
TANDEM_EXPORT int64_t countWaits();

//===--- Devices (driver.cpp) ---------------------------------------------===//

/// That of the calling thread.
CUdevice presentDevice();
TANDEM_EXPORT CUuuid presentId();

//===--- Kernels (kernel.cpp) ---------------------------------------------===//

struct Kernel {
  std::string name;
  tandem_rt_emulated_kernel function = nullptr;
  int32_t numParameters = 0;           ///< Below 0: any.
  bool waits = false;                  ///< Has barriers.
  uint32_t maxSharedBytes = 48 * 1024; ///< Unless more is asked for.
};
struct Launch {
  const Kernel *kernel;
  std::array<uint32_t, 3> grid, block;
  uint32_t sharedBytes;
  std::vector<uint64_t> parameters;
};
/// Runs all blocks, one after the other, in any order.
CUresult run(const Launch &launch);

//===--- Mistakes in kernels (mistakes.cpp) -------------------------------===//

enum class Mistake {
  None,
  NoBarrier,
  NoShuffle,
  ReadBehind,
  WriteBehind,
  NoWrite
};
/// Whether any is planted, or what can be wrong is listed.
extern bool areMistakesWatched;
Mistake findMistake(const void *place, std::initializer_list<Mistake> possible);
/// How to answer a call from a place in the code of a kernel wrongly.
inline Mistake mistakeAt(const void *place,
                         std::initializer_list<Mistake> possible) {
  return areMistakesWatched ? findMistake(place, possible) : Mistake::None;
}
/// Whether a kernel goes on far longer than without the mistake.
bool areCallsEndless();
/// As if nothing had failed so far.
void forgetFailure();

//===--- Products (cublaslt.cpp, product.cpp) -----------------------------===//

/// The algorithms that cuBLASLt names for each product, by the first word of
/// cublasLtMatmulAlgo_t, in this order.
enum EmulatedAlgorithm : uint64_t {
  kPlainSum = 1,
  kRefusing,    ///< Is named, and refused when it is to do it.
  kFailed,      ///< Is named with an error in place of success.
  kSplitSum,    ///< Adds halves apart, in a workspace; other bits.
  kAlignedOnly, ///< Of matrices at multiples of 128 bytes alone.
  kLast = kAlignedOnly
};

//===--- Products of a warp (mma.cpp) -------------------------------------===//

/// What a thread gives to others of its warp.
struct Given {
  std::array<uint32_t, 4> a = {};
  std::array<uint32_t, 2> b = {};
};
/// Adds what is of the thread `lane` of the product of the warp's fragments.
void multiplyFragments(int32_t kind, const Given *warp, uint32_t lane,
                       float *upper, float *lower);

//===--- Fibers (fibers.cpp) ----------------------------------------------===//

/// Calls `body(i)` for each i below `count`, each on a stack of its own; they
/// take turns where they call yield(). False once leave() was called, which
/// does not return.
bool runFibers(unsigned count, const std::function<void(unsigned)> &body,
               const std::function<bool()> &nextRound);
void yield();
[[noreturn]] void leave();

} // namespace tandem::rt::cuda::emulated

#endif // TANDEM_RT_CTS_EMULATOR_EMULATOR_H
