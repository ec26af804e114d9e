//===- block_product.cpp - products of small matrices ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/attention_rows.h"
#include "cpu/bf16.h"

#include <algorithm>
#include <cblas.h>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

namespace tandem::rt::cpu {

namespace {
/// Libraries refuse less than a row's width also of one row, BLAS by a line on
/// stderr and no product.
int64_t apart(int64_t leading, int64_t rows, int64_t columns) {
  return rows == 1 ? std::max(leading, columns) : leading;
}

template <typename T>
Factor<T> apart(Factor<T> factor, int64_t rows, int64_t columns) {
  if (factor.transposed)
    std::swap(rows, columns);
  factor.leading = apart(factor.leading, rows, columns);
  return factor;
}

template <typename T>
void separate(const ProductShape &shape, Factor<T> &a, Factor<T> &b,
              int64_t &leading) {
  a = apart(a, shape.m, shape.k);
  b = apart(b, shape.k, shape.n);
  leading = apart(leading, shape.m, shape.n);
}
} // namespace

void multiply(const ProductShape &shape, Factor<float> a, Factor<float> b,
              float *c, int64_t leading) {
  separate(shape, a, b, leading);
  auto letter = [](bool transposed) { return transposed ? 'T' : 'N'; };
  dnnl_status_t status =
      dnnl_sgemm(letter(a.transposed), letter(b.transposed), shape.m, shape.n,
                 shape.k, float(shape.alpha), a.data, a.leading, b.data,
                 b.leading, shape.accumulate ? 1.0f : 0.0f, c, leading);
  dnnl::error::wrap_c_api(status, "dnnl_sgemm failed");
}

void multiply(const ProductShape &shape, Factor<double> a, Factor<double> b,
              double *c, int64_t leading) {
  separate(shape, a, b, leading);
  auto transpose = [](bool transposed) {
    return transposed ? CblasTrans : CblasNoTrans;
  };
  cblas_dgemm(CblasRowMajor, transpose(a.transposed), transpose(b.transposed),
              blasint(shape.m), blasint(shape.n), blasint(shape.k), shape.alpha,
              a.data, blasint(a.leading), b.data, blasint(b.leading),
              shape.accumulate ? 1.0 : 0.0, c, blasint(leading));
}

namespace {
using dnnl::memory;

/// A product of oneDNN's that is made once for all blocks of a shape.
struct Prepared {
  dnnl::matmul primitive;
  memory a, b, c, scratchpad;
};

/// Everything that the code of a product depends on.
using Key = std::tuple<int64_t, int64_t, int64_t, bool, int64_t, bool, int64_t,
                       bool, int64_t>;

memory::desc describe(int64_t rows, int64_t columns, memory::data_type type,
                      int64_t leading, bool transposed) {
  if (transposed)
    return {{rows, columns}, type, memory::dims{1, leading}};
  return {{rows, columns}, type, memory::dims{leading, 1}};
}

Prepared prepare(const dnnl::engine &engine, const ProductShape &shape,
                 const Factor<Bf16> &a, const Factor<Bf16> &b,
                 int64_t leading) {
  constexpr auto kNarrow = memory::data_type::bf16;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  if (shape.accumulate)
    ops.append_sum(1.0f);
  attr.set_post_ops(ops);
  dnnl::matmul::primitive_desc desc(
      {describe(shape.m, shape.k, kNarrow, a.leading, a.transposed),
       describe(shape.k, shape.n, kNarrow, b.leading, b.transposed),
       describe(shape.m, shape.n, memory::data_type::f32, leading, false)},
      attr, engine);
  return {dnnl::matmul(desc), memory(desc.src_desc(), engine, nullptr),
          memory(desc.weights_desc(), engine, nullptr),
          memory(desc.dst_desc(), engine, nullptr),
          memory(desc.scratchpad_desc(), engine)};
}

/// Of one thread: the scratchpads are its own.
class PreparedProducts {
public:
  Prepared &find(const ProductShape &shape, const Factor<Bf16> &a,
                 const Factor<Bf16> &b, int64_t leading) {
    Key key(shape.m, shape.n, shape.k, shape.accumulate, a.leading,
            a.transposed, b.leading, b.transposed, leading);
    auto it = made.find(key);
    if (it == made.end())
      it = made.emplace(key, prepare(engine, shape, a, b, leading)).first;
    return it->second;
  }
  dnnl::stream &getStream() { return stream; }

private:
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Prepared> made;
};

/// As f32, row by row; in the memory of one thread.
Factor<float> widenRows(std::vector<float> &memory, int64_t rows,
                        int64_t columns, Factor<Bf16> factor) {
  if (factor.transposed)
    std::swap(rows, columns);
  memory.resize(size_t(rows * columns));
  for (int64_t row = 0; row < rows; ++row)
    widen(factor.data + row * factor.leading, memory.data() + row * columns,
          size_t(columns));
  return {memory.data(), columns, factor.transposed};
}
} // namespace

void multiply(const ProductShape &shape, Factor<Bf16> a, Factor<Bf16> b,
              float *c, int64_t leading) {
  separate(shape, a, b, leading);
  if (!multipliesBf16()) {
    thread_local std::vector<float> wideA, wideB;
    return multiply(shape, widenRows(wideA, shape.m, shape.k, a),
                    widenRows(wideB, shape.k, shape.n, b), c, leading);
  }
  thread_local PreparedProducts products;
  Prepared &prepared = products.find(shape, a, b, leading);
  prepared.a.set_data_handle(const_cast<Bf16 *>(a.data));
  prepared.b.set_data_handle(const_cast<Bf16 *>(b.data));
  prepared.c.set_data_handle(c);
  prepared.primitive.execute(products.getStream(),
                             {{DNNL_ARG_SRC, prepared.a},
                              {DNNL_ARG_WEIGHTS, prepared.b},
                              {DNNL_ARG_DST, prepared.c},
                              {DNNL_ARG_SCRATCHPAD, prepared.scratchpad}});
  // oneDNN's own scaling takes several times as long as the product.
  for (int64_t row = 0; shape.alpha != 1 && row < shape.m; ++row)
    scaleRow(c + row * leading, c + row * leading, shape.n, float(shape.alpha));
}

} // namespace tandem::rt::cpu
