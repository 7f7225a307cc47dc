package trial

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Tool is one way to look addresses up.
type Tool struct {
	Name string
	Args []string
	Out  string // a file for what it prints, or ""
	Cost Cost   // the least of the runs
}

// SymbolizeRow is one task and the tools that do it.
type SymbolizeRow struct {
	What  string
	Tools []Tool
}

// Agreement is how far two tools say the same of addresses.
type Agreement struct {
	Of, Functions, Lines int
	LeftOut              int // in wrappers or between functions
}

// Measure lets the tools take turns, so that none has the quiet minutes.
func (r *SymbolizeRow) Measure(ctx context.Context, repeats int) error {
	slices.SortFunc(r.Tools[1:], func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	for range repeats {
		for i := range r.Tools {
			t := &r.Tools[i]
			var out io.Writer
			if t.Out != "" {
				f, err := os.Create(t.Out)
				if err != nil {
					return err
				}
				defer f.Close()
				out = f
			}
			c, err := measure(ctx, out, t.Args[0], t.Args[1:]...)
			if err != nil {
				return err
			}
			if c.Exit != 0 {
				return fmt.Errorf("%s: exit code %d: %s", t.Name, c.Exit, c.Last)
			}
			if t.Cost.Command == "" {
				t.Cost = c
			}
			t.Cost.Wall, t.Cost.CPU, t.Cost.RSS = min(t.Cost.Wall, c.Wall), min(t.Cost.CPU, c.CPU), min(t.Cost.RSS, c.RSS)
		}
	}
	return nil
}

// ReportSymbolize writes the rows as markdown.
func ReportSymbolize(w io.Writer, rows []SymbolizeRow, bytes int64, g Agreement, names, command string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Symbols of a large binary\n\nMade by `%s` on %s; each figure is the least of its runs, which took turns.\n", command, hostLine())
	fmt.Fprintf(&b, "The binary is generated, Go code of %.0f MB with debug information. Each tool is a process that starts cold,\nlooks up and prints; files are in the page cache.\n", float64(bytes)/1e6)
	b.WriteString("\n| task | tool | wall | CPU | peak memory |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		for _, t := range r.Tools {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %.0f MB |\n", r.What, t.Name, t.Cost.Wall.Round(time.Millisecond), t.Cost.CPU.Round(time.Millisecond), float64(t.Cost.RSS)/1e6)
		}
	}
	if g.Of > 0 {
		fmt.Fprintf(&b, "\nOf %d distinct addresses, contend and llvm-addr2line name the same innermost function at %.2f %% and the same\nfile and line at %.2f %%. Not among them are %d in wrappers that the compiler made, which contend leaves out as the runtime's\nown profiles do, or in padding between functions.\n",
			g.Of, 100*float64(g.Functions)/float64(g.Of), 100*float64(g.Lines)/float64(g.Of), g.LeftOut)
	}
	fmt.Fprintf(&b, "\nLock names: %s.\n", names)
	_, err := io.WriteString(w, b.String())
	return err
}
