# Nodes in a Kubernetes cluster: pods for jobs that run in a container, namespaces for jobs that deploy into a cluster.
#
# Requirements: a kubeconfig with permission to create namespaces and roles in them. docs/drivers/kubernetes.md has the
# ClusterRole.
#
#   npctl plan -var context=mycluster

npctl {
  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

variable "context" {
  description = "Name of a context of the kubeconfig; null means its current context, or the cluster in which npctl runs."
  type        = string
  default     = null
}

variable "min_ready" {
  type    = number
  default = 1
}

variable "image" {
  description = "Container image of pods."
  type        = string
  default     = "docker.io/library/python:3.13-slim"
}

label "python-pod" { min_ready = var.min_ready }
label "build-pod" {}
label "namespace" { min_ready = var.min_ready }

provider "kubernetes" "cluster" {
  context = var.context

  pool "main" {
    max_servers   = 20
    max_cores     = 32
    max_ram       = 64 * 1024
    max_resources = { "nvidia.com/gpu" = 2 }

    # Labels without cpu and memory have these.
    cpu    = 1
    memory = 1024

    label "python-pod" {
      type               = "pod"
      image              = var.image
      memory_limit       = 2048
      env                = { PIP_NO_CACHE_DIR = "1" }
      labels             = { team = "ci" }
      request_properties = { tenant = "{request.tenant_name}" }
    }

    # A whole pod in the words of Kubernetes, here with a second container.
    label "build-pod" {
      type   = "pod"
      cpu    = 4
      memory = 8192

      spec = jsonencode({
        containers = [
          { name = "build", image = var.image, command = ["sleep", "infinity"], volumeMounts = [{ name = "work", mountPath = "/work" }] },
          { name = "registry", image = "docker.io/library/registry:3" },
        ]
        volumes       = [{ name = "work", emptyDir = {} }]
        restartPolicy = "Never"
      })
    }

    label "namespace" {
      type        = "namespace"
      annotations = { "example.com/purpose" = "jobs of Zuul" }
    }
  }
}
