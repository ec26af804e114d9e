// RUN: tandem-opt %s --tandem-schedule | FileCheck %s
// RUN: tandem-opt %s --tandem-schedule --tandem-lower | FileCheck %s --check-prefix=LOWER

// Momenta lie on the host. A bucket has a 64th of them, or one: each update is a
// stage of its own, and is copied beside the one before.
// CHECK: sched.queues = [#sched.queue<compute>, #sched.queue<comm>, #sched.queue<copy>, #sched.queue<copy[1]>]
module {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4x4xf32> {spmd.layout = tensor<4x4xf32>, nn.role = #nn.role<input>, nn.name = "x"},
                  %a: tensor<4xf32> {spmd.layout = tensor<4xf32>, nn.role = #nn.role<parameter>, nn.name = "a"},
                  %b: tensor<4xf32> {spmd.layout = tensor<4xf32>, nn.role = #nn.role<parameter>, nn.name = "b"},
                  %m: tensor<4xf32> {spmd.layout = tensor<4xf32>, nn.role = #nn.role<state>, nn.name = "m.a", nn.of = "a", spmd.host},
                  %n: tensor<4xf32> {spmd.layout = tensor<4xf32>, nn.role = #nn.role<state>, nn.name = "m.b", nn.of = "b", spmd.host})
      -> (tensor<4xf32> {spmd.layout = tensor<4xf32>, nn.role = #nn.role<parameter>, nn.name = "a", nn.updates = 1 : i64},
          tensor<4xf32> {spmd.layout = tensor<4xf32>, nn.role = #nn.role<parameter>, nn.name = "b", nn.updates = 2 : i64},
          tensor<4xf32> {spmd.layout = tensor<4xf32>, nn.role = #nn.role<state>, nn.name = "m.a", nn.updates = 3 : i64},
          tensor<4xf32> {spmd.layout = tensor<4xf32>, nn.role = #nn.role<state>, nn.name = "m.b", nn.updates = 4 : i64}) {
    // CHECK: %[[G:.*]], %[[E:.*]] = sched.step on compute stage 0
    %g = nn.sum %x {dims = array<i64: 0>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>) -> tensor<4xf32>
    // Nothing is computed before these: they begin at once.
    // CHECK: %[[M:.*]], %[[F0:.*]] = sched.step on copy stage 1 strand 0 {
    // CHECK: sched.from_host %arg3
    // CHECK: %[[A:.*]]:2, %[[E0:.*]] = sched.step on compute stage 1 strand 0 after(%[[F0]])
    %m1 = nn.add %m, %g {nn.pass = #nn.pass<update>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %a1 = nn.sub %a, %m1 {nn.pass = #nn.pass<update>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %n1 = nn.add %n, %g {nn.pass = #nn.pass<update>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b1 = nn.sub %b, %n1 {nn.pass = #nn.pass<update>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // CHECK: sched.step on copy[1] stage 1 strand 0 after(%[[E0]])
    // CHECK: sched.to_host %[[A]]
    // CHECK: sched.step on copy stage 2 strand 0 after(%[[E]])
    // CHECK: sched.from_host %arg4
    // CHECK: sched.step on compute stage 2
    // CHECK: sched.step on copy[1] stage 2
    return %a1, %b1, %m1, %n1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

// A copy to the host is none that the kernel could write in place of.
// LOWER: sched.copy %arg3 into %[[M:.*]] on copy stage 1
// LOWER: sched.launch @{{.*}}(%[[M]], {{.*}}) into(%[[M1:.*]], %arg1) on compute stage 1
// LOWER: sched.copy %[[M1]] into %arg3 on copy[1] stage 1
// LOWER: return %arg1, %arg2, %arg3, %arg4
