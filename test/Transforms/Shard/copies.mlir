// RUN: tandem-opt %s --tandem-apply-signatures --split-input-file --verify-diagnostics | FileCheck %s

// A copy that the plan keeps is made once for both passes; one that it makes of
// another copy begins there.

#mesh = #spmd.mesh<data = 2, model = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @kept(
  // CHECK-SAME: %[[X:.*]]: tensor<4x4xf32>, %[[W:.*]]: tensor<4x4xf32, #gather0_data>)
  func.func @kept(%x: tensor<4x4xf32>,
                  %w: tensor<4x4xf32> {spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>, copies = [<"0 forward kept gather(0), full -> full, full">]>})
      -> tensor<4x4xf32> {
    // CHECK-NEXT: %[[F:.*]] = spmd.reform %[[W]] {nn.pass = #forward}
    // CHECK-NEXT: nn.mul %[[X]], %[[F]]
    // CHECK-NEXT: nn.sub %{{.*}}, %[[F]]
    // CHECK-NEXT: return
    %0 = nn.mul %x, %w {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"full, full -> full", "full, full -> full">>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = nn.sub %0, %w {nn.pass = #nn.pass<backward>, spmd.plan = #spmd.plan<signatures = <"full, full -> full", "full, full -> full">>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }

  // CHECK-LABEL: func.func @derived(
  // CHECK-SAME: %[[X:.*]]: tensor<4x4xf32>)
  func.func @derived(%x: tensor<4x4xf32>) -> (tensor<4x4xf32> {spmd.plan = #spmd.plan<form = <#mesh, data: gather(1)>>}) {
    // CHECK: %[[Y:.*]] = nn.neg
    // CHECK: %[[F:.*]] = spmd.reform %[[Y]] {nn.pass = #forward} : tensor<4x4xf32, #gather0_data> -> tensor<4x4xf32>
    // CHECK: nn.abs %[[F]]
    // CHECK-NEXT: %[[G:.*]] = spmd.reform %[[F]] {nn.pass = #forward} : tensor<4x4xf32> -> tensor<4x4xf32, #gather1_data>
    // CHECK-NEXT: nn.exp %[[G]]
    %y = nn.neg %x {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"gather(0) -> gather(0)", "full -> full">, copies = [<"0 forward full, full -> gather(1), full">]>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %0 = nn.abs %y {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"full -> full", "full -> full">>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = nn.exp %y {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"gather(1) -> gather(1)", "full -> full">>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{found '0 forward full', expected 'RESULT PASS [kept] FORMS -> ... -> FORMS'}}
  func.func @step(%x: tensor<4xf32> {spmd.plan = #spmd.plan<copies = [<"0 forward full">]>}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// A plan with stages: a reform is made in the stage of its first reader, in the
// order of the plan, not of the text; the sum of a gradient over time in the
// stage that makes it. Collectives that wait say when they are sent, and the way
// of a copy is the plan's.

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @planned
  func.func @planned(%x: tensor<4x4xf32> {spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>},
                     %w: tensor<4x4xf32>)
      -> (tensor<4x4xf32> {spmd.plan = #spmd.plan<stage = 5>}) {
    // CHECK: %[[F:.*]] = spmd.reform %arg0 {nn.pass = #forward, spmd.plan = #spmd.plan<stage = 1>}
    // CHECK-NEXT: nn.neg %[[F]]
    %0 = nn.neg %x {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"full -> full", "full -> full">, stage = 3>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK-NEXT: nn.exp %[[F]]
    %1 = nn.exp %x {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"full -> full", "full -> full">, stage = 1>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK: %[[G:.*]] = nn.matmul
    // CHECK-NEXT: %[[S:.*]] = spmd.reform %[[G]] {nn.pass = #backward, spmd.plan = #spmd.plan<stage = 4>} : {{.*}}#reduce_data_reduce_micro>  -> tensor<4x4xf32, #reduce_data>
    // CHECK-NEXT: %[[R:.*]] = spmd.reform %[[S]] {nn.pass = #backward, spmd.plan = #spmd.plan<stage = 5, slots = <"4/1 0.5, 5/0 1">>} : {{.*}} -> tensor<4x4xf32, #gather1_data>
    // CHECK-NEXT: %[[A:.*]] = spmd.reform %[[R]] {nn.pass = #backward, spmd.plan = #spmd.plan<stage = 5, slots = <"5/0 1">>} : {{.*}} -> tensor<4x4xf32>
    // CHECK-NEXT: nn.add %arg1, %[[A]]
    %2 = nn.matmul %0, %1 {nn.pass = #nn.pass<backward>, spmd.plan = #spmd.plan<signatures = <"gather(1), gather(0) -> reduce", "gather(1), gather(0) -> reduce">, copies = [<"0 update reduce, full -> gather(1), full -> full, full">], waits = [<"0 full, full in 4/1 0.5, 5/0 1 then 5/0 1">], stage = 4>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = nn.add %w, %2 {nn.pass = #nn.pass<update>, spmd.plan = #spmd.plan<signatures = <"full, full -> full", "full, full -> full">, stage = 5>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %3 : tensor<4x4xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{found '0 full in 3/0 0.5', expected 'RESULT FORMS [in STAGE/STRAND SHARE, ... [then STAGE/STRAND SHARE, ...]]'}}
  func.func @step(%x: tensor<4xf32> {spmd.plan = #spmd.plan<waits = [<"0 full in 3/0 0.5">]>}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// A share is a number, and a collective follows the one before it.
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{found '0 full in 3/0 nan, 4/0 1', expected}}
  func.func @step(%x: tensor<4xf32> {spmd.plan = #spmd.plan<waits = [<"0 full in 3/0 nan, 4/0 1">]>}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{found '0 full in 3/0 1 then 2/0 1', expected}}
  func.func @step(%x: tensor<4xf32> {spmd.plan = #spmd.plan<waits = [<"0 full in 3/0 1 then 2/0 1">]>}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// A copy has a form per axis, and is of a result that there is.
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{has the copy #spmd.copy<"0 forward full, full -> gather(0), full">, expected one of its 1 results with a form per axis of #spmd.mesh<data = 2>}}
  func.func @step(%x: tensor<4xf32> {spmd.plan = #spmd.plan<copies = [<"0 forward full, full -> gather(0), full">]>}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{has the copy #spmd.wait<"1 full">, expected one of its 1 results}}
  func.func @step(%x: tensor<4xf32> {spmd.plan = #spmd.plan<waits = [<"1 full">]>}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
