package matrix

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// key tells cells apart.
func (r *Result) key() string { return r.Toolchain + " " + r.Build + " " + r.Mode }

// Read reads results, one a line of JSON; of a cell that is there twice the last
// counts. A file that is not there has none.
func Read(path string) ([]*Result, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []*Result
	at := make(map[string]int)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r := new(Result)
		if err := json.Unmarshal(lines.Bytes(), r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if i, again := at[r.key()]; again {
			all[i] = r
			continue
		}
		at[r.key()] = len(all)
		all = append(all, r)
	}
	return all, lines.Err()
}

// Append adds a result to a file.
func Append(path string, r *Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// Report writes the table: a row a toolchain, a column a build, in each mode.
func Report(w io.Writer, all []*Result, modes []string, host, command string) error {
	var b strings.Builder
	b.WriteString("# Every Go build\n\n")
	fmt.Fprintf(&b, `One program that waits in every way for times that it knows (`+"`testdata/matrix`"+`), built by each toolchain
in each way, recorded once a cell. A cell holds, and shows how far the time waited for all locks is off the design,
when that and each site's time are within %g %%, each site's count is exact, nothing was lost, and the three sites
that waited longest for locks are those of the runtime's own block profile and of its execution trace, in order.
In the mode `+"`locks`"+` the sites are those of mutexes, RWMutexes and WaitGroups; in `+"`all`"+` also of Cond, channels, select,
sleep and the network. A goroutine that is locked to its thread is among them, and must have its stack in the
thread's off-CPU time, too, within %g %%. The column devel is a build that says it was made by a development version: no table has
its runtime's layout, which is then read from its DWARF. Toolchains that are not at hand are left out;
`+"`make matrix MATRIX=-fetch`"+` lets the go command fetch them.

%s

    %s

`, 100*Tolerance, 100*threadTolerance, host, command)
	for _, mode := range modes {
		fmt.Fprintf(&b, "## `--waits %s`\n\n| |", mode)
		for _, c := range Builds {
			fmt.Fprintf(&b, " %s |", c.Name)
		}
		b.WriteString("\n|---" + strings.Repeat("|---", len(Builds)) + "|\n")
		for _, t := range Toolchains {
			fmt.Fprintf(&b, "| %s |", t)
			for _, c := range Builds {
				fmt.Fprintf(&b, " %s |", shown(all, t, c.Name, mode))
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	b.WriteString(attaching(all))
	writeNotes(&b, all)
	_, err := io.WriteString(w, b.String())
	return err
}

func shown(all []*Result, toolchain, build, mode string) string {
	i := slices.IndexFunc(all, func(r *Result) bool {
		return r.Toolchain == toolchain && r.Build == build && r.Mode == mode
	})
	switch {
	case i < 0:
		return "not at hand"
	case all[i].Refused != "":
		return "refused"
	case all[i].Failed != "":
		return "failed"
	case !all[i].Holds():
		return "**off**"
	}
	return fmt.Sprintf("%+.2f %%", math.Round(1e4*all[i].TotalOff)/100+0) // + 0: no negative zero
}

// attaching says how long it took to attach.
func attaching(all []*Result) string {
	var took []time.Duration
	for _, r := range all {
		if r.AttachNS > 0 {
			took = append(took, time.Duration(r.AttachNS))
		}
	}
	if len(took) == 0 {
		return ""
	}
	slices.Sort(took)
	return fmt.Sprintf("Attaching took %s (median of %d), %s at most.\n", took[len(took)/2].Round(time.Millisecond), len(took), took[len(took)-1].Round(time.Millisecond))
}

func writeNotes(b *strings.Builder, all []*Result) {
	var notes []string
	for _, r := range all {
		why := strings.Join(append(slices.Clone(r.Wrong), r.Refused, r.Failed), "; ")
		if why = strings.Trim(why, "; "); why != "" {
			notes = append(notes, fmt.Sprintf("- %s: %s\n", r.key(), why))
		}
	}
	if len(notes) > 0 {
		slices.Sort(notes)
		b.WriteString("\n" + strings.Join(notes, ""))
	}
}
