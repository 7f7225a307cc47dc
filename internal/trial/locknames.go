package trial

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"contend/internal/recording"
)

// NamedBroker is what one recording of a broker called its locks.
type NamedBroker struct {
	Broker   string
	Stripped bool
	Source   string // of the names
	Top      []NamedLock
	Sites    int64 // stacks that waited
	Unnamed  int64
	Disagree int64

	Calls, Named, Contradicted int // of mutexes in the binary
}

// NamedLock is a lock's name and the time waited for it.
type NamedLock struct {
	Name    string
	DelayNS int64
	Waits   int64
}

// topNames is how many locks are listed.
const topNames = 5

// TopLocks sums a recording's waits for locks by the recorded name.
func TopLocks(broker string, stripped bool, rec *recording.Recording) (NamedBroker, error) {
	row := NamedBroker{Broker: broker, Stripped: stripped}
	for _, c := range rec.Manifest.Collectors {
		if c.Name == recording.Waits {
			row.Source = c.Settings["lock_names"]
			row.Sites, row.Unnamed, row.Disagree = c.Counters["lock_sites"], c.Counters["lock_sites_unnamed"], c.Counters["lock_sites_disagree"]
		}
	}
	p, err := rec.Profile(recording.Waits)
	if err != nil {
		return row, err
	}
	sums := make(map[string]*NamedLock)
	for _, s := range p.Sample {
		if !slices.Contains(s.Label[recording.LabelClass], recording.ClassLock) {
			continue
		}
		name := "without a name"
		if l := s.Label[recording.LabelLock]; len(l) > 0 {
			name = l[0]
		}
		if sums[name] == nil {
			sums[name] = &NamedLock{Name: name}
		}
		sums[name].Waits += s.Value[0]
		sums[name].DelayNS += s.Value[1]
	}
	for _, l := range sums {
		row.Top = append(row.Top, *l)
	}
	slices.SortFunc(row.Top, func(a, b NamedLock) int {
		return cmp.Or(cmp.Compare(b.DelayNS, a.DelayNS), cmp.Compare(a.Name, b.Name))
	})
	row.Top = row.Top[:min(len(row.Top), topNames)]
	return row, nil
}

// ReportNames writes the rows as markdown.
func ReportNames(w io.Writer, rows []NamedBroker, window time.Duration, command string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# What brokers' locks are called\n\nMade by `%s` on %s. Each broker (`testdata/brokers`) was recorded under load for\n%s, as Go builds it and stripped (`-ldflags '-s -w'`): the five locks that were waited for longest.\n", command, hostLine(), window)
	fmt.Fprintf(&b, "\n*Sites* are the stacks that waited for a lock; *calls* are all calls of a mutex's slow path in the binary,\nwhose callers are not known here, so that fewer have a name. Each name was held against the source, which is on this\nhost: *contradicted* are names of another field than the line selects.\n")
	for i, r := range rows {
		if i == 0 || rows[i-1].Broker != r.Broker {
			fmt.Fprintf(&b, "\n## %s\n", r.Broker)
		}
		kind := "as built"
		if r.Stripped {
			kind = "stripped"
		}
		fmt.Fprintf(&b, "\n%s, names from %s: %d of %d sites named, %d contradicted; %d of %d calls named, %d contradicted.\n", kind, r.Source,
			r.Sites-r.Unnamed, r.Sites, r.Disagree, r.Named, r.Calls, r.Contradicted)
		if len(r.Top) == 0 {
			b.WriteString("\nNobody waited for a lock.\n")
			continue
		}
		b.WriteString("\n| lock | waited | waits |\n|---|---|---|\n")
		for _, l := range r.Top {
			fmt.Fprintf(&b, "| `%s` | %.2f ms | %d |\n", l.Name, float64(l.DelayNS)/1e6, l.Waits)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
