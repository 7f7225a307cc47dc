package endpoint

import "go/version"

// mutexMeaning says what the delay of a mutex profile is of a target built by a version
// of Go (release notes of 1.22 and 1.25; src/runtime/sema.go, mprof.go). In all of
// them it is an estimate from the first and the last waiter, and charged to the
// Unlock that ended it, not to who waited.
func mutexMeaning(goVersion string) string {
	lang := version.Lang(goVersion)
	switch {
	case lang == "":
		return "charged to the Unlock that ended it; of all waiters if the target was built with Go 1.22 or later, else of one of them"
	case version.Compare(lang, "go1.22") < 0:
		return "charged to the Unlock that ended it; of one waiter, however many there were (Go before 1.22)"
	case version.Compare(lang, "go1.25") < 0:
		return "charged to the Unlock that ended it; of all waiters; locks of the runtime itself under runtime._LostContendedRuntimeLock (Go 1.22 to 1.24)"
	}
	return "charged to the Unlock that ended it; of all waiters; locks of the runtime itself likewise (Go 1.25 and later)"
}
