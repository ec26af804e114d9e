//===- PlaceBuffers.cpp - offsets in the arena ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandOrder.h"
#include "Counts.h"
#include "Steps.h"
#include "tandem/Conversion/Lower/Lower.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_PLACEBUFFERS
#include "tandem/Conversion/Lower/Passes.h.inc"

/// Buffers begin at a cache line, which is also the widest vector, in bytes.
static constexpr int64_t kAlignment = 64;

namespace {
struct Buffer {
  sched::AllocOp alloc;
  int64_t bytes = 0;
  int64_t offset = -1;
  /// What is done when the first use begins.
  Clock birth = {0, 0};
  /// The last use on each queue.
  Clock death = {0, 0};
  /// Bytes of all buffers that live at some time of its life.
  int64_t crowd = 0;

  double getWeight() const {
    return static_cast<double>(crowd) * static_cast<double>(bytes);
  }
  bool diesBefore(const Buffer &other) const {
    return death[0] <= other.birth[0] && death[1] <= other.birth[1];
  }
  bool livesWith(const Buffer &other) const {
    return !diesBefore(other) && !other.diesBefore(*this);
  }
};
} // namespace

/// The first command that uses the buffer writes it; all others come after it.
static Buffer describe(sched::AllocOp alloc, ArrayRef<Access> accesses,
                       const CommandOrder &order) {
  Buffer buffer{alloc};
  buffer.bytes =
      llvm::alignTo(countBytes(ValueRange(alloc.getBuffer())), kAlignment);
  Operation *first = accesses.front().command;
  buffer.birth = order.getKnown(first);
  // The command itself is not done when it begins.
  --buffer.birth[order.getQueue(first)];
  for (const Access &access : accesses) {
    int64_t &last = buffer.death[order.getQueue(access.command)];
    last = std::max(last, order.getPosition(access.command));
    // A buffer that is written in parts by commands of both queues begins with
    // the earliest of them.
    const Clock &known = order.getKnown(access.command);
    for (size_t queue = 0; queue < known.size(); ++queue) {
      bool own = queue == order.getQueue(access.command);
      buffer.birth[queue] = std::min(buffer.birth[queue], known[queue] - own);
    }
  }
  return buffer;
}

/// The lowest offset at which `buffer` meets none of `placed` that lives with
/// it. `placed` is sorted by offset.
static int64_t findOffset(const Buffer &buffer,
                          ArrayRef<const Buffer *> placed) {
  int64_t offset = 0;
  for (const Buffer *other : placed) {
    if (other->offset >= offset + buffer.bytes)
      break;
    if (other->offset + other->bytes > offset && buffer.livesWith(*other))
      offset = other->offset + other->bytes;
  }
  return offset;
}

/// Places the buffers in this order, each as low as it fits. Returns the size
/// of the arena.
static int64_t placeInOrder(ArrayRef<Buffer *> order) {
  SmallVector<const Buffer *> placed;
  int64_t size = 0;
  for (Buffer *buffer : order) {
    buffer->offset = findOffset(*buffer, placed);
    size = std::max(size, buffer->offset + buffer->bytes);
    auto position =
        llvm::upper_bound(placed, buffer, [](const Buffer *a, const Buffer *b) {
          return a->offset < b->offset;
        });
    placed.insert(position, buffer);
  }
  return size;
}

/// Places first what is large, or what is large and lives where much does:
/// there no gaps may be left. Takes what needs less; returns the size of the
/// arena.
static int64_t place(MutableArrayRef<Buffer> buffers) {
  for (Buffer &buffer : buffers)
    for (const Buffer &other : buffers)
      buffer.crowd += buffer.livesWith(other) ? other.bytes : 0;
  SmallVector<Buffer *> bySize;
  for (Buffer &buffer : buffers)
    bySize.push_back(&buffer);
  SmallVector<Buffer *> byCrowd = bySize;
  // Equal ones in the order of the text.
  llvm::sort(bySize, [](const Buffer *a, const Buffer *b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a < b;
  });
  llvm::sort(byCrowd, [](const Buffer *a, const Buffer *b) {
    double x = a->getWeight(), y = b->getWeight();
    return x != y ? x > y : a < b;
  });
  int64_t crowded = placeInOrder(byCrowd), size = placeInOrder(bySize);
  return crowded < size ? placeInOrder(byCrowd) : size;
}

namespace {
struct PlaceBuffersPass : impl::PlaceBuffersBase<PlaceBuffersPass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    if (!function || failed(verifyCommands(function)))
      return signalPassFailure();
    CommandOrder order(function);
    auto accesses = getAccesses(order);
    SmallVector<Buffer> buffers;
    for (auto alloc :
         llvm::make_early_inc_range(function.getOps<sched::AllocOp>())) {
      auto it = accesses.find(alloc.getBuffer());
      if (it != accesses.end())
        buffers.push_back(describe(alloc, it->second, order));
      else if (alloc->use_empty())
        alloc.erase();
    }
    Builder builder(&getContext());
    int64_t size = place(buffers);
    for (Buffer &buffer : buffers)
      buffer.alloc.setOffset(buffer.offset);
    getOperation()->setAttr(kArenaAttrName, builder.getI64IntegerAttr(size));
  }
};
} // namespace

} // namespace tandem::lower
