// RUN: tandem-opt %s --tandem-place-sources --split-input-file --verify-diagnostics | FileCheck %s

// What is made as wanted is made once in each form that a reader wants, with an
// id of its own, and what it is made of as well.
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    // CHECK: %[[C0:.*]] = nn.constant {{.*}}{nn.id = 0 : i64, spmd.plan = #to_f_plan}
    // CHECK: %[[C1:.*]] = nn.constant {{.*}}{nn.id = 5 : i64, spmd.plan = #to_g0_plan}
    %c = nn.constant dense<0.5> : tensor<4xf32> {nn.id = 0 : i64, spmd.plan = #spmd.plan<as_wanted>} -> tensor<4xf32>
    // CHECK: %[[N0:.*]] = nn.neg %[[C0]] {nn.id = 1 : i64, spmd.plan = #f_to_f_plan}
    // CHECK: %[[N1:.*]] = nn.neg %[[C1]] {nn.id = 4 : i64, spmd.plan = #g0_to_g0_plan}
    %n = nn.neg %c {nn.id = 1 : i64, spmd.plan = #spmd.plan<as_wanted>} : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK: nn.mul %{{.*}}, %[[N1]]
    %0 = nn.mul %x, %n {nn.id = 2 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0), gather(0) -> gather(0)">>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // CHECK: nn.add %{{.*}}, %[[N0]]
    %1 = nn.add %x, %n {nn.id = 3 : i64, spmd.plan = #spmd.plan<signatures = <"full, full -> full">>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Of several results those are made together that the same signatures give.
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4x3xf32>, %y: tensor<4x3xi64>) -> (tensor<4x3xf32>, tensor<4x3xi64>, tensor<4x3xi64>) {
    %c = nn.constant dense<0.5> : tensor<4x3xf32> {nn.id = 0 : i64, spmd.plan = #spmd.plan<as_wanted>} -> tensor<4x3xf32>
    // CHECK: %[[V:.*]], %[[I:.*]] = nn.topk {{.*}}spmd.plan = #g0_to_g0_g0_plan}
    // CHECK: %{{.*}}, %[[WHOLE:.*]] = nn.topk {{.*}}spmd.plan = #f_to_f_f_plan}
    %v, %i = nn.topk %c {dim = 1 : i64, k = 3 : i64, nn.id = 1 : i64, spmd.plan = #spmd.plan<as_wanted>} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>)
    // CHECK: nn.mul %{{.*}}, %[[V]]
    %0 = nn.mul %x, %v {nn.id = 2 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0), gather(0) -> gather(0)">>} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    // CHECK: nn.mul %{{.*}}, %[[I]]
    %1 = nn.mul %y, %i {nn.id = 3 : i64, spmd.plan = #spmd.plan<signatures = <"gather(0), gather(0) -> gather(0)">>} : (tensor<4x3xi64>, tensor<4x3xi64>) -> tensor<4x3xi64>
    // No signature splits what is sorted: it is cut out of the whole.
    // CHECK: nn.add %{{.*}}, %[[WHOLE]]
    %2 = nn.add %y, %i {nn.id = 4 : i64, spmd.plan = #spmd.plan<signatures = <"gather(1), gather(1) -> gather(1)">>} : (tensor<4x3xi64>, tensor<4x3xi64>) -> tensor<4x3xi64>
    return %0, %1, %2 : tensor<4x3xf32>, tensor<4x3xi64>, tensor<4x3xi64>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<4x3xf32>) {
    // expected-error @+1 {{is made as wanted, expected an operator of nn}}
    %0 = builtin.unrealized_conversion_cast %x : tensor<4x3xf32> to tensor<4x3xf32> {spmd.plan = #spmd.plan<as_wanted>}
    return
  }
}

// -----

// expected-error @+2 {{the module has no 'spmd.mesh', expected a mesh: run the plan stage first}}
module {
  func.func @step() {
    return
  }
}
