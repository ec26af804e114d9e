// RUN: tandem-opt %s --pass-pipeline='builtin.module(func.func(tandem-follow-plan))' --split-input-file --verify-diagnostics | FileCheck %s

// Stages of a plan become slots. Stage 1 has two strands; stage 2 joins them, so
// all of it is in one slot. The sum of a gradient is computed with the last
// strand of the stage that makes it.

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x0: tensor<4xf64>, %x1: tensor<4xf64>, %w: tensor<2xf64>, %lr: tensor<f64>) -> (tensor<2xf64>, tensor<8xf64>) {
    // What no group holds runs where it is first read.
    // CHECK: nn.add %arg3, %arg3 {{.*}}sched.slot = array<i64: 3, 0, 2>
    %twice = nn.add %lr, %lr {nn.id = 9 : i64, nn.pass = #nn.pass<forward>} : (tensor<f64>, tensor<f64>) -> tensor<f64>
    // A parameter is gathered beside the stage before that reads it.
    // CHECK: spmd.all_gather {{.*}}sched.slot = array<i64: 1, 0, 0>
    %full = spmd.all_gather %w over ["data"] dim 0 {nn.pass = #nn.pass<forward>, spmd.change, spmd.plan = #spmd.plan<stage = 1>} : tensor<2xf64> -> tensor<4xf64>
    // CHECK: nn.neg {{.*}}sched.slot = array<i64: 0, 0, 2>
    // CHECK: nn.neg {{.*}}sched.slot = array<i64: 0, 1, 2>
    %a0 = nn.neg %x0 {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, nn.strand = 0 : i64, spmd.plan = #spmd.plan<stage = 0>} : (tensor<4xf64>) -> tensor<4xf64>
    %a1 = nn.neg %x1 {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, nn.strand = 1 : i64, spmd.plan = #spmd.plan<stage = 0>} : (tensor<4xf64>) -> tensor<4xf64>
    // CHECK: nn.mul {{.*}}sched.slot = array<i64: 1, 0, 2>
    // CHECK: nn.mul {{.*}}sched.slot = array<i64: 1, 1, 2>
    %b0 = nn.mul %a0, %full {nn.id = 1 : i64, nn.pass = #nn.pass<forward>, nn.strand = 0 : i64, spmd.plan = #spmd.plan<stage = 1>} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    %b1 = nn.mul %a1, %full {nn.id = 1 : i64, nn.pass = #nn.pass<forward>, nn.strand = 1 : i64, spmd.plan = #spmd.plan<stage = 1>} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    // CHECK: nn.add {{.*}}sched.slot = array<i64: 1, 1, 2>
    %g = nn.add %b0, %b1 {nn.pass = #nn.pass<forward>, spmd.change, spmd.plan = #spmd.plan<stage = 1>} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    // What waits beside a serial slot goes before the slot's collectives; here
    // it is made by the computation beside it, and goes behind them.
    // CHECK: spmd.reduce_scatter {{.*}}sched.slot = array<i64: 2, 0, 1>
    %gr = spmd.reduce_scatter %g over ["data"] dim 0 {nn.pass = #nn.pass<forward>, spmd.change, spmd.plan = #spmd.plan<stage = 3, slots = <"2/0 1">>} : tensor<4xf64> -> tensor<2xf64>
    // CHECK: nn.cat {{.*}}sched.slot = array<i64: 2, 0, 2>
    %c = nn.cat %b0, %b1 {dim = 0 : i64, nn.pass = #nn.pass<forward>, spmd.change, spmd.plan = #spmd.plan<stage = 2, joins>} : (tensor<4xf64>, tensor<4xf64>) -> tensor<8xf64>
    // CHECK: nn.exp {{.*}}sched.slot = array<i64: 2, 0, 2>
    %d = nn.exp %c {nn.id = 2 : i64, nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<stage = 2>} : (tensor<8xf64>) -> tensor<8xf64>
    // CHECK: nn.mul {{.*}}sched.slot = array<i64: 3, 0, 2>
    %u = nn.mul %gr, %twice {nn.id = 3 : i64, nn.pass = #nn.pass<update>, spmd.plan = #spmd.plan<stage = 3>} : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
    return %u, %d : tensor<2xf64>, tensor<8xf64>
  }
}

// -----

// A piece that is ready before the slot beside it goes to the front; what
// prepares it runs before it on its queue.

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @early
  func.func @early(%x: tensor<4xf64>) -> tensor<4xf64> {
    %g = nn.neg %x {nn.id = 0 : i64, nn.pass = #nn.pass<backward>, spmd.plan = #spmd.plan<stage = 0>} : (tensor<4xf64>) -> tensor<4xf64>
    // CHECK: nn.slice {{.*}}sched.slot = array<i64: 2, 0, -1>
    %p = nn.slice %g {dim = 0 : i64, start = 0 : i64, stop = 4 : i64, nn.pass = #nn.pass<backward>, spmd.change} : (tensor<4xf64>) -> tensor<4xf64>
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 2, 0, -1>
    %r = spmd.all_reduce %p over ["data"] {nn.pass = #nn.pass<backward>, spmd.change, spmd.plan = #spmd.plan<stage = 3, slots = <"2/0 1">>} : tensor<4xf64> -> tensor<4xf64>
    // So does what continues it, although what it reads is put together from
    // pieces.
    // CHECK: nn.cat {{.*}}sched.slot = array<i64: 2, 0, -1>
    // CHECK: spmd.reduce_scatter {{.*}}sched.slot = array<i64: 2, 0, -1>
    %whole = nn.cat %r, %r {dim = 0 : i64, nn.pass = #nn.pass<backward>, spmd.change, spmd.plan = #spmd.plan<stage = 3>} : (tensor<4xf64>, tensor<4xf64>) -> tensor<8xf64>
    %s = spmd.reduce_scatter %whole over ["data"] dim 0 {nn.pass = #nn.pass<backward>, spmd.change, spmd.plan = #spmd.plan<stage = 3, slots = <"2/0 1">>} : tensor<8xf64> -> tensor<4xf64>
    %a = nn.exp %x {nn.id = 1 : i64, nn.pass = #nn.pass<backward>, spmd.plan = #spmd.plan<stage = 1>} : (tensor<4xf64>) -> tensor<4xf64>
    %b = nn.exp %a {nn.id = 2 : i64, nn.pass = #nn.pass<backward>, spmd.plan = #spmd.plan<stage = 2>} : (tensor<4xf64>) -> tensor<4xf64>
    %c = nn.add %b, %s {nn.id = 3 : i64, nn.pass = #nn.pass<update>, spmd.plan = #spmd.plan<stage = 3>} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    return %c : tensor<4xf64>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<4xf64>) -> tensor<4xf64> {
    %a = nn.neg %x {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<stage = 1>} : (tensor<4xf64>) -> tensor<4xf64>
    // expected-error @+1 {{runs in stage 1, strand 0, but reads what stage 1, strand 0 makes; expected a plan whose stages follow each other, with collectives in a later stage than their operands}}
    %r = spmd.all_reduce %a over ["data"] {nn.pass = #nn.pass<forward>, spmd.change, spmd.plan = #spmd.plan<stage = 1>} : tensor<4xf64> -> tensor<4xf64>
    return %r : tensor<4xf64>
  }
}
