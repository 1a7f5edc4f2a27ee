package plan

import "github.com/npctl/npctl/resources"

func amounts(n *resources.Node) resources.ResourceAmounts {
	a := n.Resources
	a.Instances = max(a.Instances, 1)
	return a
}

func plus(a, b resources.ResourceAmounts) resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: a.Instances + b.Instances, Cores: a.Cores + b.Cores, RAM: a.RAM + b.RAM,
		Volumes: a.Volumes + b.Volumes, VolumeGB: a.VolumeGB + b.VolumeGB, Addresses: a.Addresses + b.Addresses}
}

func minus(a, b resources.ResourceAmounts) resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: a.Instances - b.Instances, Cores: a.Cores - b.Cores, RAM: a.RAM - b.RAM,
		Volumes: a.Volumes - b.Volumes, VolumeGB: a.VolumeGB - b.VolumeGB, Addresses: a.Addresses - b.Addresses}
}
