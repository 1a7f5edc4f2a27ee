package config

import "time"

// Limits of a configuration. They are far above real configurations and keep hostile or broken input from exhausting
// the memory, the stack or the time of a review.
const (
	maxTotalBytes  = 16 << 20 // all configuration and variable files together
	maxFileBytes   = 1 << 20  // one call of file, templatefile and the like
	maxFiles       = 10_000
	maxExpansion   = 50_000    // blocks that for_each, dynamic and modules generate
	maxEdges       = 5_000_000 // references between locals and blocks, and locals and blocks of modules
	maxModuleDepth = 8         // modules that call each other
	maxValueBytes  = 8 << 20
	maxAliases     = 32 // in the input of yamldecode: aliases of aliases grow exponentially
	maxNameBytes   = 200
	maxElements    = 500_000     // elements of all for expressions
	maxMadeBytes   = 256 << 20   // size of those elements
	maxEvaluation  = time.Minute // of all expressions
	maxDistinct    = 10_000      // elements of a list that are compared with each other
)
