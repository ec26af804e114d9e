// RUN: tandem-opt %s --split-input-file --tandem-place-events --tandem-verify-scheduled | FileCheck %s

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @events
  func.func @events(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    // CHECK: %{{.*}}, %[[E0:.*]] = sched.step on compute stage 0 strand 0 {
    %a, %e0 = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[E1:.*]] = sched.step on compute stage 0 strand 1 {
    %b, %e1 = sched.step on compute stage 0 strand 1 {
      %0 = nn.exp %y : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[F0:.*]] = sched.step on comm stage 1 strand 0 after(%[[E0]])
    %c, %f0 = sched.step on comm stage 1 strand 0 {
      %0 = spmd.all_reduce %a over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[F1:.*]] = sched.step on comm stage 1 strand 1 after(%[[E1]])
    %d, %f1 = sched.step on comm stage 1 strand 1 {
      %0 = spmd.all_reduce %b over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // The later one says that the earlier one is done; what is awaited once is
    // not awaited again.
    // CHECK: sched.step on compute stage 1 strand 0 after(%[[F1]])
    %f, %e2 = sched.step on compute stage 1 strand 0 {
      %0 = nn.add %c, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[E3:.*]] = sched.step on compute stage 1 strand 1 {
    %g, %e3 = sched.step on compute stage 1 strand 1 {
      %0 = nn.add %c, %f : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[E4:.*]] = sched.step on compute stage 2 strand 0 {
    %i, %e4 = sched.step on compute stage 2 strand 0 {
      %0 = nn.neg %g : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // Lock step: nothing is read, but what is gathered must not pile up.
    // CHECK: sched.step on comm stage 3 strand 0 after(%[[E3]])
    %h, %f2 = sched.step on comm stage 3 strand 0 {
      %0 = spmd.all_reduce %x over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return %h, %i : tensor<4xf32>, tensor<4xf32>
  }

  // What a later pass reads, too, is held anyway, and comes when the queue is
  // free; what is gathered again there waits for its stage.
  // CHECK-LABEL: func.func @kept
  func.func @kept(%x: tensor<4xf32>, %w: tensor<2xf32>, %v: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a, %e0 = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[E1:.*]] = sched.step on compute stage 1 strand 0 {
    // CHECK: nn.neg
    %b, %e1 = sched.step on compute stage 1 strand 0 {
      %0 = nn.neg %a {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    %c, %e2 = sched.step on compute stage 2 strand 0 {
      %0 = nn.exp %b {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on comm stage 3 strand 0 {
    %g, %f0 = sched.step on comm stage 3 strand 0 {
      %0 = spmd.all_gather %w over ["data"] dim 0 {nn.pass = #nn.pass<forward>} : tensor<2xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on comm stage 3 strand 0 after(%[[E1]])
    %h, %f1 = sched.step on comm stage 3 strand 0 {
      %0 = spmd.all_gather %v over ["data"] dim 0 {nn.pass = #nn.pass<forward>} : tensor<2xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    %d, %e3 = sched.step on compute stage 3 strand 0 {
      %0 = nn.add %g, %h {nn.pass = #nn.pass<forward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %1 = nn.add %0, %c {nn.pass = #nn.pass<forward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      sched.yield %1 : tensor<4xf32>
    } : tensor<4xf32>
    %e, %e4 = sched.step on compute stage 4 strand 0 {
      %0 = nn.mul %g, %d {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return %d, %e : tensor<4xf32>, tensor<4xf32>
  }

  // Beside all strands of the stage before: what is gathered for a stage has the
  // time of that stage, not of its last strand.
  // CHECK-LABEL: func.func @beside_strands
  func.func @beside_strands(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %a, %e0 = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[S1:.*]] = sched.step on compute stage 0 strand 1 {
    %b, %e1 = sched.step on compute stage 0 strand 1 {
      %0 = nn.neg %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on compute stage 1 strand 0 {
    %c, %e2 = sched.step on compute stage 1 strand 0 {
      %0 = nn.exp %a : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on compute stage 1 strand 1 {
    %d, %e3 = sched.step on compute stage 1 strand 1 {
      %0 = nn.neg %b : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on comm stage 2 strand 0 after(%[[S1]]) {
    %f, %e4 = sched.step on comm stage 2 strand 0 {
      %0 = spmd.all_reduce %x over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return %c, %d, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }

  // In turn: not beside the computation before it. Nor is what comes behind it.
  // CHECK-LABEL: func.func @in_turn
  func.func @in_turn(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a, %e0 = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[T1:.*]] = sched.step on compute stage 1 strand 0 {
    %b, %e1 = sched.step on compute stage 1 strand 0 {
      %0 = nn.neg %a : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on comm stage 2 strand 0 after(%[[T1]]) {
    // CHECK-NEXT: spmd.all_reduce %arg0
    // CHECK-NEXT: sched.yield
    // CHECK-NEXT: } : tensor<4xf32>
    %c, %f0 = sched.step on comm stage 2 strand 0 {
      %0 = spmd.all_reduce %x over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } {spmd.plan = #spmd.plan<in_turn = [2]>} : tensor<4xf32>
    // CHECK: sched.step on comm stage 2 strand 0 {
    %d, %f1 = sched.step on comm stage 2 strand 0 {
      %0 = spmd.all_reduce %a over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return %c, %d : tensor<4xf32>, tensor<4xf32>
  }

  // An update waits for the loss, though it does not read it.
  // CHECK-LABEL: func.func @loss
  func.func @loss(%x: tensor<f32>, %w: tensor<f32>) -> (tensor<f32> {nn.role = #nn.role<loss>}, tensor<f32> {nn.role = #nn.role<parameter>, nn.updates = 1}) {
    // CHECK: %{{.*}}, %[[L:.*]] = sched.step on comm stage 0 strand 0 {
    %a, %e0 = sched.step on comm stage 0 strand 0 {
      %0 = spmd.all_reduce %x over ["data"] : tensor<f32> -> tensor<f32>
      sched.yield %0 : tensor<f32>
    } : tensor<f32>
    // CHECK: sched.step on compute stage 1 strand 0 after(%[[L]])
    %b, %e1 = sched.step on compute stage 1 strand 0 {
      %0 = nn.neg %w {nn.pass = #nn.pass<update>} : (tensor<f32>) -> tensor<f32>
      sched.yield %0 : tensor<f32>
    } : tensor<f32>
    return %a, %b : tensor<f32>, tensor<f32>
  }
}

// -----

// Where memory is short, computation waits for the collectives of the stages
// before its own, which is all that it knows of `%a`, and for all copies to the
// host but so many.
module attributes {spmd.mesh = #spmd.mesh<data = 2>, sched.in_flight = 1 : i64, sched.queues = [#sched.queue<compute>, #sched.queue<comm>, #sched.queue<copy>, #sched.queue<copy[1]>]} {
  // CHECK-LABEL: func.func @in_flight
  func.func @in_flight(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %a, %e0 = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[H0:.*]] = sched.step on copy[1] stage 0
    %h, %c0 = sched.step on copy[1] stage 0 strand 0 {
      %0 = sched.to_host %a : tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[G0:.*]] = sched.step on comm stage 1
    %b, %f0 = sched.step on comm stage 1 strand 0 {
      %0 = spmd.all_reduce %a over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on compute stage 1 strand 0 {
    %c, %e1 = sched.step on compute stage 1 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    %i, %c1 = sched.step on copy[1] stage 1 strand 0 {
      %0 = sched.to_host %c : tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on compute stage 2 strand 0 after(%[[G0]], %[[H0]]) {
    %d, %e2 = sched.step on compute stage 2 strand 0 {
      %0 = nn.neg %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    %j:2, %c2 = sched.step on copy stage 2 strand 0 {
      %0 = sched.from_host %h : tensor<4xf32>
      %1 = sched.from_host %i : tensor<4xf32>
      sched.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
    } : tensor<4xf32>, tensor<4xf32>
    return %b, %d, %j#0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
