package capability

import (
	"errors"
	"fmt"
	"os"

	"contend/internal/recording"
)

// MissingError says that a collector cannot run here, and what would help. It
// reads as one line.
type MissingError struct {
	Collector string
	Check     Check
}

func (e *MissingError) Error() string {
	s := fmt.Sprintf("%s: %s is missing (%s)", e.Collector, e.Check.Name, e.Check.Detail)
	if e.Check.Remedy != "" {
		s += ": " + e.Check.Remedy
	}
	return s
}

// Preflight checks that a collector's least needs are met, before anything is
// loaded: a *[MissingError], or nil. targetUID is the target's user. Collectors
// of the endpoint need nothing.
//
// What cannot be found out is not in the way: loading will tell.
func Preflight(collector string, targetUID int) error {
	return thisHost().preflight(collector, targetUID, os.Getuid())
}

func (h host) preflight(collector string, targetUID, own int) error {
	needs := []Check{h.kernel(), h.lockdown(), h.capability(capBPF), h.capability(capPerfmon), h.owner(targetUID, own)}
	switch collector {
	case recording.Waits, recording.Holders:
	case recording.OffCPU:
		needs = append(needs, h.btf())
	default:
		return nil
	}
	for _, c := range needs {
		if c.State == Missing {
			return &MissingError{collector, c}
		}
	}
	return nil
}

// IsMissing reports whether err is or wraps a [MissingError].
func IsMissing(err error) bool {
	var m *MissingError
	return errors.As(err, &m)
}
