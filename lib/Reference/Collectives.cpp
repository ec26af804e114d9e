//===- Collectives.cpp - collectives between simulated ranks --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Collectives.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

using namespace mlir;
using namespace tandem::spmd;

namespace tandem::reference {

namespace {
/// What one member of a group sees.
struct Member {
  std::vector<TensorRef> inputs;
  int64_t index;

  const TensorRef &own() const { return inputs[index]; }
  int64_t getGroupSize() const { return inputs.size(); }
};
} // namespace

/// Slice `index` of `count` equal ones of `dim`.
static TensorRef slice(const Tensor &tensor, int64_t dim, int64_t index,
                       int64_t count) {
  SmallVector<int64_t> shape(tensor.getShape()), offsets(shape.size(), 0);
  shape[dim] /= count;
  offsets[dim] = index * shape[dim];
  return std::make_shared<Tensor>(extractBlock(tensor, offsets, shape));
}

static TensorRef share(Tensor tensor) {
  return std::make_shared<Tensor>(std::move(tensor));
}

static TensorRef allToAll(AllToAllOp op, const Member &member) {
  std::vector<TensorRef> pieces;
  for (const TensorRef &input : member.inputs)
    pieces.push_back(
        slice(*input, op.getSplitDim(), member.index, member.getGroupSize()));
  return share(concatenate(pieces, op.getConcatDim()));
}

/// The value of member `kept`; what the others hold is zero.
static TensorRef zeroOthers(const Member &member, int64_t kept) {
  const TensorRef &value = member.inputs[kept];
  if (member.index == kept)
    return value;
  return share(Tensor(value->getShape(), value->getElementType()));
}

/// `value` of member `point`; the others hold nothing.
static TensorRef onlyAt(const Member &member, int64_t point,
                        llvm::function_ref<TensorRef()> value) {
  return member.index == point ? value() : nullptr;
}

static TensorRef runMember(Operation *op, const Member &member) {
  return TypeSwitch<Operation *, TensorRef>(op)
      .Case([&](AllReduceOp) { return share(sumOf(member.inputs)); })
      .Case([&](AllGatherOp gather) {
        return share(concatenate(member.inputs, gather.getDim()));
      })
      .Case([&](ReduceScatterOp scatter) {
        return slice(sumOf(member.inputs), scatter.getDim(), member.index,
                     member.getGroupSize());
      })
      .Case([&](AllToAllOp exchange) { return allToAll(exchange, member); })
      .Case([&](LocalSliceOp local) {
        return slice(*member.own(), local.getDim(), member.index,
                     member.getGroupSize());
      })
      .Case([&](KeepFirstOp) { return zeroOthers(member, 0); })
      .Case([&](ZeroOthersOp zero) {
        return zeroOthers(member, zero.getPoint());
      })
      .Case([&](BroadcastOp send) { return member.inputs[send.getFrom()]; })
      .Case([&](TransferOp send) {
        return onlyAt(member, send.getTo(),
                      [&] { return member.inputs[send.getFrom()]; });
      })
      .Case([&](ReduceOp sum) {
        return onlyAt(member, sum.getTo(),
                      [&] { return share(sumOf(member.inputs)); });
      })
      .Case([&](KeepAtOp keep) {
        return onlyAt(member, keep.getPoint(), [&] { return member.own(); });
      });
}

bool runsOverGroups(Operation *op) {
  return isCollective(op) || isa<LocalSliceOp, KeepFirstOp, TransferOp,
                                 BroadcastOp, KeepAtOp, ZeroOthersOp>(op);
}

/// Whether all members get the same result.
static bool isUniform(Operation *op) {
  return isa<AllReduceOp, AllGatherOp, BroadcastOp>(op);
}

static SmallVector<unsigned> getAxes(Operation *op, MeshAttr mesh) {
  SmallVector<unsigned> axes;
  for (auto name :
       op->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>())
    axes.push_back(*mesh.lookup(name.getValue()));
  return axes;
}

Shards runCollective(Operation *op, const Shards &input, const Points &points) {
  SmallVector<unsigned> axes = getAxes(op, points.getMesh());
  // Equal members of groups with equal inputs share their result.
  std::map<std::pair<std::vector<TensorRef>, int64_t>, TensorRef> results;
  Shards output;
  for (int64_t point = 0; point < points.size(); ++point) {
    auto group = points.getGroup(point, axes);
    Member member{{}, llvm::find(group, point) - group.begin()};
    for (int64_t other : group)
      member.inputs.push_back(input[other]);
    if (llvm::none_of(member.inputs, [](const TensorRef &it) { return it; })) {
      output.push_back(nullptr); // the group is elsewhere on another axis
      continue;
    }
    int64_t key = isUniform(op) ? 0 : member.index;
    TensorRef &result = results[{member.inputs, key}];
    if (!result)
      result = runMember(op, member);
    output.push_back(result);
  }
  return output;
}

Shards runCoordinate(CoordinateOp op, const Points &points) {
  unsigned axis = *points.getMesh().lookup(op.getAxis());
  std::vector<TensorRef> byCoordinate;
  for (int64_t i = 0; i < points.getMesh().getSize(axis); ++i) {
    Tensor tensor({}, IntegerType::get(op.getContext(), 64));
    tensor.setInteger(0, i);
    byCoordinate.push_back(share(std::move(tensor)));
  }
  Shards output;
  for (int64_t point = 0; point < points.size(); ++point)
    output.push_back(byCoordinate[points.getCoordinates(point)[axis]]);
  return output;
}

} // namespace tandem::reference
