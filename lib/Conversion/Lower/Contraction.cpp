//===- Contraction.cpp - loops of a matrix product ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Contraction.h"

using namespace llvm;

namespace tandem::lower {

static bool isOuterOf(const Loop &outer, const Loop &inner) {
  return outer.a == inner.a * inner.size && outer.b == inner.b * inner.size &&
         outer.c == inner.c * inner.size;
}

/// Makes one loop of any two that together are one.
static SmallVector<Loop> merge(ArrayRef<Loop> loops) {
  SmallVector<Loop> merged;
  for (const Loop &loop : loops)
    if (loop.size != 1)
      merged.push_back(loop);
  for (size_t i = 0; i < merged.size(); ++i)
    for (size_t j = 0; j < merged.size(); ++j)
      if (i != j && isOuterOf(merged[i], merged[j])) {
        merged[j].size *= merged[i].size;
        merged.erase(merged.begin() + i);
        i = size_t(-1);
        break;
      }
  return merged;
}

namespace {
/// The four roles that a loop can have.
struct Roles {
  SmallVector<Loop> batch, m, n, k;

  explicit Roles(ArrayRef<Loop> loops) {
    for (const Loop &loop : loops) {
      if (loop.c == 0)
        k.push_back(loop);
      else if (loop.a != 0 && loop.b == 0)
        m.push_back(loop);
      else if (loop.a == 0 && loop.b != 0)
        n.push_back(loop);
      else
        batch.push_back(loop);
    }
  }
};
} // namespace

/// Takes the largest of `loops`; the others go over to the batch.
static std::optional<Loop> takeLargest(SmallVector<Loop> &loops,
                                       SmallVector<Loop> &batch) {
  if (loops.empty())
    return std::nullopt;
  auto largest = max_element(
      loops, [](const Loop &x, const Loop &y) { return x.size < y.size; });
  Loop loop = *largest;
  loops.erase(largest);
  batch.append(loops);
  return loop;
}

/// The strides of a matrix. A dimension of size 1 has a stride that makes the
/// matrix an ordinary one.
static std::pair<int64_t, int64_t>
completeStrides(int64_t rows, int64_t row, int64_t columns, int64_t column) {
  if (rows == 1 && columns == 1)
    return {1, 1};
  if (rows == 1)
    row = column == 1 ? columns : 1;
  if (columns == 1)
    column = row == 1 ? rows : 1;
  return {row, column};
}

static bool isReadable(int64_t rows, int64_t row, int64_t columns,
                       int64_t column) {
  return (column == 1 && row >= columns) || (row == 1 && column >= rows);
}

static Product assemble(const Loop &m, const Loop &n, const Loop &k,
                        SmallVector<Loop> batch) {
  // Outermost first, as they lie in the result.
  sort(batch, [](const Loop &x, const Loop &y) {
    return std::tie(x.c, x.a, x.b) > std::tie(y.c, y.a, y.b);
  });
  Product product;
  product.m = m.size;
  product.n = n.size;
  product.k = k.size;
  for (const Loop &loop : batch) {
    product.batch.push_back(loop.size);
    product.stridesA.push_back(loop.a);
    product.stridesB.push_back(loop.b);
    product.stridesC.push_back(loop.c);
  }
  auto add = [](Sizes &strides, std::pair<int64_t, int64_t> last) {
    strides.append({last.first, last.second});
  };
  add(product.stridesA, completeStrides(m.size, m.a, k.size, k.a));
  add(product.stridesB, completeStrides(k.size, k.b, n.size, n.b));
  add(product.stridesC, completeStrides(m.size, m.c, n.size, n.c));
  return product;
}

static bool isLegal(const Product &p) {
  auto last = [](const Sizes &strides) { return strides.back(); };
  auto before = [](const Sizes &strides) {
    return strides[strides.size() - 2];
  };
  return isReadable(p.m, before(p.stridesA), p.k, last(p.stridesA)) &&
         isReadable(p.k, before(p.stridesB), p.n, last(p.stridesB)) &&
         last(p.stridesC) == 1 && before(p.stridesC) >= p.n;
}

static std::optional<Product> formOriented(ArrayRef<Loop> loops) {
  Roles roles(merge(loops));
  if (roles.k.size() > 1)
    return std::nullopt;
  const Loop one = {1, 0, 0, 0};
  Loop m = takeLargest(roles.m, roles.batch).value_or(one);
  Loop n = takeLargest(roles.n, roles.batch).value_or(one);
  Loop k = roles.k.empty() ? one : roles.k.front();
  Product product = assemble(m, n, k, roles.batch);
  if (!isLegal(product))
    return std::nullopt;
  return product;
}

std::optional<Product> formProduct(ArrayRef<Loop> loops) {
  if (auto product = formOriented(loops))
    return product;
  // The transposed result is the product of the transposed operands.
  SmallVector<Loop> turned(loops);
  for (Loop &loop : turned)
    std::swap(loop.a, loop.b);
  auto product = formOriented(turned);
  if (product)
    product->swapped = true;
  return product;
}

} // namespace tandem::lower
