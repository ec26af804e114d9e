//===- Nest.cpp - loop nest of several operators --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Nest.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace tandem;

using Factors = Nest::Factors;

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

int64_t Nest::getSize(const Factors &factors) const {
  int64_t size = 1;
  for (int factor : factors)
    size *= sizes[factor];
  return size;
}

Factors Nest::getDomain(unsigned member) const {
  Factors domain;
  for (const Factors &loop : members[member].loops)
    domain.append(loop);
  return domain;
}

int Nest::addFactor(int64_t size, int position) {
  int factor = sizes.size();
  sizes.push_back(size);
  isColumn.push_back(false);
  order.insert(order.begin() + position, factor);
  return factor;
}

static void replace(Factors &factors, int factor, int minor) {
  auto *it = llvm::find(factors, factor);
  if (it != factors.end())
    factors.insert(it + 1, minor);
}

void Nest::split(int factor, int64_t minor, SmallVectorImpl<Factors> &loops) {
  int added = sizes.size();
  sizes.push_back(minor);
  sizes[factor] /= minor;
  isColumn.push_back(isColumn[factor]);
  replace(order, factor, added);
  for (Member &member : members)
    for (Factors &loop : member.loops)
      replace(loop, factor, added);
  for (auto &[value, info] : made) {
    for (Factors &dim : info.dims)
      replace(dim, factor, added);
    replace(info.reduced, factor, added);
  }
  for (Factors &loop : loops)
    replace(loop, factor, added);
}

//===----------------------------------------------------------------------===//
// Which factors an operator's loops are
//===----------------------------------------------------------------------===//

/// What is read of a value made in the nest must be the current element.
bool Nest::assignRead(const LoopOp &op, SmallVectorImpl<Factors> &loops,
                      SmallVectorImpl<bool> &assigned) {
  for (const LoopAccess &access : op.inputs) {
    auto it = made.find(access.value);
    if (it == made.end())
      continue;
    Made &info = it->second;
    info.isRead = true;
    forceColumns(info.reduced);
    for (auto [dim, loop] : llvm::enumerate(access.dims)) {
      const Factors &factors = info.dims[dim];
      if (loop == LoopAccess::kElsewhere ||
          (loop == LoopAccess::kUniform && !factors.empty()))
        return false;
      if (loop == LoopAccess::kUniform)
        continue;
      if (assigned[loop] && loops[loop] != factors)
        return false;
      loops[loop] = factors;
      assigned[loop] = true;
    }
  }
  return true;
}

/// Takes unused factors to the left of `position` whose product is `size`,
/// splitting the major-most one where needed.
bool Nest::matchFree(int64_t size, int &position, const Factors &used,
                     Factors &result, SmallVectorImpl<Factors> &loops) {
  int at = position;
  int64_t rest = size;
  Factors found;
  while (rest > 1) {
    --at;
    if (at < 0)
      return false;
    int factor = order[at];
    if (llvm::is_contained(used, factor))
      return false;
    if (rest % sizes[factor] == 0) {
      rest /= sizes[factor];
      found.insert(found.begin(), factor);
      continue;
    }
    if (sizes[factor] % rest != 0)
      return false;
    split(factor, rest, loops);
    // The split moved what is minor to it by one place.
    found.insert(found.begin(), order[at + 1]);
    position = at + 1;
    result = found;
    return true;
  }
  position = at;
  result = found;
  return true;
}

/// Loops over values in memory take the factors that are left, from the inner
/// ones outwards; where there is none, the nest grows by one.
bool Nest::assignFree(const LoopOp &op, SmallVectorImpl<Factors> &loops,
                      SmallVectorImpl<bool> &assigned) {
  bool isFirst = members.empty();
  int position = order.size();
  for (int loop = op.sizes.size() - 1; loop >= 0; --loop) {
    if (op.sizes[loop] == 1)
      continue;
    if (assigned[loop]) {
      if (!loops[loop].empty())
        position = llvm::find(order, loops[loop].front()) - order.begin();
      continue;
    }
    Factors used;
    for (const Factors &other : loops)
      used.append(other);
    if (!isFirst &&
        matchFree(op.sizes[loop], position, used, loops[loop], loops))
      continue;
    // A factor outside of what is there would run it again and again.
    if (!isFirst && position != static_cast<int>(order.size()))
      return false;
    loops[loop] = {addFactor(op.sizes[loop], position)};
  }
  return true;
}

/// Takes whole factors, from the outermost or from the innermost one on; false
/// if the loops are no product of such.
bool Nest::takeWhole(const LoopOp &op, bool fromOuter,
                     SmallVectorImpl<Factors> &loops) const {
  int numLoops = op.sizes.size(), numFactors = order.size(), taken = 0;
  for (int i = 0; i < numLoops; ++i) {
    int loop = fromOuter ? i : numLoops - 1 - i;
    Factors found;
    for (int64_t rest = op.sizes[loop]; rest > 1; ++taken) {
      if (taken == numFactors)
        return false;
      int factor = order[fromOuter ? taken : numFactors - 1 - taken];
      if (rest % sizes[factor] != 0)
        return false;
      rest /= sizes[factor];
      found.insert(fromOuter ? found.end() : found.begin(), factor);
    }
    loops[loop] = found;
  }
  return true;
}

/// An operator that reads nothing of the nest, such as the check of another
/// embedding's indices, is one of its rows if its loops are the outer factors,
/// and not, as that of a bias, the inner ones.
bool Nest::alignRows(const LoopOp &op, SmallVectorImpl<Factors> &loops,
                     ArrayRef<bool> assigned) const {
  SmallVector<Factors> rows(op.sizes.size()), columns(op.sizes.size());
  if (members.empty() || llvm::is_contained(assigned, true) ||
      takeWhole(op, /*fromOuter=*/false, columns) ||
      !takeWhole(op, /*fromOuter=*/true, rows))
    return false;
  loops.assign(rows);
  return true;
}

/// Whether the last member runs again for each row of an axis that it does not
/// depend on. One that does not make the nest grow runs at most once for each
/// of its points; where each of several made it grow, that is a product.
bool Nest::repeatsLast() const {
  Factors domain = getDomain(members.size() - 1);
  return llvm::any_of(order, [&](int factor) {
    return !isColumn[factor] && !llvm::is_contained(domain, factor);
  });
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

void Nest::forceColumns(const Factors &factors) {
  for (int factor : factors)
    isColumn[factor] = true;
}

bool Nest::addOutputs(const LoopOp &op, ArrayRef<Factors> loops) {
  for (const LoopAccess &access : op.outputs) {
    Made info;
    info.member = members.size() - 1;
    SmallVector<bool> kept(loops.size(), false);
    for (int loop : access.dims) {
      if (loop == LoopAccess::kElsewhere)
        return false;
      info.dims.push_back(loop == LoopAccess::kUniform ? Factors()
                                                       : loops[loop]);
      if (loop >= 0)
        kept[loop] = true;
    }
    for (auto [loop, isKept] : llvm::enumerate(kept))
      if (!isKept)
        info.reduced.append(loops[loop]);
    made[access.value] = std::move(info);
  }
  return true;
}

/// What must hold of rows and columns.
bool Nest::check() const {
  int64_t columns = 1;
  bool isInner = true;
  for (int factor : order) {
    // Rows inside of columns would make every loop over columns jump.
    isInner &= isColumn[factor] || columns == 1;
    if (isColumn[factor])
      columns *= sizes[factor];
  }
  if (members.size() > 1 && (columns > maxColumns || !isInner))
    return false;
  for (const auto &[value, info] : made) {
    if (info.reduced.empty())
      continue;
    auto column = [&](int factor) { return isColumn[factor]; };
    bool inColumns = llvm::any_of(info.dims, [&](const Factors &dim) {
      return llvm::any_of(dim, column);
    });
    // A value of the row is one scalar.
    if (info.isRead && inColumns)
      return false;
    if (llvm::all_of(info.reduced, column) && !inColumns)
      continue;
    // What is added up in memory must not be added again for every row of an
    // axis that it does not depend on.
    Factors domain = getDomain(info.member);
    for (int factor : order)
      if (!isColumn[factor] && !llvm::is_contained(domain, factor))
        return false;
  }
  return true;
}

bool Nest::add(const LoopOp &op) {
  SmallVector<Factors> loops(op.sizes.size());
  SmallVector<bool> assigned(op.sizes.size(), false);
  if (!assignRead(op, loops, assigned))
    return false;
  // Two loops over one factor would read a diagonal.
  SmallVector<bool> seen(sizes.size(), false);
  for (const Factors &loop : loops)
    for (int factor : loop)
      if (std::exchange(seen[factor], true))
        return false;
  int64_t size = getSize(order);
  if (!alignRows(op, loops, assigned) && !assignFree(op, loops, assigned))
    return false;
  members.push_back({op.op, loops});
  if (getSize(order) > size && repeatsLast())
    return false;
  for (int loop : op.whole)
    forceColumns(loops[loop]);
  return addOutputs(op, loops) && check();
}

bool Nest::tryAdd(const LoopOp &op) {
  Nest next = *this;
  if (!next.add(op))
    return false;
  *this = std::move(next);
  return true;
}

//===----------------------------------------------------------------------===//
// Reshape
//===----------------------------------------------------------------------===//

bool Nest::regroup(const Factors &flat, ArrayRef<int64_t> shape,
                   SmallVectorImpl<Factors> &dims) {
  // From the minor end, since strides are what both sides share.
  SmallVector<Factors> rest = {flat};
  dims.assign(shape.size(), {});
  for (int dim = shape.size() - 1; dim >= 0; --dim) {
    int64_t size = shape[dim];
    while (size > 1) {
      if (rest[0].empty())
        return false;
      int factor = rest[0].back();
      if (size % sizes[factor] != 0) {
        if (sizes[factor] % size != 0)
          return false;
        split(factor, size, rest);
        factor = rest[0].back();
      }
      size /= sizes[factor];
      rest[0].pop_back();
      dims[dim].insert(dims[dim].begin(), factor);
    }
  }
  return rest[0].empty();
}

bool Nest::addReshape(Operation *op, Value from, Value to) {
  Made info = made.find(from)->second;
  Factors flat;
  for (const Factors &dim : info.dims)
    flat.append(dim);
  SmallVector<Factors> dims;
  if (!regroup(flat, cast<RankedTensorType>(to.getType()).getShape(), dims))
    return false;
  // A split may have changed what is reduced.
  Made &source = made.find(from)->second;
  source.isRead = true;
  forceColumns(source.reduced);
  members.push_back({op, dims});
  Made result;
  result.member = members.size() - 1;
  result.dims = dims;
  made[to] = std::move(result);
  return check();
}

bool Nest::tryAddReshape(Operation *op, Value from, Value to) {
  Nest next = *this;
  if (!next.makes(from) || !next.addReshape(op, from, to))
    return false;
  *this = std::move(next);
  return true;
}
