# Tests of quickstart.hcl: npctl -config=quickstart.hcl test
#
# The providers are clouds in memory, and no builder runs: a test changes nothing and needs no account.

# The first apply builds and uploads the image, launches the nodes, and registers the slots of the machine.
run "first apply" {
  assert {
    condition     = plan.summary.build == 1 && plan.summary.upload == 1
    error_message = "Expected one build and one upload: ${plan.summary.text}"
  }
  assert {
    condition     = length([for n in state.nodes : n if n.state == "ready" && contains(n.labels, "tiny")]) == var.min_ready
    error_message = "The label tiny has not min_ready nodes that are ready."
  }
  assert {
    condition     = desired.providers.sandbox.pools.main.labels.tiny.flavor == "small"
    error_message = "The label tiny has another flavor than small."
  }
}

run "no changes after an apply" {
  command = plan

  assert {
    condition     = length(plan.steps) == 0
    error_message = plan.summary.text
  }
}

# The runs of a file share their state, so this plan has only the difference.
run "one more node" {
  command = plan

  variables {
    min_ready = 3
  }
  assert {
    condition     = [for s in plan.steps : s.action_reason] == ["below-min-ready"]
    error_message = "Expected one launch: ${plan.summary.text}"
  }
}

run "more nodes than the sandbox has" {
  variables {
    min_ready = 11
  }
  expect_failures = [var.min_ready]
}

run "destroy" {
  destroy = true

  assert {
    condition     = length(state.nodes) == 0 && length(state.builds) == 0
    error_message = "Something is left."
  }
}
