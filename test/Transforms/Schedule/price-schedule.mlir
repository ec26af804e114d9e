// RUN: tandem-opt %s --pass-pipeline='builtin.module(func.func(tandem-price-schedule))' --split-input-file --verify-diagnostics -o /dev/null

// Two seconds of computation beside one of communication, each at half of its
// speed: after two seconds the collective is done, the computation has one left.
// Then the next computation, which awaits nothing else: 3 + 4. What an operator
// was taken apart into counts once, a further strand again. Three seconds of a
// copy to the host disturb nothing, and nothing disturbs them.

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh, sched.queues = [#sched.queue<compute>, #sched.queue<comm>, #sched.queue<copy>, #sched.queue<copy[1]>], spmd.plan = #spmd.plan<prices = <cost = 8.0 : f64, compute_slowdown = 2.0 : f64, collective_slowdown = 2.0 : f64, rates = {}>>} {
  // expected-remark @+1 {{schedule 7.000000 s, cost of the plan 8.000000 s}}
  func.func @step(%x: tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>) {
    %h, %eh = sched.step on copy[1] stage 0 strand 0 {
      %0 = sched.to_host %x {spmd.plan = #spmd.plan<seconds = 3.0>} : tensor<4xf64>
      sched.yield %0 : tensor<4xf64>
    } : tensor<4xf64>
    %a, %ea = sched.step on compute stage 0 strand 0 {
      %0 = nn.neg %x {nn.id = 0 : i64, nn.strand = 0 : i64, spmd.plan = #spmd.plan<seconds = 1.0>} : (tensor<4xf64>) -> tensor<4xf64>
      %1 = nn.neg %0 {nn.id = 0 : i64, nn.strand = 0 : i64, spmd.plan = #spmd.plan<seconds = 1.0>} : (tensor<4xf64>) -> tensor<4xf64>
      %2 = nn.neg %1 {nn.id = 0 : i64, nn.strand = 1 : i64, spmd.plan = #spmd.plan<seconds = 1.0>} : (tensor<4xf64>) -> tensor<4xf64>
      sched.yield %2 : tensor<4xf64>
    } : tensor<4xf64>
    %r, %er = sched.step on comm stage 1 strand 0 {
      %0 = spmd.all_reduce %x over ["data"] {spmd.plan = #spmd.plan<seconds = 1.0>} : tensor<4xf64> -> tensor<4xf64>
      sched.yield %0 : tensor<4xf64>
    } : tensor<4xf64>
    %b, %eb = sched.step on compute stage 1 strand 0 after(%er) {
      %0 = nn.add %a, %r {nn.id = 1 : i64, spmd.plan = #spmd.plan<seconds = 4.0>} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
      sched.yield %0 : tensor<4xf64>
    } : tensor<4xf64>
    return %b, %h : tensor<4xf64>, tensor<4xf64>
  }
}

// -----

// Collectives that await the computation come behind it. Two of one
// step follow one another; the latency of a piece disturbs nothing.

#mesh = #spmd.mesh<a = 2, b = 2>
module attributes {spmd.mesh = #mesh, spmd.plan = #spmd.plan<prices = <cost = 1.0 : f64, compute_slowdown = 1.5 : f64, collective_slowdown = 1.5 : f64, rates = {}>>} {
  // expected-remark @+1 {{schedule 6.000000 s, cost of the plan 1.000000 s}}
  func.func @step(%x: tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>) {
    %a, %ea = sched.step on compute stage 0 strand 0 {
      %0 = nn.neg %x {nn.id = 0 : i64, spmd.plan = #spmd.plan<seconds = 2.0>} : (tensor<4xf64>) -> tensor<4xf64>
      sched.yield %0 : tensor<4xf64>
    } : tensor<4xf64>
    %p, %ep = sched.step on comm stage 0 strand 0 {
      %0 = spmd.all_reduce %x over ["a"] {spmd.plan = #spmd.plan<seconds = 2.0, latency = 2.0>} : tensor<4xf64> -> tensor<4xf64>
      sched.yield %0 : tensor<4xf64>
    } : tensor<4xf64>
    %r:2, %er = sched.step on comm stage 1 strand 0 after(%ea) {
      %0 = spmd.all_reduce %a over ["a"] {spmd.plan = #spmd.plan<seconds = 3.0>} : tensor<4xf64> -> tensor<4xf64>
      %1 = spmd.all_reduce %a over ["b"] {spmd.plan = #spmd.plan<seconds = 1.0>} : tensor<4xf64> -> tensor<4xf64>
      sched.yield %0, %1 : tensor<4xf64>, tensor<4xf64>
    } : tensor<4xf64>, tensor<4xf64>
    return %r#0, %r#1 : tensor<4xf64>, tensor<4xf64>
  }
}

// -----

// Nothing is said where nothing was priced.

module {
  func.func @step(%x: tensor<4xf64>) -> tensor<4xf64> {
    %a, %ea = sched.step on compute stage 0 strand 0 {
      %0 = nn.neg %x : (tensor<4xf64>) -> tensor<4xf64>
      sched.yield %0 : tensor<4xf64>
    } : tensor<4xf64>
    return %a : tensor<4xf64>
  }
}
