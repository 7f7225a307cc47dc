package symbolize

import (
	"fmt"
	"go/version"
	"strconv"
	"strings"
)

// layout holds what differs between Go releases in the tables this package
// reads. Everything else (the pclntab header, _func, the inline tree entry, and
// moduledata up to text) is the same from Go 1.20, the first with this pclntab
// magic, to Go 1.27.
type layout struct {
	minor   int    // the first Go 1.minor with this layout
	gofunc  uint64 // offset of moduledata.gofunc, the base of the inline trees (runtime/symtab.go)
	etypes  int    // index of moduledata.etypes among its words; types is the 37th
	wrapper uint8  // internal/abi.FuncIDWrapper
}

// layouts is sorted by minor. An entry holds until the next one.
var layouts = []layout{
	{minor: 20, gofunc: 320, etypes: 38, wrapper: 21},
	{minor: 22, gofunc: 320, etypes: 38, wrapper: 22}, // FuncID_corostart came
	{minor: 25, gofunc: 320, etypes: 38, wrapper: 23}, // FuncID_runCleanups came
	{minor: 27, gofunc: 344, etypes: 39, wrapper: 23}, // new fields between types and rodata
}

// lastMinor is the newest release whose layout was checked.
const lastMinor = 27

// layoutFor finds the layout of a Go version as the linker records it, such as
// "go1.26.8", "go1.26.0 X:nogreenteagc" or "devel go1.27-abcdef Mon …".
func layoutFor(goVersion string) (layout, error) {
	fields := strings.Fields(strings.TrimPrefix(goVersion, "devel "))
	if len(fields) == 0 {
		return layout{}, fmt.Errorf("no Go version recorded")
	}
	lang := version.Lang(fields[0])
	if lang == "" { // a development version: go1.27-abcdef
		release, _, _ := strings.Cut(fields[0], "-")
		lang = version.Lang(release)
	}
	minor, err := strconv.Atoi(strings.TrimPrefix(lang, "go1."))
	if err != nil {
		return layout{}, fmt.Errorf("built with Go %q, which is no version known here", goVersion)
	}
	if minor < layouts[0].minor || minor > lastMinor {
		return layout{}, fmt.Errorf("built with %s; its symbol tables are only known for Go 1.%d to 1.%d",
			fields[0], layouts[0].minor, lastMinor)
	}
	found := layouts[0]
	for _, l := range layouts[1:] {
		if minor >= l.minor {
			found = l
		}
	}
	return found, nil
}
