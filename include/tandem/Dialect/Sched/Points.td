//===- Points.td - programs of points ----------------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_POINTS_TD
#define TANDEM_DIALECT_SCHED_POINTS_TD

include "mlir/IR/SymbolInterfaces.td"
include "tandem/Dialect/Sched/Sched.td"

def Sched_RunOp : Tandem_Op<Sched_Dialect, "run", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs an action: a module of its own, with a step";
  let description = [{
    Lives from `outline` on, in the function of a point. `microbatch` is that of the
    action; none: it runs once. Runs that follow each other with strands, from 0 on, are a
    group: the runs of a strand run in turn, and communicate beside the computation of the
    other strands. Strands share sums alone, which they add to in the order of the runs.

    ```mlir
    %1:2 = sched.run @s0.F microbatch 1 (%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$action, OptionalAttr<Sched_NumberAttr>:$microbatch,
                       OptionalAttr<Sched_NumberAttr>:$strand, Variadic<AnyStaticShapeTensor>:$inputs);
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat = [{
    $action (`microbatch` $microbatch^)? (`strand` $strand^)? `(` $inputs `)` attr-dict `:`
    functional-type($inputs, $results)
  }];
  let extraClassDeclaration = [{
    /// Whether the action is a pass of a section.
    bool isOfSection() { return getAction().starts_with("s") && getMicrobatch(); }
    /// Whether the action sums the gradients of a section over other devices.
    bool isSum() { return getAction().starts_with("s") && !getMicrobatch(); }
    /// The section of a pass, or of a sum.
    ::llvm::StringRef getSection() { return getAction().drop_front().split('.').first; }
    /// Of a pass: `0F3`, with section, letter and microbatch.
    std::string getPassName();
  }];
}

def Sched_SendOp : Tandem_Op<Sched_Dialect, "send"> {
  let summary = "gives a tensor to another point of the pipe axis";
  let description = [{
    Lives from `outline` on. `tag` is equal at both ends of a transfer, and no other
    transfer has it.
  }];
  let arguments = (ins AnyStaticShapeTensor:$value, Sched_NumberAttr:$to,
                       Sched_NumberAttr:$tag, OptionalAttr<Sched_NumberAttr>:$microbatch);
  let assemblyFormat = "$value `to` $to `tag` $tag (`microbatch` $microbatch^)? attr-dict `:` type($value)";
}

def Sched_ReceiveOp : Tandem_Op<Sched_Dialect, "receive"> {
  let summary = "takes a tensor from another point of the pipe axis";
  let arguments = (ins Sched_NumberAttr:$from, Sched_NumberAttr:$tag,
                       OptionalAttr<Sched_NumberAttr>:$microbatch);
  let results = (outs AnyStaticShapeTensor:$value);
  let assemblyFormat = "`from` $from `tag` $tag (`microbatch` $microbatch^)? attr-dict `:` type($value)";
}

def Sched_RowOp : Tandem_Op<Sched_Dialect, "row", [Pure]> {
  let summary = "what a microbatch has of a tensor whose first dimension counts them";
  let arguments = (ins AnyStaticShapeTensor:$whole, Sched_NumberAttr:$microbatch);
  let results = (outs AnyStaticShapeTensor:$row);
  let assemblyFormat = "$whole `microbatch` $microbatch attr-dict `:` type($whole) `->` type($row)";
  let hasVerifier = 1;
}

def Sched_StackOp : Tandem_Op<Sched_Dialect, "stack", [Pure]> {
  let summary = "the rows of all microbatches, behind a new first dimension";
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$rows);
  let results = (outs AnyStaticShapeTensor:$whole);
  let assemblyFormat = "$rows attr-dict `:` type($rows) `->` type($whole)";
  let hasVerifier = 1;
}

def Sched_GiveOp : Tandem_Op<Sched_Dialect, "give"> {
  let summary = "a result of the step, by its number, that this point has";
  let arguments = (ins AnyStaticShapeTensor:$value, Sched_NumberAttr:$index);
  let assemblyFormat = "$value `as` $index attr-dict `:` type($value)";
}

#endif // TANDEM_DIALECT_SCHED_POINTS_TD
