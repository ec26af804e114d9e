// RUN: tandem-opt --tandem-join-updates --split-input-file %s | FileCheck %s

// Updates of two shapes are one launch, behind what only reads the same; a
// kernel that is called twice stays one.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[A:.*]]: memref<8xf32>, %[[B:.*]]: memref<4xf32>, %[[C:.*]]: memref<8xf32>, %[[G:.*]]: memref<8xf32>, %[[H:.*]]: memref<4xf32>
// CHECK: sched.launch @neg(%[[H]])
// CHECK-NEXT: sched.launch @updates(%[[A]], %[[G]], %[[B]], %[[H]], %[[C]], %[[G]]) into(%[[A]], %[[B]], %[[C]]) on compute stage 1 strand 0 {bytes = 60 : i64, flops = 6 : i64, label = "a"}
// CHECK-NEXT: return
// CHECK: func.func private @updates(%[[X:.*]]: tensor<8xf32>, %[[DX:.*]]: tensor<8xf32>, %[[Y:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<4xf32>, %[[Z:.*]]: tensor<8xf32>, %[[DZ:.*]]: tensor<8xf32>)
// CHECK-SAME: attributes {sched.kernel}
// CHECK-NEXT: %[[R:.*]] = call @sub8(%[[X]], %[[DX]])
// CHECK-NEXT: %[[S:.*]] = call @sub4(%[[Y]], %[[DY]])
// CHECK-NEXT: %[[T:.*]] = call @sub8(%[[Z]], %[[DZ]])
// CHECK-NEXT: return %[[R]], %[[S]], %[[T]]
func.func @step(%a: memref<8xf32>, %b: memref<4xf32>, %c: memref<8xf32>, %g: memref<8xf32>, %h: memref<4xf32>) -> (memref<8xf32>, memref<4xf32>, memref<8xf32>) {
  %0 = sched.alloc : memref<4xf32>
  sched.launch @sub8(%a, %g) into(%a) on compute stage 1 strand 0 {label = "a", flops = 1, bytes = 10} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.launch @sub4(%b, %h) into(%b) on compute stage 1 strand 0 {label = "a", flops = 2, bytes = 20} : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  sched.launch @neg(%h) into(%0) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<4xf32>) -> memref<4xf32>
  sched.launch @sub8(%c, %g) into(%c) on compute stage 1 strand 0 {label = "a", flops = 3, bytes = 30} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  return %a, %b, %c : memref<8xf32>, memref<4xf32>, memref<8xf32>
}
func.func private @sub8(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {sched.kernel} {
  %0 = nn.sub %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @sub4(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {sched.kernel} {
  %0 = nn.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @neg(%x: tensor<4xf32>) -> tensor<4xf32> attributes {sched.kernel} {
  %0 = nn.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// What reads an updated argument, an event, another stage and another command
// come between; what draws needs an ordinal of its own.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-8: sched.launch @sub
// CHECK-COUNT-2: sched.launch @draw
// CHECK-NOT: @updates
func.func @step(%a: memref<8xf32>, %b: memref<8xf32>, %g: memref<8xf32>, %r: memref<8xi64>, %q: memref<8xi64>, %s: memref<i64>) -> (memref<8xf32>, memref<8xf32>) {
  %0 = sched.alloc : memref<8xf32>
  sched.launch @sub(%a, %g) into(%a) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.launch @sub(%b, %a) into(%b) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.launch @sub(%b, %g) into(%0) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.launch @sub(%a, %g) into(%a) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  %e = sched.record compute
  sched.launch @sub(%b, %g) into(%b) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.launch @sub(%a, %g) into(%a) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.copy %g into %0 on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<8xf32>
  sched.launch @sub(%b, %g) into(%b) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.copy %g into %0 on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : memref<8xf32> -> memref<8xf32>
  sched.launch @sub(%a, %g) into(%a) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.launch @draw(%r, %s, %s) into(%r) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xi64>, memref<i64>, memref<i64>) -> memref<8xi64>
  sched.launch @draw(%q, %s, %s) into(%q) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xi64>, memref<i64>, memref<i64>) -> memref<8xi64>
  return %a, %b : memref<8xf32>, memref<8xf32>
}
func.func private @sub(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {sched.kernel} {
  %0 = nn.sub %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @draw(%x: tensor<8xi64>, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<8xi64> attributes {sched.kernel} {
  %0 = nn.philox %x, %seed, %step {ordinal = 3 : i64} : (tensor<8xi64>, tensor<i64>, tensor<i64>) -> tensor<8xi64>
  return %0 : tensor<8xi64>
}

// -----

// Behind the check, numbers that each update needs first are one launch, and the
// updates another. What is large is held for each parameter by itself.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[A:.*]]: memref<8xf32>, %[[B:.*]]: memref<8xf32>, %[[M:.*]]: memref<f32>, %[[N:.*]]: memref<f32>, %[[L:.*]]: memref<4096xf32>
// CHECK: sched.launch @{{.*}}(%[[M]]) into
// CHECK: sched.check
// CHECK-NEXT: sched.launch @large(%[[L]])
// CHECK-NEXT: sched.launch @large(%[[L]])
// CHECK-NEXT: sched.launch @[[FIRST:updates.*]](%[[M]], %[[N]]) into(%[[M]], %[[X:[0-9]+]], %[[N]], %[[Y:[0-9]+]])
// CHECK-NEXT: sched.launch @[[SECOND:updates.*]](%[[A]], %[[X]], %[[B]], %[[Y]]) into(%[[A]], %[[B]])
// CHECK-NEXT: return
// CHECK: func.func private @[[FIRST]](
// CHECK-COUNT-2: call @momentum
// CHECK: func.func private @[[SECOND]](
// CHECK-COUNT-2: call @scale
func.func @step(%a: memref<8xf32>, %b: memref<8xf32>, %m: memref<f32>, %n: memref<f32>, %l: memref<4096xf32>) -> (memref<8xf32>, memref<8xf32>, memref<f32>, memref<f32>) {
  %0 = sched.alloc : memref<f32>
  %x = sched.alloc : memref<f32>
  %y = sched.alloc : memref<f32>
  %c = sched.alloc : memref<4096xf32>
  %d = sched.alloc : memref<4096xf32>
  sched.launch @number(%m) into(%0) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<f32>) -> memref<f32>
  sched.check finite "loss" %0 on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : memref<f32>
  sched.launch @momentum(%m) into(%m, %x) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<f32>) -> (memref<f32>, memref<f32>)
  sched.launch @scale(%a, %x) into(%a) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<f32>) -> memref<8xf32>
  sched.launch @momentum(%n) into(%n, %y) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<f32>) -> (memref<f32>, memref<f32>)
  sched.launch @scale(%b, %y) into(%b) on compute stage 1 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<f32>) -> memref<8xf32>
  sched.launch @large(%l) into(%c) on compute stage 2 strand 0 {label = "", flops = 0, bytes = 0} : (memref<4096xf32>) -> memref<4096xf32>
  sched.launch @large(%l) into(%d) on compute stage 2 strand 0 {label = "", flops = 0, bytes = 0} : (memref<4096xf32>) -> memref<4096xf32>
  return %a, %b, %m, %n : memref<8xf32>, memref<8xf32>, memref<f32>, memref<f32>
}
func.func private @number(%x: tensor<f32>) -> tensor<f32> attributes {sched.kernel} {
  %0 = nn.neg %x : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @momentum(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {sched.kernel} {
  %0 = nn.add %x, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = nn.neg %0 : (tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
func.func private @scale(%x: tensor<8xf32>, %y: tensor<f32>) -> tensor<8xf32> attributes {sched.kernel} {
  %0 = nn.mul %x, %y : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @large(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {sched.kernel} {
  %0 = nn.neg %x : (tensor<4096xf32>) -> tensor<4096xf32>
  return %0 : tensor<4096xf32>
}

// -----

// So are those for a GPU.
// CHECK-LABEL: func.func @step
// CHECK: sched.launch @updates(
// CHECK-NEXT: return
module attributes {sched.device = #sched.device<cuda>} {
func.func @step(%a: memref<8xf32>, %b: memref<8xf32>, %g: memref<8xf32>) -> (memref<8xf32>, memref<8xf32>) {
  sched.launch @sub(%a, %g) into(%a) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  sched.launch @sub(%b, %g) into(%b) on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : (memref<8xf32>, memref<8xf32>) -> memref<8xf32>
  return %a, %b : memref<8xf32>, memref<8xf32>
}
func.func private @sub(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {sched.kernel} {
  %0 = nn.sub %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
}
