//===- Passes.td - passes of the stage lower ---------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_LOWER_PASSES_TD
#define TANDEM_CONVERSION_LOWER_PASSES_TD

include "mlir/Pass/PassBase.td"

class Lower_Pass<string flag> : Pass<flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::tandem::sched::SchedDialect"];
}

def NameDevice : Lower_Pass<"tandem-name-device"> {
  let summary = "lets the module say what it is compiled for";
  let description = [{
    Before: a module that may name its device. After: it names it, as
    `sched.device`. Fails for a device that nobody knows, and for another one
    than the module names.
  }];
  let options = [
    Option<"device", "device", "std::string", "",
           "The device; default: what the module names, else a CPU">,
  ];
}

def CheckLowerable : Lower_Pass<"tandem-check-lowerable"> {
  let summary = "refuses what has no kernel, and forms that are left";
  let description = [{
    Before: anything. After: a function `@step` of `sched.step`s and a return, whose
    operators all have a kernel, a library call or a collective, on static
    tensors without encoding.
  }];
}

def SelectProducts : Lower_Pass<"tandem-select-products"> {
  let summary = "matrix products read and write by strides";
  let description = [{
    Before: `nn.matmul` on operands that may be transposed, permuted, expanded
    or sliced by operators of their own. After: `sched.matmul`, with those
    views in its strides where the library can read them, also across steps,
    and without the operators that nobody else needs.
  }];
}

def GroupHeads : Lower_Pass<"tandem-group-heads"> {
  let summary = "groups of queries share heads that are repeated for them";
  let description = [{
    Before: attention on heads of keys and values that are expanded, each for a group
    of heads of the query, and sums of their gradients over groups. After: attention
    on the heads as they were, and gradients that are these sums.
  }];
}

def SelectAttention : Lower_Pass<"tandem-select-attention"> {
  let summary = "attention reads and writes by strides";
  let description = [{
    Before: `nn.attention` and its backward on operands that may be permuted,
    reshaped or sliced by operators of their own. After: `sched.attention`, with
    those views in its strides where rows stay contiguous, also across steps; its
    results lie as the only permutation of them that is used.
  }];
}

def SelectConvolutions : Lower_Pass<"tandem-select-convolutions"> {
  let summary = "convolutions read and write by strides";
  let description = [{
    Before: `nn.conv` and its gradients on operands that may be permuted, reshaped
    or sliced by operators of their own. After: `sched.conv`, with those views in
    its strides, also across steps; its result lies as the only permutation of it
    that is used.
  }];
}

def CarrySums : Lower_Pass<"tandem-carry-sums"> {
  let summary = "iterations add to zeros that are made in front of the loop";
  let description = [{
    Before: `spmd.carry` in the steps of a loop. After: `nn.add` of it to one of
    `sched.zeros`, in whose memory the sum is kept (`sched.keep`).
  }];
}

def AccumulateProducts : Lower_Pass<"tandem-accumulate-products"> {
  let summary = "products add to what is there already";
  let description = [{
    Before: `nn.add` of a `sched.matmul` that nothing else reads, and of a term
    that lies in memory when the product begins and that nothing else reads: the
    gradients of two strands, or of what two layers read. Reshapes of both are
    looked through. After: a product onto that term, whose buffer it
    takes, where both are made on one queue. Sums are the same in exact
    arithmetic; a library may round once less, or add in another order.
  }];
}

def AddBias : Lower_Pass<"tandem-add-bias"> {
  let summary = "products add a bias to what they make";
  let description = [{
    Before: `nn.add` of a vector to each row of a `sched.matmul` that nothing else
    reads, where only libraries read the sum: a kernel of its own. After: a product
    that adds the vector as it writes. Where a kernel reads the sum, it adds the
    vector on the way, at no cost.
  }];
}

def SelectEpilogues : Lower_Pass<"tandem-select-epilogues"> {
  let summary = "products apply GELU and its gradient, and sum gradients of biases";
  let description = [{
    For devices whose library does so. Before: the GELU of tanh of a product and a
    bias that only libraries read; its gradient, of a product, that only libraries
    and a sum over rows read; and such a sum, of what a library has made and another
    product reads with these rows summed. After: products that do so as they write,
    or read, each of which saves a kernel that reads and writes the same again. What
    the backward pass asks of a GELU's input is kept beside the product.
  }];
}

def SplitLogSoftmax : Lower_Pass<"tandem-split-log-softmax"> {
  let summary = "log-softmaxes that the backward reads are made again there";
  let description = [{
    Before: `nn.log_softmax` that is held for `nn.log_softmax_backward`. After: the
    maximum of each row and the logarithm of the sum of its exponentials, two
    numbers that are held instead; who reads the log-softmax computes
    (x - maximum) - logarithm of the input, with the same rounding, and who gathers
    elements of it, or of a view of it, does so for these alone. One that somebody
    reads who is in no kernel, the user or a collective, stays.
  }];
}

def OutlineKernels : Lower_Pass<"tandem-outline-kernels"> {
  let summary = "groups of operators become kernels";
  let description = [{
    Before: operators in steps. After: calls of functions on tensors, one per
    fusion group, equal ones shared; views that need no copy, products and
    collectives stay.
  }];
}

def Bufferize : Lower_Pass<"tandem-bufferize"> {
  let summary = "tensors become buffers, steps become commands";
  let description = [{
    Before: steps that hold calls, products, views and collectives. After: a
    list of commands; every value has a buffer of its own, and results are
    copied into their place at the end. The loss is checked before the first
    command of the update.
  }];
}

def ForwardDestinations : Lower_Pass<"tandem-forward-destinations"> {
  let summary = "values are written where they are wanted";
  let description = [{
    Removes copies of whole buffers: their source is written directly into
    the destination where nothing else needs the old value at that time. An argument
    is written only by commands that come after the check of the loss.
  }];
}

def JoinUpdates : Lower_Pass<"tandem-join-updates"> {
  let summary = "one launch updates many parameters";
  let description = [{
    Before: launches that update arguments in place, one per parameter, or several,
    of which the first ones make what little the last one needs. After: one launch
    for those of a queue that nothing comes between, no event and no command that
    uses what they write or writes what they read, by a kernel that calls theirs:
    where an update takes several launches, one for the first of all updates, and
    so on. On a GPU as many as the parameters of a launch have room for.
  }];
}

def ReuseOperands : Lower_Pass<"tandem-reuse-operands"> {
  let summary = "kernels and all-reduces write over operands that nothing needs any more";
  let description = [{
    Before: a launch or an all-reduce writes buffers of its own. After: a launch
    writes a result into the buffer of an operand of as many elements that no command
    uses behind it, where the kernel has read an element when it writes it. So a
    kernel of many operators holds no more at once than these do one after the other,
    as plans count it. An all-reduce of such an operand works in place.
  }];
}

def PlaceBuffers : Lower_Pass<"tandem-place-buffers"> {
  let summary = "gives every buffer its offset in the arena";
  let description = [{
    Two buffers share bytes only if all uses of one happen before the first use
    of the other, by the order of queues and by events.
  }];
}

def VerifyLowered : Lower_Pass<"tandem-verify-lowered"> {
  let summary = "the exit check of lower";
  let description = [{
    Refuses buffers without offset, overlapping buffers that are alive at the
    same time, conflicting uses that no event orders, and reads of what was
    never written.
  }];
}

#endif // TANDEM_CONVERSION_LOWER_PASSES_TD
