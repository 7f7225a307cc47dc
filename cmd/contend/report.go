package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
	"contend/internal/input"
	"contend/internal/recording"
)

// viewOptions are the flags that report and diff share.
type viewOptions struct {
	format  string
	output  string
	profile string
	by      string
	rules   string
	limit   int
	limited bool // --limit was given
	strict  bool
	flame   string
	base    string // report and export
	unit    unitFlag

	given []string // the flags that were given, as words of a command line; but for --by and --output
}

const formatPprof = "pprof"

func (o *viewOptions) add(f *pflag.FlagSet, formats []render.Format) {
	f.StringVar(&o.format, "format", string(render.Text), join(formats)+" or pprof")
	f.StringVarP(&o.output, "output", "o", "", "write to this file instead of standard output")
	f.StringVar(&o.profile, "profile", "", "waits, holders, offcpu, mutex, block or fgprof (default: the first that every recording has)")
	f.StringVar(&o.by, "by", "", "show one table: "+strings.Join(analyze.Bys(), ", "))
	f.StringVar(&o.rules, "rules", "", "a file of names, categories and idle patterns, beside the built-in ones")
	f.IntVar(&o.limit, "limit", 10, "rows shown in each table")
	o.addUnit(f)
	f.StringVar(&o.flame, "flame", "", "svg, folded, speedscope: the flame graph to write: "+strings.Join(analyze.FlameNames(), ", "))
	f.BoolVar(&o.strict, "strict", false, "exit 5 if data was lost; a diff also exits 2 if unlike things are compared, 3 if a gate cannot be decided")
}

// noteGiven keeps which flags were given.
func (o *viewOptions) noteGiven(f *pflag.FlagSet) {
	o.limited = f.Changed("limit")
	o.given = nil
	f.Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if several, ok := flag.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, v := range values {
			switch {
			case flag.Name == "by" || flag.Name == "output" || flag.Name == "format" && v == flag.DefValue:
			case flag.Value.Type() == "bool" && v == "true":
				o.given = append(o.given, "--"+flag.Name)
			default:
				o.given = append(o.given, "--"+flag.Name, shellWord(v))
			}
		}
	})
}

// plainWord is what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// shellWord quotes a word for a shell where it must be.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (o *viewOptions) check(formats []render.Format) error {
	if o.format != formatPprof && !slices.Contains(formats, render.Format(o.format)) {
		return usagef("--format %s: unknown; there are %s and pprof", o.format, join(formats))
	}
	if o.by != "" && !slices.Contains(analyze.Bys(), o.by) {
		return usagef("--by %s: unknown; there are %s", o.by, strings.Join(analyze.Bys(), ", "))
	}
	if o.limit < 1 {
		return usagef("--limit %d: must be at least 1", o.limit)
	}
	if o.flame != "" && !slices.Contains(analyze.FlameNames(), o.flame) {
		return usagef("--flame %s: unknown; there are %s", o.flame, strings.Join(analyze.FlameNames(), ", "))
	}
	if f := render.Format(o.format); o.flame != "" && f != render.SVG && f != render.Folded && f != render.Speedscope {
		return usagef("--flame goes with --format svg, folded or speedscope")
	}
	return nil
}

func join(formats []render.Format) string {
	var names []string
	for _, f := range formats {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// options turns the flags into what the analysis takes.
func (o *viewOptions) options() (analyze.Options, error) {
	a := analyze.Options{Profile: o.profile, By: o.by, Strict: o.strict, Consume: o.format != formatPprof,
		SkipFlames: !slices.Contains([]string{string(render.HTML), string(render.SVG), string(render.Folded), string(render.Speedscope)}, o.format)}
	if o.rules == "" {
		return a, nil
	}
	f, err := os.Open(o.rules)
	if err != nil {
		return a, usagef("--rules: %w", err)
	}
	defer f.Close()
	a.Rules, err = analyze.ParseRules(f)
	if err != nil {
		return a, usagef("--rules %s: %w", o.rules, err)
	}
	return a, nil
}

func newReport() *cobra.Command {
	var o viewOptions
	c := &cobra.Command{
		Use:   "report RECORDING|SERIES|FILE",
		Short: "Show which locks a recording waited on",
		Long: "Report shows which locks a recording, a series of recordings or a file of another tool waited on:\n" +
			"pprof, folded stacks, Go execution traces and goroutine dumps; - is standard input. See docs/inputs.md.",
		Args: exactArgs("a recording"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.noteGiven(cmd.Flags())
			if err := o.check(render.Formats()); err != nil {
				return err
			}
			return runReport(o, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	o.add(c.Flags(), render.Formats())
	c.Flags().StringVar(&o.base, "base", "", "an earlier pprof file of the same process: report what came since")
	return c
}

func runReport(o viewOptions, path string, stdin io.Reader, stdout io.Writer) error {
	opt, err := o.options()
	if err != nil {
		return err
	}
	side, warnings, err := o.read(path, stdin)
	if err != nil {
		return err
	}
	r, err := analyze.NewReport(side, opt)
	if err != nil {
		return err
	}
	r.Warnings = append(r.Warnings, warnings...)
	if err := o.write(stdout, func(w io.Writer) error {
		if o.format == formatPprof {
			return writePprof(w, r.Profile, side)
		}
		return render.Report(w, r, render.Format(o.format), o.render(stdout, path))
	}); err != nil {
		return err
	}
	if o.strict && len(r.Lost) > 0 {
		return fmt.Errorf("%w: %s", errLost, lostNames(r.Lost))
	}
	return nil
}

// read reads a command's input, less what --base names.
func (o *viewOptions) read(path string, stdin io.Reader) (analyze.Side, []string, error) {
	side, warnings, err := o.input(stdin).Side(path)
	if err == nil && o.base != "" {
		err = o.since(&side)
	}
	return side, warnings, err
}

// input says how files of other tools are to be read.
func (o *viewOptions) input(stdin io.Reader) input.Options {
	return input.Options{Unit: time.Duration(o.unit), Stdin: stdin}
}

// since takes an earlier snapshot of the same process's cumulative profile off
// a side.
func (o *viewOptions) since(side *analyze.Side) error {
	path := o.base
	base, _, err := o.input(nil).Side(path)
	if err != nil {
		return err
	}
	if len(side.Runs) != 1 || !cumulative(&side.Runs[0]) || len(base.Runs) != 1 || !cumulative(&base.Runs[0]) {
		return usagef("--base takes pprof files, of a profile that counts from the start of its process: recordings hold differences already")
	}
	for name, p := range side.Runs[0].Profiles {
		for _, b := range base.Runs[0].Profiles { // one, of whatever kind it was taken for
			if side.Runs[0].Profiles[name], err = recording.Subtract(p, b); err != nil {
				return fmt.Errorf("%s and %s: %w", path, side.Runs[0].Path, err)
			}
		}
	}
	side.Name += " since " + base.Name
	return nil
}

// cumulative tells profiles that may count from the start of their process.
func cumulative(r *analyze.Run) bool {
	return r.Manifest == nil && len(r.Profiles) == 1 && (r.Source == nil || r.Source.Mode == "")
}

// render says how the tables are to be drawn. paths are the command's arguments.
func (o *viewOptions) render(stdout io.Writer, paths ...string) render.Options {
	r := textOptions(stdout, o.limit)
	if !o.limited && o.format != string(render.Text) {
		r.Limit = 0 // the format's own: only a terminal is short of room
	}
	r.By, r.Flame = o.by, o.flame
	if o.output != "" {
		r.Color = false
	}
	words := []string{"contend", "report"}
	if len(paths) == 2 {
		words[1] = "diff"
	}
	for _, p := range paths {
		words = append(words, shellWord(p))
	}
	r.Command = strings.Join(append(words, o.given...), " ")
	r.Reproduce = []string{r.Command}
	if o.by != "" {
		r.Reproduce[0] += " --by " + o.by
	}
	return r
}

// textOptions looks at what is on the other end of stdout.
func textOptions(stdout io.Writer, limit int) render.Options {
	o := render.Options{Limit: limit, Width: 100}
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.Color = os.Getenv("NO_COLOR") == ""
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			o.Width = width
		}
	}
	return o
}

// write renders in memory first: output is whole or absent.
func (o *viewOptions) write(stdout io.Writer, draw func(io.Writer) error) error {
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		return err
	}
	if o.output == "" {
		_, err := stdout.Write(b.Bytes())
		return err
	}
	return recording.WriteFile(o.output, b.Bytes())
}

// writePprof writes a side's profile as one pprof file.
func writePprof(w io.Writer, name string, side analyze.Side) error {
	p, err := merged(name, side)
	if err != nil {
		return err
	}
	return p.Write(w)
}

func writeProfile(path string, p *profile.Profile) error {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return err
	}
	return recording.WriteFile(path, b.Bytes())
}

func merged(name string, side analyze.Side) (*profile.Profile, error) {
	var all []*profile.Profile
	for _, r := range side.Runs {
		p, ok := r.Profiles[name]
		if !ok {
			return nil, fmt.Errorf("%s has no profile %s", r.Path, name)
		}
		all = append(all, p)
	}
	return recording.MergeProfiles(all...)
}
