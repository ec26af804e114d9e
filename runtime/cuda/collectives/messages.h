//===- messages.h - messages of collectives ---------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_COLLECTIVES_MESSAGES_H
#define TANDEM_RT_CUDA_COLLECTIVES_MESSAGES_H

#include "comm/nccl/group.h"
#include "cuda/driver/work.h"

namespace tandem::rt::cuda {

struct Message {
  bool isSend;
  int64_t peer;
  Address at;
  int64_t bytes;
};

inline Address operator+(const Address &at, int64_t bytes) {
  return {at.base + uint64_t(bytes), at.step};
}

/// Messages of a group, as one: those between two members in the order of the
/// list, on both. Nothing for no bytes.
std::unique_ptr<Work> makeMessages(nccl::Group &group,
                                   std::vector<Message> messages);

/// Blocks of `columns` elements of each of `rows` rows lie side by side in a
/// row, one per member; packed they lie one behind the other.
Expected<std::unique_ptr<Work>> makePermute(const std::shared_ptr<Gpu> &gpu,
                                            Address from, Address to,
                                            int64_t members, int64_t rows,
                                            int64_t columns, int64_t width,
                                            bool isPacking, int64_t count);

/// The sum of `columns` elements of each term, in their order, to all of `to`.
Expected<std::unique_ptr<Work>> makeSum(const std::shared_ptr<Gpu> &gpu,
                                        ElementType type,
                                        const std::vector<Address> &terms,
                                        const std::vector<Address> &to,
                                        int64_t columns, int64_t count);

/// The sizes of a tensor around one of its dimensions.
struct Cut {
  int64_t rows = 1, columns = 1; ///< Before it; from it on.
  Cut(const Shape &shape, int32_t dim) {
    for (size_t i = 0; i < shape.size(); ++i)
      (i < size_t(dim) ? rows : columns) *= shape[i];
  }
};

/// Sums of fewer bytes go to every member as terms: one exchange, not two.
inline constexpr int64_t kSmallSum = 32 * 1024;

/// Where the next area of a scratch may begin behind so many bytes.
inline int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// Makes one collective of `members`, step by step.
class CollectiveBuilder {
public:
  virtual ~CollectiveBuilder() = default;
  Expected<std::unique_ptr<Work>> make();

protected:
  CollectiveBuilder(const std::shared_ptr<Gpu> &gpu, const Collective &op,
                    int64_t count, int64_t members);
  virtual Status allReduce() = 0;
  virtual Status reduceScatter() = 0;
  virtual Status allGather() = 0;
  virtual Status allToAll() = 0;

  Status add(Expected<std::unique_ptr<Work>> work);
  void copy(Address from, Address to, int64_t bytes);
  Status permute(Address from, Address to, int64_t rows, int64_t columns,
                 bool isPacking);

  const std::shared_ptr<Gpu> &gpu;
  const Collective &op;
  const int64_t count, n, width;
  std::vector<std::unique_ptr<Work>> works;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_COLLECTIVES_MESSAGES_H
