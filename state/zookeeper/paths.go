package zookeeper

import (
	"regexp"
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// The znodes that everybody shares, and npctl's own.
const (
	rootDir      = "/nodepool"
	requestsDir  = rootDir + "/requests"
	requestLocks = rootDir + "/requests-lock"
	nodesDir     = rootDir + "/nodes"
	imagesDir    = rootDir + "/images"
	registryDir  = rootDir + "/components"
	poolsDir     = registryDir + "/pool"
	launchersDir = registryDir + "/launcher"
	buildersDir  = registryDir + "/builder"

	ownDir    = "/npctl"             // holds the lineage
	serialAt  = ownDir + "/serial"   // written by every commit
	uploadsAt = ownDir + "/uploads"  // holds the highest number of npctl's own uploads
	keyAt     = ownDir + "/hash-key" // see resources.HashKey
	namedDir  = ownDir + "/locks"    // of state.Store.Lock
	frozenDir = ownDir + "/frozen"   // has a flag for each provider that is to be left alone
	lockName  = "lock"               // of every lock directory but those of requests
	pauseName = "pause"              // flag of an image
	wishName  = "request-build"      // flag of an image
)

var (
	sequence  = regexp.MustCompile(`^-?\d{10}$`)
	requestID = regexp.MustCompile(`^\d{3}-\d{10}$`)
	hexID     = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

const sequenceLength = 10 // digits of a number that ZooKeeper gives

// role is what a znode is for.
type role int

const (
	roleOther     role = iota // of no interest
	roleDir                   // has children that are of interest
	roleRecord                // a request, node, build or upload
	roleLock                  // a lock directory
	roleContender             // somebody in the queue of a lock
	roleComponent             // a registration
	roleFlag                  // there or not
)

// place says what lies at a path below the chroot.
type place struct {
	role  role
	kind  resources.Kind
	id    string // of a record
	parts []string
}

// placeOf reads a path. What it does not know is roleOther, so that others may keep there what they like.
func placeOf(at string) place {
	p := place{parts: strings.Split(strings.TrimPrefix(at, "/"), "/")}
	if len(p.parts) == 0 {
		return p
	}
	switch {
	case at == rootDir || at == ownDir:
		p.role = roleDir
	case under(at, namedDir):
		p.role = lockRole(len(p.parts) - 2)
	case under(at, frozenDir):
		p.role = [...]role{roleDir, roleFlag, roleOther}[min(len(p.parts)-2, 2)]
	case under(at, requestLocks):
		p.role = lockRole(len(p.parts) - 2)
	case under(at, requestsDir):
		p.request()
	case under(at, nodesDir):
		p.node()
	case under(at, imagesDir):
		p.image()
	case under(at, registryDir):
		p.role = [...]role{roleDir, roleDir, roleComponent, roleOther}[min(len(p.parts)-2, 3)]
	}
	return p
}

func under(at, dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }

// lockRole is the role at a depth below a directory of lock directories.
func lockRole(depth int) role {
	return [...]role{roleDir, roleLock, roleContender, roleOther}[min(depth, 3)]
}

func (p *place) request() {
	switch len(p.parts) {
	case 2:
		p.role = roleDir
	case 3:
		p.role, p.kind, p.id = roleRecord, resources.KindRequest, p.parts[2]
	}
}

func (p *place) node() {
	switch {
	case len(p.parts) == 2:
		p.role = roleDir
	case len(p.parts) == 3:
		p.role, p.kind, p.id = roleRecord, resources.KindNode, p.parts[2]
	case p.parts[3] == lockName:
		p.role = lockRole(len(p.parts) - 3)
	}
}

// image reads nodepool/images/<image>/builds/<build>/providers/<provider>/images/<upload>/lock/<contender>.
func (p *place) image() {
	n := len(p.parts)
	is := func(i int, name string) bool { return i < n && p.parts[i] == name }
	switch {
	case n <= 3 || n == 4 && is(3, "builds"):
		p.role = roleDir
	case n == 4 && (is(3, pauseName) || is(3, wishName)):
		p.role = roleFlag
	case !is(3, "builds"):
	case is(4, lockName):
		p.role = lockRole(n - 4)
	case n == 5:
		p.role, p.kind, p.id = roleRecord, resources.KindBuild, buildID(p.parts[2], p.parts[4])
	case is(5, lockName):
		p.role = lockRole(n - 5)
	case !is(5, "providers"):
	case n <= 7 || n == 8 && is(7, "images"):
		p.role = roleDir
	case !is(7, "images"):
	case is(8, lockName):
		p.role = lockRole(n - 8)
	case n == 9:
		p.role, p.kind, p.id = roleRecord, resources.KindUpload, strings.Join([]string{p.parts[2], p.parts[4], p.parts[6], p.parts[8]}, "/")
	case is(9, lockName):
		p.role = lockRole(n - 9)
	}
}

// buildID is the id of a build inside npctl. Builds made before Nodepool 9 are numbered for each image; the others have
// an id that is unique.
func buildID(image, name string) string {
	if hexID.MatchString(name) {
		return name
	}
	return image + "/" + name
}

// buildName is the name of a build's znode.
func buildName(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

func buildPath(image, id string) string { return imagesDir + "/" + image + "/builds/" + buildName(id) }

func uploadsDir(image, build, provider string) string {
	return buildPath(image, build) + "/providers/" + provider + "/images"
}

// uploadPath is the znode of an upload that has no id of npctl's. Nodepool's are unique only in their directory, so all of
// it is the id: image/build/provider/sequence.
func uploadPath(id string) (string, bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || !sequence.MatchString(parts[3]) || checkNames(parts[:3]...) != nil {
		return "", false
	}
	return uploadsDir(parts[0], parts[1], parts[2]) + "/" + parts[3], true
}

// uploadID reads the id of an upload from the path of its znode.
func uploadID(at string) (string, bool) {
	p := placeOf(at)
	return p.id, p.role == roleRecord && p.kind == resources.KindUpload
}

// checkNames refuses what cannot be a part of a path.
func checkNames(names ...string) error {
	for _, name := range names {
		if name == "" || name == "." || name == ".." || name == lockName || strings.ContainsAny(name, "/\x00") || !printable(name) {
			return state.Refuse("%q cannot be the name of a znode", name)
		}
	}
	return nil
}

// printable leaves out what ZooKeeper does not take in a path.
func printable(name string) bool {
	for _, r := range name {
		if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff {
			return false
		}
	}
	return true
}

func parentOf(at string) string { return at[:strings.LastIndexByte(at, '/')] }

func nameOf(at string) string { return at[strings.LastIndexByte(at, '/')+1:] }
