//===- Sched.td - when it happens --------------------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_TD
#define TANDEM_DIALECT_SCHED_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Sched_Dialect : Dialect {
  let name = "sched";
  let cppNamespace = "::tandem::sched";
  let summary = "when it happens: queues, events, steps, stages, strands";
  let description = [{
    A device has one queue for computation and one for communication; each runs
    its steps in order. From `lower` on a queue runs commands on buffers.
    A step is enqueued with the events that it waits for,
    and gives an event of its own. A stage is a communication step followed by a
    computation step (HiDup, section 4.1); a strand is one point of a time axis,
    that is, one microbatch.

    Facts are declared attributes (`Facts.h`); any other name that begins with
    `sched.` is an error.

    | attribute | of | says |
    | --- | --- | --- |
    | `sched.slot` | operators | stage, strand and lane, within `schedule` |
    | `sched.kernel` | functions | it is a kernel of the step, from `lower` on |
    | `sched.label` | operators | what a user would call it, within `lower` |
    | `sched.arena` | modules | bytes of the arena, at the end of `lower` |
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let discardableAttrs = (ins "::mlir::DenseI64ArrayAttr":$slot,
                              "::mlir::UnitAttr":$kernel,
                              "::mlir::StringAttr":$label,
                              "::mlir::IntegerAttr":$arena);
}

def Sched_EventType : TypeDef<Sched_Dialect, "Event"> {
  let mnemonic = "event";
  let summary = "the completion of a step";
}

def Sched_Queue : I32EnumAttr<"Queue", "the queue of a device", [
    I32EnumAttrCase<"Compute", 0, "compute">,
    I32EnumAttrCase<"Comm", 1, "comm">]> {
  let cppNamespace = "::tandem::sched";
}

def Sched_StepOp : Op<Sched_Dialect, "step", [
    SingleBlockImplicitTerminator<"YieldOp">, NoRegionArguments]> {
  let summary = "work enqueued on a queue";
  let description = [{
    Lives from `schedule` on. The body reads values from above: those of earlier
    steps of the same queue, and those of steps of the other queue whose events
    it (or an earlier step of its queue) waits for. The verifier of the schedule
    stage checks this. Steps of one queue run in the order of the text.

    ```mlir
    %1, %e1 = sched.step on comm stage 3 strand 0 after(%e0) {
      %r = spmd.all_reduce %0 over ["data"] : tensor<8xf32> -> tensor<8xf32>
      sched.yield %r : tensor<8xf32>
    } : tensor<8xf32>
    ```
  }];
  let arguments = (ins Sched_Queue:$queue, I64Attr:$stage, I64Attr:$strand,
                       Variadic<Sched_EventType>:$after);
  let results = (outs Variadic<AnyRankedTensor>:$values,
                      Sched_EventType:$event);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Sched_YieldOp : Op<Sched_Dialect, "yield", [
    Pure, Terminator, ReturnLike, HasParent<"StepOp">]> {
  let summary = "the values of a step";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let builders = [OpBuilder<(ins), [{ /* no values */ }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

def Sched_CollectiveKind : I32EnumAttr<"CollectiveKind", "what a collective does", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
    I32EnumAttrCase<"AllGather", 1, "all_gather">,
    I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">]> {
  let cppNamespace = "::tandem::sched";
  let genSpecializedAttr = 0;
}
def Sched_CollectiveKindAttr
    : EnumAttr<Sched_Dialect, Sched_CollectiveKind, "collective">;

include "tandem/Dialect/Sched/Commands.td"

#endif // TANDEM_DIALECT_SCHED_TD
