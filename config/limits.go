package config

import "time"

// What a configuration may be at the most. They are far above what people write and keep hostile or broken input from
// taking the machine's memory, its stack or a review's time.
const (
	maxTotalBytes = 16 << 20 // of all configuration and variable files together
	maxFileBytes  = 1 << 20  // read by one call of file, templatefile and the like
	maxSigns      = 2 << 20  // punctuation in all files, a cheap bound of the parser's memory
	maxFiles      = 10_000
	maxNesting    = 1000      // brackets, operators and template directives inside each other
	maxExpansion  = 50_000    // blocks that for_each and dynamic make
	maxEdges      = 5_000_000 // references between locals and blocks
	maxValueBytes = 8 << 20
	maxDataDepth  = 200 // of what jsondecode and yamldecode read
	maxAliases    = 32  // in what yamldecode reads: aliases of aliases grow without end
	maxNameBytes  = 200
	maxElements   = 500_000     // that all for expressions make
	maxMadeBytes  = 256 << 20   // of what they make
	maxEvaluation = time.Minute // of all expressions
	maxDistinct   = 10_000      // elements of a list, which are compared with each other
)
