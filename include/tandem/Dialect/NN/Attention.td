//===- Attention.td - scaled dot product attention ------------ -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

/// Forward and backward share their attributes and what follows the operands
/// of their own: `others`.
class NN_AttentionLikeOp<string mnemonic, dag own, string linear>
    : NN_Op<mnemonic, [DeclareOpInterfaceMethods<NN_LibraryOpInterface,
                                                 ["getFlops"]>]> {
  let arguments = !con(own, (ins
    Variadic<NN_Tensor>:$others, F64Attr:$scale,
    DefaultValuedAttr<BoolAttr, "false">:$masked,
    OptionalAttr<I64Attr>:$before, OptionalAttr<I64Attr>:$after,
    DefaultValuedAttr<F64Attr, "0.0">:$dropout,
    DefaultValuedAttr<I64Attr, "0">:$ordinal));
  let assemblyFormat =
      "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::tandem::spmd::Rule getRule() {
      return ::tandem::nn::buildAttentionRule(getOperation(), "}]
      # linear # [{");
    }
    ::tandem::nn::AttentionOthers getOtherOperands() {
      return ::tandem::nn::splitAttentionOthers(
          getOthers(), getMasked(), getBefore() || getAfter(),
          getDropout().convertToDouble() > 0);
    }
  }] # answers;
}

def NN_AttentionOp : NN_AttentionLikeOp<"attention", (ins
    NN_Tensor:$query, NN_Tensor:$key, NN_Tensor:$value), ""> {
  let summary = "softmax(scale q kᵀ + mask) v, and the log-sum-exp of each row";
  let description = [{
    Query (b, h g, m, d), key (b, h, n, d), value (b, h, n, e): g heads of the
    query share one of the key. Results: (b, h g, m, e), and the natural
    logarithm of the sum of exponentials of each row, (b, h g, m), in f64 for f64
    and else in f32. What follows, in this order, is there as attributes say:

    * with `masked`, a mask of rank 4 that broadcasts to the scores (b, h g, m, n):
      of i1, true where a key is seen, or of the query's type, which is added;
    * with `before` or `after`, the positions of the queries (m), of i64: a query
      at p sees keys from p - before to p + after. `after = 0` is causal, and
      with `before` a window;
    * with `dropout` > 0, the number of each row of scores (b, h g, m), of i64,
      and seed and step as of `nn.philox`: a weight is kept if the bits at
      row * n + key are below floor((1 - dropout) 2^32), times 1 / (1 - dropout).

    A row that sees no key is zeros, with log-sum-exp -inf.
  }];
  let results = (outs NN_Tensor:$result, NN_Tensor:$logsumexp);
}

def NN_AttentionBackwardOp : NN_AttentionLikeOp<"attention_backward", (ins
    NN_Tensor:$grad, NN_Tensor:$query, NN_Tensor:$key,
    NN_Tensor:$value, NN_Tensor:$output,
    NN_Tensor:$logsumexp), "0"> {
  let summary = "gradients of attention's query, key and value";
  let description = [{
    `output` and `logsumexp` are the results of `nn.attention` on the other
    operands, so that no row of scores has to be whole; the mask has no gradient.
    Of a row that a finite mask covers the log-sum-exp has lost the logarithm of the
    sum: it is taken from the scores again.
  }];
  let results = (outs NN_Tensor:$query_grad, NN_Tensor:$key_grad,
                      NN_Tensor:$value_grad);
}
