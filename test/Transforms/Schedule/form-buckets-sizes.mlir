// RUN: tandem-opt %s --tandem-form-buckets='bucket=48 largest-first=true' | FileCheck %s --check-prefixes=CHECK,LARGEST
// RUN: tandem-opt %s --tandem-form-buckets='bucket=48' | FileCheck %s --check-prefixes=CHECK,SHARE
// RUN: tandem-opt %s --tandem-form-buckets='bucket=-1' | FileCheck %s --check-prefixes=CHECK,SHARE
// RUN: tandem-opt %s --tandem-form-buckets='bucket=0' | FileCheck %s --check-prefixes=CHECK,EACH

// Of 4,096 B on the host a has 16, b 32 and c 4,048. A bucket of 48 B holds a and b, and so does
// one of a 64th of all. The largest first, c is in front of them. A bucket of 0 B is of one.
// CHECK-LABEL: func.func @sizes
func.func @sizes(%a: tensor<4xf32>, %b: tensor<8xf32>, %c: tensor<1012xf32>,
                 %l: tensor<4xf32> {nn.role = #nn.role<state>, nn.name = "m.a", nn.of = "a", spmd.host},
                 %m: tensor<8xf32> {nn.role = #nn.role<state>, nn.name = "m.b", nn.of = "b", spmd.host},
                 %n: tensor<1012xf32> {nn.role = #nn.role<state>, nn.name = "m.c", nn.of = "c", spmd.host})
    -> (tensor<4xf32>, tensor<8xf32>, tensor<1012xf32>) {
  // LARGEST: nn.add %arg3{{.*}}sched.slot = array<i64: 1, 0, 2>
  // SHARE: nn.add %arg3{{.*}}sched.slot = array<i64: 0, 0, 2>
  // EACH: nn.add %arg3{{.*}}sched.slot = array<i64: 0, 0, 2>
  %l1 = nn.add %l, %a {nn.pass = #nn.pass<update>, sched.slot = array<i64: 3, 0, 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // LARGEST: nn.add %arg4{{.*}}sched.slot = array<i64: 1, 0, 2>
  // SHARE: nn.add %arg4{{.*}}sched.slot = array<i64: 0, 0, 2>
  // EACH: nn.add %arg4{{.*}}sched.slot = array<i64: 1, 0, 2>
  %m1 = nn.add %m, %b {nn.pass = #nn.pass<update>, sched.slot = array<i64: 3, 0, 2>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // LARGEST: nn.add %arg5{{.*}}sched.slot = array<i64: 0, 0, 2>
  // SHARE: nn.add %arg5{{.*}}sched.slot = array<i64: 1, 0, 2>
  // EACH: nn.add %arg5{{.*}}sched.slot = array<i64: 2, 0, 2>
  %n1 = nn.add %n, %c {nn.pass = #nn.pass<update>, sched.slot = array<i64: 3, 0, 2>} : (tensor<1012xf32>, tensor<1012xf32>) -> tensor<1012xf32>
  return %l1, %m1, %n1 : tensor<4xf32>, tensor<8xf32>, tensor<1012xf32>
}
