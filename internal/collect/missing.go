package collect

import (
	"errors"

	"contend/internal/collect/capability"
	"contend/internal/collect/gowait"
	"contend/internal/collect/offcpu"
	"contend/internal/collect/target"
)

// IsMissing reports whether an error says that a privilege or a kernel feature
// is missing, rather than that something is wrong with the target.
func IsMissing(err error) bool {
	return capability.IsMissing(err) ||
		errors.As(err, new(*offcpu.UnsupportedError)) ||
		errors.Is(err, gowait.ErrPrivilege) || errors.Is(err, gowait.ErrKernel) ||
		errors.Is(err, target.ErrPermission)
}
