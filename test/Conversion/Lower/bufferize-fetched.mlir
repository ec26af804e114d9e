// RUN: tandem-opt --tandem-bufferize --split-input-file %s | FileCheck %s

// An update writes the new value into the copy that was fetched; from there it is sent back.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[M:.*]]: memref<4xf32>{{.*}}, %[[G:.*]]: memref<4xf32>
// CHECK: %[[C:.*]] = sched.alloc : memref<4xf32>
// CHECK: sched.copy %[[M]] into %[[C]] on copy stage 1
// CHECK-NOT: sched.alloc
// CHECK: sched.launch @add(%[[C]], %[[G]]) into(%[[C]]) on compute stage 1
// CHECK: sched.copy %[[C]] into %[[M]] on copy[1] stage 1
// CHECK: return %[[M]]
module attributes {sched.queues = [#sched.queue<compute>, #sched.queue<copy>, #sched.queue<copy[1]>]} {
  func.func @step(%m: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m", spmd.host}, %g: tensor<4xf32>)
      -> (tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m", nn.updates = 0 : i64}) {
    %c, %e = sched.step on copy stage 1 strand 0 {
      %0 = sched.from_host %m : tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    %u, %f = sched.step on compute stage 1 strand 0 after(%e) {
      %0 = func.call @add(%c, %g) {sched.label = "add"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    %r, %h = sched.step on copy[1] stage 1 strand 0 after(%f) {
      %0 = sched.to_host %u : tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return %r : tensor<4xf32>
  }
  func.func private @add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> attributes {sched.kernel} {
    %0 = nn.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// Not where something else reads the copy, here the loss of a weight decay.
// CHECK-LABEL: func.func @step
// CHECK: sched.copy %arg0 into %[[C:.*]] on copy stage 1
// CHECK: %[[U:.*]] = sched.alloc : memref<4xf32>
// CHECK: sched.launch @add(%[[C]], %arg1) into(%[[U]])
// CHECK: sched.launch @add(%[[C]], %[[C]])
// CHECK: sched.copy %[[U]] into %arg0 on copy[1]
module attributes {sched.queues = [#sched.queue<compute>, #sched.queue<copy>, #sched.queue<copy[1]>]} {
  func.func @step(%m: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m", spmd.host}, %g: tensor<4xf32>)
      -> (tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m", nn.updates = 0 : i64}, tensor<4xf32>) {
    %c, %e = sched.step on copy stage 1 strand 0 {
      %0 = sched.from_host %m : tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    %u, %d, %f = sched.step on compute stage 1 strand 0 after(%e) {
      %0 = func.call @add(%c, %g) {sched.label = "add"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %1 = func.call @add(%c, %c) {sched.label = "add"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
    } : tensor<4xf32>, tensor<4xf32>
    %r, %h = sched.step on copy[1] stage 1 strand 0 after(%f) {
      %0 = sched.to_host %u : tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return %r, %d : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> attributes {sched.kernel} {
    %0 = nn.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
