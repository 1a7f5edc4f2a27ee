package zookeeper

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Znodes that all programs share, and npctl's own.
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

	ownDir           = "/npctl"             // holds the lineage
	serialAt         = ownDir + "/serial"   // written by every commit
	uploadsAt        = ownDir + "/uploads"  // holds the highest number of npctl's own uploads
	keyAt            = ownDir + "/hash-key" // see resources.HashKey
	namedDir         = ownDir + "/locks"    // of state.Store.Lock
	frozenDir        = ownDir + "/frozen"   // has a flag for each frozen provider
	trialsDir        = ownDir + "/trials"   // see resources.Trial
	lockName         = "lock"               // name of every lock directory except those of requests
	pauseName        = "pause"              // flag of an image
	buildRequestName = "request-build"      // flag of an image
)

// watchedDirs are the directories that the store reads.
var watchedDirs = []string{rootDir, namedDir, frozenDir, trialsDir}

var (
	sequence  = regexp.MustCompile(`^-?\d{10}$`)
	requestID = regexp.MustCompile(`^\d{3}-\d{10}$`)
	hexID     = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

const sequenceLength = 10 // digits of a number that ZooKeeper assigns

// role is the purpose of a znode.
type role int

const (
	roleOther     role = iota // ignored
	roleDir                   // has children that the store uses
	roleRecord                // a request, node, build or upload
	roleLock                  // a lock directory
	roleContender             // an entry in the queue of a lock
	roleComponent             // a registration
	roleFlag                  // exists or not
)

// znodeRef identifies the object at a path below the chroot.
type znodeRef struct {
	role  role
	kind  resources.Kind
	id    string // of a record
	parts []string
}

// parsePath parses a path. An unknown path has roleOther, so that other programs may use it.
func parsePath(at string) znodeRef {
	p := znodeRef{parts: strings.Split(strings.TrimPrefix(at, "/"), "/")}
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
	case under(at, trialsDir):
		p.trial()
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

// lockRole returns the role at a depth below a directory of lock directories.
func lockRole(depth int) role {
	return [...]role{roleDir, roleLock, roleContender, roleOther}[min(depth, 3)]
}

func (p *znodeRef) request() {
	switch len(p.parts) {
	case 2:
		p.role = roleDir
	case 3:
		p.role, p.kind, p.id = roleRecord, resources.KindRequest, p.parts[2]
	}
}

func (p *znodeRef) trial() {
	switch len(p.parts) {
	case 2:
		p.role = roleDir
	case 3:
		if id, err := url.PathUnescape(p.parts[2]); err == nil {
			p.role, p.kind, p.id = roleRecord, resources.KindTrial, id
		}
	}
}

func (p *znodeRef) node() {
	switch {
	case len(p.parts) == 2:
		p.role = roleDir
	case len(p.parts) == 3:
		p.role, p.kind, p.id = roleRecord, resources.KindNode, p.parts[2]
	case p.parts[3] == lockName:
		p.role = lockRole(len(p.parts) - 3)
	}
}

// image parses nodepool/images/<image>/builds/<build>/providers/<provider>/images/<upload>/lock/<contender>.
func (p *znodeRef) image() {
	n := len(p.parts)
	is := func(i int, name string) bool { return i < n && p.parts[i] == name }
	switch {
	case n <= 3 || n == 4 && is(3, "builds"):
		p.role = roleDir
	case n == 4 && (is(3, pauseName) || is(3, buildRequestName)):
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

// buildID returns npctl's ID of a build. Builds made before Nodepool 9 have a number that is unique per image; newer
// builds have a globally unique ID.
func buildID(image, name string) string {
	if hexID.MatchString(name) {
		return name
	}
	return image + "/" + name
}

// buildName returns the name of a build's znode.
func buildName(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

func buildPath(image, id string) string { return imagesDir + "/" + image + "/builds/" + buildName(id) }

func uploadsDir(image, build, provider string) string {
	return buildPath(image, build) + "/providers/" + provider + "/images"
}

// uploadPath returns the path of an upload without an ID of npctl. Nodepool's numbers are unique only in their
// directory, so the ID is image/build/provider/sequence.
func uploadPath(id string) (string, bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || !sequence.MatchString(parts[3]) || checkNames(parts[:3]...) != nil {
		return "", false
	}
	return uploadsDir(parts[0], parts[1], parts[2]) + "/" + parts[3], true
}

// uploadID returns the ID of an upload from the path of its znode.
func uploadID(at string) (string, bool) {
	p := parsePath(at)
	return p.id, p.role == roleRecord && p.kind == resources.KindUpload
}

// checkNames rejects names that cannot be part of a path.
func checkNames(names ...string) error {
	for _, name := range names {
		if name == "" || name == "." || name == ".." || name == lockName || strings.ContainsAny(name, "/\x00") || !printable(name) {
			return state.Invalidf("%q cannot be the name of a znode", name)
		}
	}
	return nil
}

// printable reports whether ZooKeeper accepts the characters of name in a path.
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
