//go:build integration

package serve

import (
	"testing"
)

// rack has two machines, of which one has two labels.
const rack = `
npctl {
  STATE
}
label "metal" {}
label "big" {}
provider "static" "rack" {
  pool "main" {
    node_attributes = { executor-zone = "zone-1" }
    node "metal1" {
      address           = "127.0.0.1"
      labels            = ["metal"]
      host_key_checking = false
    }
    node "metal2" {
      address           = "127.0.0.1"
      labels            = ["metal", "big"]
      host_key_checking = false
      username          = "root"
      connection_port   = 2222
    }
  }
}
`

func TestX(t *testing.T) {
	t.Parallel()
	s := newSite(t, rack)
	d := s.start()
	id, n := s.served("metal")
	t.Log(id, n, s.node(n[0]).text)
	t.Log(s.children(pools), s.get(pools+"/"+s.children(pools)[0]).text)
	s.built(id)
	s.await("again", func() bool { return s.census() == "map[ready:2]" })
	id = s.ask("metal", "big")
	s.ends(id, "fulfilled")
	t.Log(s.request(id).text)
	d.stop()
	t.Fail()
}
