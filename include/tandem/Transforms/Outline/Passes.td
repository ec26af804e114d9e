//===- Passes.td - passes of Outline ----------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_OUTLINE_PASSES_TD
#define TANDEM_TRANSFORMS_OUTLINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def OutlineActionsPass : Pass<"tandem-outline-actions", "::mlir::ModuleOp"> {
  let summary = "Makes a module of each action of a pipeline, and a function of each point";
  let description = [{
    Before: a localized step with forms `at(i)` on the pipe axis, and microbatches as
    iterations of its loops. After: a module per action, whose step is that of one
    microbatch, and a function per point that runs actions in the order of the
    pipeline, and sends and receives. `@step` is left as a declaration.

    | module | what |
    | --- | --- |
    | `@s0.F` | the forward pass of section 0 |
    | `@s0.FA` | adds what forward passes sum up over microbatches, as the loss |
    | `@s0.I` | what the gradients depend on that leave section 0 |
    | `@s0.W` | the rest of the backward pass; on points in `joined` all of it |
    | `@s0.S` | sums the gradients of section 0 over other devices, once, behind the last W |
    | `@s0.F.1`, `@s0.B.1` | what is in a loop before the last one, which is segment 1 |
    | `@p0.2` | what point 0 runs once, or in a loop before the last one: by its segment |

    A value that all points have is made in each action that reads it. What one action makes and
    another one reads is held for each microbatch in flight. So where actions of a section read a
    tensor and views of it, or several views, or a view of an argument, they make the views
    themselves: the tensor alone is held, or nothing. Views are reshapes, permutations,
    expansions, slices and conversions. A sum over
    microbatches is an argument that the action updates. All orders add in the order of
    microbatches, so all have equal bits: W waits for its turn. An order that cannot run is an
    error with the row and the entry.

    What waits on the host is in no action: the function of the point sends it
    (`sched.to_host`) behind the action that makes it, and fetches it
    (`sched.from_host`) in front of the first one that reads it.

    Where all forward passes come first, the last loop reads what earlier loops make in the same
    microbatch, in place of making it again: so a forward pass that a sum over all
    microbatches interrupts goes on where it stopped.
  }];
  let options = [
    Option<"order", "order", "std::string", "\"1f1b\"", "gpipe, 1f1b, or the file of an order">,
    Option<"rows", "rows", "std::string", "", "The text of the file, if it is read already">,
    ListOption<"joined", "joined", "int64_t", "Points whose backward pass of a microbatch is one action">,
    Option<"strands", "strands", "int64_t", "1", "Microbatches of each action of the order">,
  ];
  let dependentDialects = ["::tandem::sched::SchedDialect"];
}

#endif // TANDEM_TRANSFORMS_OUTLINE_PASSES_TD
