package input

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/analyze"
	"contend/internal/input/folded"
	"contend/internal/input/gotext"
	"contend/internal/input/gotrace"
	"contend/internal/recording"
)

// Bounds on what is read of one file, unpacked. Text is kept whole while it is
// read; of a trace, one generation is, a second or so.
const (
	maxText  = 128 << 20
	maxTrace = 1 << 30
)

// Options say how to read what does not say it of itself.
type Options struct {
	// Unit is the length of time that one unit of a folded stack's number
	// stands for; 0 takes nanoseconds, and says so.
	Unit time.Duration
	// Stdin is read for the path "-".
	Stdin io.Reader

	maxText int64 // in place of the constant, in tests
}

// foreign reads one file that belongs to no recording, of whatever kind its
// content says.
func foreign(path string, o Options) (analyze.Run, error) {
	run := analyze.Run{Path: path}
	var in io.Reader
	if path == stdin {
		if o.Stdin == nil {
			return run, errors.New("-: there is no standard input to read")
		}
		in, run.Path = o.Stdin, "standard input"
	} else {
		f, err := os.Open(path)
		if err != nil {
			return run, err
		}
		defer f.Close()
		in = f
	}
	err := decode(&run, in, o)
	if err != nil {
		return run, fmt.Errorf("%s: %w", run.Path, err)
	}
	return run, nil
}

// stdin is the name of standard input among paths.
const stdin = "-"

// decode reads one file into a run.
func decode(run *analyze.Run, r io.Reader, o Options) error {
	in, err := unpack(r)
	if err != nil {
		return err
	}
	head, err := in.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot unpack: %w", bareCause(err))
	}
	switch {
	case len(head) == 0:
		return errors.New("the file is empty")
	case gotrace.Is(head):
		return decodeTrace(run, in)
	case isText(head):
		return decodeText(run, in, o)
	}
	if what := unreadBinary(head); what != "" {
		return errors.New("not a recording or a profile: " + what)
	}
	p, err := recording.DecodeProfile(in)
	if err != nil {
		return err
	}
	return addProfile(run, p)
}

// unpack takes gzip off, once: what is packed twice is no profile of anybody's.
func unpack(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, sniffed)
	magic, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, bareCause(err)
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("damaged gzip: %w", err)
	}
	return bufio.NewReaderSize(z, sniffed), nil
}

// bareCause takes the path off an error that will be given it.
func bareCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func decodeTrace(run *analyze.Run, in io.Reader) error {
	t, err := gotrace.Read(in, maxTrace)
	if err != nil {
		return err
	}
	run.Profiles = map[string]*profile.Profile{recording.Waits: t.Waits, recording.Holders: t.Holders}
	run.Source = &analyze.Source{Format: "Go execution trace", Mode: analyze.ModeAll,
		Notes: append([]string{"from an execution trace (" + t.Format + "): every goroutine wait to the tick; tracing itself slows a program that waits much"}, t.Notes...)}
	return nil
}

func decodeText(run *analyze.Run, in io.Reader, o Options) error {
	limit := cmp.Or(o.maxText, maxText)
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return fmt.Errorf("cannot unpack: %w", bareCause(err))
	}
	if int64(len(text)) > limit {
		return fmt.Errorf("more than %d MiB of text: refused", limit>>20)
	}
	switch {
	case gotext.KindOf(text) != "":
		return decodeRecords(run, text)
	case gotext.IsDump(text):
		return decodeDump(run, text)
	case folded.Is(text):
		return decodeFolded(run, text, o)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("the file is blank")
	}
	return errors.New(unreadText(text))
}

func decodeDump(run *analyze.Run, text []byte) error {
	d, err := gotext.ParseDump(text)
	if err != nil {
		return err
	}
	run.Profiles = map[string]*profile.Profile{recording.Waits: d.Profile}
	note := fmt.Sprintf("a goroutine dump: one moment, %d of %d goroutines waiting; the runtime tells whole minutes only, so delays are lower bounds", d.Waiting, d.Goroutines)
	if d.Timed == 0 && d.Waiting > 0 {
		note = fmt.Sprintf("a goroutine dump: one moment, %d of %d goroutines waiting, none of them known to have waited a minute: their delays are unknown, and shares are of goroutines", d.Waiting, d.Goroutines)
	}
	run.Source = &analyze.Source{Format: "goroutine dump", Mode: analyze.ModeMoment, Notes: []string{note}}
	return nil
}

func decodeRecords(run *analyze.Run, text []byte) error {
	r, err := gotext.ParseRecords(text)
	if err != nil {
		return err
	}
	if r.Kind == gotext.KindGoroutine {
		run.Profiles = map[string]*profile.Profile{recording.Waits: r.Profile}
		run.Source = momentOfUnknown(r.Count, "debug=1 leaves the runtime's frames out: of channels, select and running goroutines it cannot tell one from the other, so they count as running; take debug=2")
		return nil
	}
	run.Profiles = map[string]*profile.Profile{r.Kind: r.Profile}
	run.Source = &analyze.Source{Format: r.Kind + " profile in text", Go: analyze.GoVersion(r.Profile)}
	if r.Off {
		run.Source.Notes = []string{"the target's " + r.Kind + " profiler was off (sampling period 0): runtime.SetMutexProfileFraction(1) turns it on"}
	}
	return nil
}

// momentOfUnknown is the source of a goroutine profile, which has neither times
// nor states.
func momentOfUnknown(goroutines int64, notes ...string) *analyze.Source {
	return &analyze.Source{Format: "goroutine profile", Mode: analyze.ModeMoment, Sampled: true,
		Notes: append([]string{fmt.Sprintf("a goroutine profile: one moment, %d goroutines; how long they have waited is unknown, and shares are of goroutines", goroutines)}, notes...)}
}

func decodeFolded(run *analyze.Run, text []byte, o Options) error {
	unit := o.Unit
	if unit == 0 {
		unit = time.Nanosecond
	}
	p, err := folded.Parse(text, unit)
	if err != nil {
		return err
	}
	src := &analyze.Source{Format: "folded stacks", Notes: []string{"folded stacks have neither the number of waits nor the length of the window"}}
	if o.Unit == 0 {
		src.Notes = append(src.Notes, "folded stacks have no unit: their numbers are taken for nanoseconds; --unit us is that of bcc's offcputime, --unit 10ms that of a sampler's period")
	}
	name := recording.Waits
	if analyze.IsJVM(p) || analyze.InKernel(p) {
		name = recording.OffCPU
	} else {
		src.Mode = analyze.ModeAll
	}
	run.Profiles, run.Source = map[string]*profile.Profile{name: p}, src
	return nil
}

// addProfile takes a pprof file for what its sample types say.
func addProfile(run *analyze.Run, p *profile.Profile) error {
	run.Source = &analyze.Source{Format: "pprof", Go: analyze.GoVersion(p)}
	if i := typeOf(p, "goroutine", "count"); i >= 0 && len(p.SampleType) == 1 {
		goroutines := asMoment(p)
		run.Profiles = map[string]*profile.Profile{recording.Waits: p}
		run.Source = momentOfUnknown(goroutines)
		return nil
	}
	kind := analyze.ProfileKind(p)
	if kind == "" && soleTime(p) {
		p.SampleType[0].Type, p.DefaultSampleType = "delay", ""
		kind = recording.Block
		run.Source.Notes = append(run.Source.Notes, "the profile has sums of time only, without the number of waits")
	}
	switch {
	case kind == "":
		return errors.New(unfit(p))
	case kind == recording.Block && analyze.IsJVM(p): // whose threads wait themselves
		kind = recording.OffCPU
	}
	run.Profiles = map[string]*profile.Profile{kind: p}
	return nil
}

// soleTime tells profiles of one type, the time of waits, as jfrconv writes of
// lock events.
func soleTime(p *profile.Profile) bool {
	if len(p.SampleType) != 1 || recording.NanosPerUnit(p.SampleType[0].Unit) == 0 {
		return false
	}
	switch p.SampleType[0].Type {
	case "lock", "locks", "contentions", "delay", "monitor", "park", "off-cpu", "offcpu", "off_cpu":
		return true
	}
	return false
}

// asMoment turns a goroutine profile into open waits of unknown length.
func asMoment(p *profile.Profile) (goroutines int64) {
	p.SampleType = []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}
	p.DefaultSampleType = ""
	for _, s := range p.Sample {
		goroutines += max(s.Value[0], 0)
		s.Value = []int64{s.Value[0], 0}
		if s.Label == nil {
			s.Label = map[string][]string{}
		}
		s.Label[recording.LabelOpen] = []string{"end"}
	}
	return goroutines
}

func typeOf(p *profile.Profile, name, unit string) int {
	for i, st := range p.SampleType {
		if st.Type == name && st.Unit == unit {
			return i
		}
	}
	return -1
}

// unfit says what a pprof file is that has no waits in it, and what would have.
func unfit(p *profile.Profile) string {
	var types []string
	for _, st := range p.SampleType {
		types = append(types, st.Type+"/"+st.Unit)
	}
	have := "[" + strings.Join(types, " ") + "]"
	const instead = "take /debug/pprof/mutex or block, or contend record"
	for _, st := range p.SampleType {
		switch st.Type {
		case "cpu", "itimer", "cycles":
			return "a CPU profile " + have + ": it says where the program ran, not where it waited; " + instead
		case "inuse_space", "alloc_space", "inuse_objects", "alloc_objects", "heap", "alloc":
			return "a heap profile " + have + ": it says nothing of waits; " + instead
		case "threadcreate":
			return "a thread creation profile: it says nothing of waits; " + instead
		}
	}
	return "the profile has the sample types " + have + "; contend needs contentions/count and delay, switches/count and sleeping, or samples/count and time, in a unit of time"
}
