//===- Passes.td - passes of Schedule -------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SCHEDULE_PASSES_TD
#define TANDEM_TRANSFORMS_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignSlotsPass : Pass<"tandem-assign-slots", "::mlir::func::FuncOp"> {
  let dependentDialects = ["::tandem::sched::SchedDialect"];
  let summary = "Gives each operator its HiDup stage, strand and queue";
  let description = [{
    Gives each operator a slot, as attribute `sched.slot`, if it has no
    HiDup stage.
  }];
  let options = [
    Option<"pieces", "pieces", "unsigned", "16",
           "HiDup stages per pass, at most">,
  ];
}

def CutWaitingPass : Pass<"tandem-cut-waiting", "::mlir::func::FuncOp"> {
  let dependentDialects = ["::tandem::sched::SchedDialect"];
  let summary = "Cuts waiting collectives into the pieces that the plan names";
  let description = [{
    Cuts collectives that wait (`slots`) into the pieces that the
    plan names, each with its slot.
  }];
}

def FollowPlanPass : Pass<"tandem-follow-plan", "::mlir::func::FuncOp"> {
  let dependentDialects = ["::tandem::sched::SchedDialect"];
  let summary = "Gives each operator the slot of its HiDup stage, if the plan has such stages";
  let description = [{
    Gives each operator the slot of its HiDup stage, if the plan has such
    stages. Fails with an error at an operator that reads what a later slot makes.
  }];
}

def CombineWaitingPass : Pass<"tandem-combine-waiting", "::mlir::func::FuncOp"> {
  let dependentDialects = ["::tandem::sched::SchedDialect"];
  let summary = "Makes one collective of the small waiting ones of a slot that are alike";
  let description = [{
    Makes one collective of the small waiting ones of a slot that are alike:
    their operands are put side by side, and what arrives is taken apart where
    it is read. What a plan cuts into pieces is left.
  }];
}

def FormBucketsPass : Pass<"tandem-form-buckets", "::mlir::func::FuncOp"> {
  let dependentDialects = ["::tandem::sched::SchedDialect"];
  let summary = "Cuts updates of what lies on the host into buckets";
  let description = [{
    Before, each operator but sources has a slot. After, the updates of a HiDup stage
    that read arguments on the host (`spmd.host`) are several HiDup stages: the
    arguments of each, all those of a parameter together, have at most `bucket` bytes,
    or are of one parameter. They stand in the order in which gradients arrive, or the
    largest first: so ends what is behind the last sum with a small one. What a bucket
    alone reads is in it, as a gradient in another type. So are the sums of gradients
    that come behind all other computation: a bucket waits for its own sums, and is
    updated beside those of the next one. Nothing without such arguments.
  }];
  let options = [
    Option<"bucket", "bucket", "int64_t", "-1",
           "Bytes; below 0: a 64th of all on the host">,
    Option<"largestFirst", "largest-first", "bool", "false",
           "Not in the order in which gradients arrive">,
  ];
}

def CopyHostPass : Pass<"tandem-copy-host", "::mlir::ModuleOp"> {
  let summary = "Lets steps read copies of what lies on the host";
  let description = [{
    Before, steps read arguments on the host (`spmd.host`) as any others. After, they
    read copies (`sched.from_host`), which a step of the queue `copy` makes in front of
    the first one of a pass that reads them. New values are copied back
    (`sched.to_host`) by steps of the queue `copy[1]`, and the function returns these
    copies. The module lists both queues. Fails with an error if the device copies
    nothing from the host. Nothing without such arguments.
  }];
}

def FormStepsPass : Pass<"tandem-form-steps", "::mlir::func::FuncOp"> {
  let summary = "Puts the operators of each slot into steps of the queues";
  let description = [{
    Before, each operator but sources has a slot (`sched.slot`). After, the
    function holds `sched.step`s in the order of slots. The operators of a slot
    that compute are one step, which copies from and to the host cut. Copies in one
    direction that follow each other are a step of a queue that copies. What is sent
    (`nn.to_host`) leaves at the next library call. Parameters are fetched
    (`nn.from_host`) in front of the library call, or the slot, that reads them first.
    Of operators that communicate, a piece of a collective that waits is a step of
    its own; others are joined, apart from moves. Each step makes the sources again
    that it reads, and its elementwise operators what cheap operators make of sources
    alone, as the positions of random masks. No step waits for an event yet.
  }];
}

def PlaceEventsPass : Pass<"tandem-place-events", "::mlir::func::FuncOp"> {
  let summary = "Lets steps wait for the steps of other queues that they need";
  let description = [{
    Before, steps wait for no events. After, a step waits (`after`) for the last
    step of each other queue whose results it reads, unless it knows already
    that this one is done. An update also waits for the loss. A step that
    gathers waits for the HiDup stage before the present one, so that gathered
    values do not pile up. So does one that copies from the host. A step whose values
    are copied there waits for all such copies but the last one. Under
    `sched.in_flight` computation waits for all copies there but so many, and for the
    collectives of the stages before its own.
  }];
}

def PriceSchedulePass : Pass<"tandem-price-schedule", "::mlir::func::FuncOp"> {
  let summary = "Says how long the steps take, by the durations of the plan";
  let description = [{
    Says how long the steps take with the plan's durations
    (`seconds`), and what the plan costs, which is no less; nothing without
    `prices`. A simulation of the Program predicts what a step takes.
  }];
}

def VerifyScheduledPass : Pass<"tandem-verify-scheduled", "::mlir::func::FuncOp"> {
  let summary = "Checks the exit of the schedule stage: steps only, collectives on queues that communicate, every read of another queue awaited";
  let description = [{
    Fails with an error at the first operator that breaks one of these rules:

    * The function holds steps only.
    * Collectives are on queues that communicate. Other operators are on queues
      that compute, except moves in a step of their own.
    * A step reads a value of another queue only behind its event.
    * The steps of a queue have the order of their HiDup stages and strands.
    * No parameter is updated before the loss is known.
    * Copies from and to the host are on queues that copy. Nothing else reads what
      lies on the host (`spmd.host`), and its new value is such a copy.
  }];
}

#endif // TANDEM_TRANSFORMS_SCHEDULE_PASSES_TD
