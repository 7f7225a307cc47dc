package ledger

import (
	"testing"

	"github.com/spf13/pflag"
)

// A child is told every flag's value, in any order: what a preset set must
// arrive, and what the user changed of it too.
func TestPresetsReachAChild(t *testing.T) {
	for name := range presets {
		parent := Defaults()
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		parent.Flags(f)
		if err := f.Parse([]string{"--preset", name, "--in-flight", "2000"}); err != nil {
			t.Fatal(err)
		}
		if err := parent.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var args []string
		f.VisitAll(func(flag *pflag.Flag) { args = append(args, "--"+flag.Name+"="+flag.Value.String()) })
		child := Defaults()
		f = pflag.NewFlagSet("", pflag.ContinueOnError)
		child.Flags(f)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		want, got := parent.Settings(), child.Settings()
		for key := range want {
			if got[key] != want[key] {
				t.Errorf("%s: %s is %s, want %s", name, key, got[key], want[key])
			}
		}
		if child.InFlight != 2000 || child.Loops == 0 {
			t.Errorf("%s: %+v", name, child)
		}
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o := Defaults()
	o.Flags(f)
	if f.Parse([]string{"--preset", "fast"}) == nil {
		t.Error("an unknown preset was taken")
	}
}
