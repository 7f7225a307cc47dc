package recording

import "github.com/google/pprof/profile"

// Capture is what one collector brings home from one window.
type Capture struct {
	Profiles  map[string]*profile.Profile // by profile name
	Collector Collector                   // its part of the manifest
	Overhead  Overhead                    // Share is left to the recorder
	// Operations were counted between the collector's own edges; nil by most.
	Operations *Operations
	Warnings   []string
}
