//===- Passes.td - passes of Cut --------------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_CUT_PASSES_TD
#define TANDEM_TRANSFORMS_CUT_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignSectionsPass : Pass<"tandem-assign-sections", "::mlir::ModuleOp"> {
  let summary = "Says which section of a pipeline has each operator and each stored value";
  let description = [{
    Before: nn on plain tensors, in loops or not. After: the same, where operators
    and arguments have `spmd.section`, and the module has `spmd.sections` and
    `spmd.pipe`.

    Sections are named by their parameters, in the order of the data:
    `layers.[0-5].*:0; layers.[6-9].*:1` puts section 0 on point 0 and section 1 on
    point 1. Globs of one section are separated by commas. A parameter that no glob
    matches has the section of its first reader. States and buffers follow their
    parameters. A number, `sections=4`, chooses as many sections of about equal FLOPs;
    `4@0,1,1,0` says on which points they lie, else section i lies on point i modulo the
    points.

    A forward operator is in the last section that it reads of. One without parameters,
    as a normalization in front of a layer with a skip connection, is where it is read,
    if fewer bytes cross then, and so are the operators of its gradient. A backward operator
    is where its result is read, or further back in the order of sections, where
    what it reads is kept. What reads no section is in none: each point computes it.
    A sum over values of several sections outside of the loops is in none either.

    Then less crosses: each section adds its own terms of a sum of gradients, and carries
    the sum over microbatches of what it adds; it makes its own views of what it reads; and
    what makes less of a later section's gradient, as a slice, is there.

    A remark says what each section has. An error names a glob that matches nothing, a section without operators, and
    an operator whose gradient would flow to a later section.
  }];
  let options = [
    Option<"axis", "axis", "std::string", "\"pipe\"", "The axis of the mesh that has the points">,
    Option<"points", "points", "int64_t", "0", "Points of the axis">,
    Option<"sections", "sections", "std::string", "", "Globs of parameters and the point of each section, or a number of sections">,
    Option<"mesh", "mesh", "std::string", "", "The mesh with the axis, by which the plan prices the distance of ranks: `spmd.whole_mesh`">,
    Option<"order", "order", "std::string", "", "The order of the actions, for the stage localize: `spmd.order`">,
    Option<"rows", "rows", "std::string", "", "The text of its file: `spmd.rows`">,
    Option<"strands", "strands", "int64_t", "1", "Microbatches of each action of the order: `spmd.strands`">,
  ];
}

def PlaceSectionsPass : Pass<"tandem-place-sections", "::mlir::ModuleOp"> {
  let summary = "Adds the pipe axis to a sharded step: sections become forms at(i)";
  let description = [{
    Before: forms on the mesh of the plan, `spmd.sections` and `spmd.section`. After:
    forms on `mesh`, which has the pipe axis, too. What is in a section is `at` its
    point, and `spmd.reform` takes a value to another point in front of its first
    reader there. What is in no section is `full`, or where it reads, or a term on
    each point whose sum is made where it is read.

    On the axes of `parts`, what is `full` is split in front of a transfer, and
    gathered behind it: Megatron's scatter and gather.
  }];
  let options = [
    Option<"mesh", "mesh", "std::string", "", "The mesh with the pipe axis, such as pipe=2,data=2">,
    ListOption<"parts", "parts", "std::string", "Axes whose devices send a part each of what crosses points">,
  ];
}

#endif // TANDEM_TRANSFORMS_CUT_PASSES_TD
