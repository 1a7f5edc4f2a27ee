package config

import "time"

// Limits of a configuration. They are far above real configurations and keep hostile or broken input from exhausting
// the memory, the stack or the time of a review.
const (
	maxTotalBytes = 16 << 20 // all configuration and variable files together
	maxFileBytes  = 1 << 20  // one call of file, templatefile and the like
	maxSigns      = 2 << 20  // punctuation in all files, a cheap bound of the parser's memory
	maxFiles      = 10_000
	maxNesting    = 1000      // nested brackets, operators and template directives
	maxExpansion  = 50_000    // blocks that for_each and dynamic generate
	maxEdges      = 5_000_000 // references between locals and blocks
	maxValueBytes = 8 << 20
	maxDataDepth  = 200 // nesting of the input of jsondecode and yamldecode
	maxAliases    = 32  // in the input of yamldecode: aliases of aliases grow exponentially
	maxNameBytes  = 200
	maxElements   = 500_000     // elements of all for expressions
	maxMadeBytes  = 256 << 20   // size of those elements
	maxEvaluation = time.Minute // of all expressions
	maxDistinct   = 10_000      // elements of a list that are compared with each other
)
