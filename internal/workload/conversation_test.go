package workload

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"contend/internal/recording"
)

func TestEndOfInputIsAStop(t *testing.T) {
	c := NewConversation(strings.NewReader(`{"command":"window","min_ns":5}`+"\n"), io.Discard)
	cmd, err := c.NextCommand()
	if err != nil || cmd != (Command{Command: CommandWindow, MinNS: 5}) {
		t.Fatalf("%+v, %v", cmd, err)
	}
	cmd, err = c.NextCommand()
	if !errors.Is(err, io.EOF) || cmd.Command != CommandStop {
		t.Errorf("%+v, %v", cmd, err)
	}
}

func TestMalformedLineIsAnError(t *testing.T) {
	for _, line := range []string{"{", "[]", strings.Repeat("x", maxLine+1)} {
		if _, err := NewConversation(strings.NewReader(line+"\n"), io.Discard).NextEvent(); err == nil {
			t.Errorf("%.10q was taken for an event", line)
		}
	}
}

func TestErrorEventIsAnError(t *testing.T) {
	c := NewConversation(strings.NewReader(`{"event":"error","error":"no space"}`), io.Discard)
	if _, err := c.NextEvent(); err == nil || err.Error() != "no space" {
		t.Errorf("%v", err)
	}
}

func TestMeasureOnce(t *testing.T) {
	const (
		warm  = `{"event":"warm","pid":1}` + "\n"
		begin = `{"event":"begin","mono_ns":10}` + "\n"
		end   = `{"event":"end","mono_ns":20,"result":{"operations":7,"verify":{"ok":true}}}` + "\n"
		late  = `{"event":"end","mono_ns":20,"result":{"operations":7,"verify":{"ok":false,"reason":"late"}}}` + "\n"
		fine  = `{"event":"final","result":{"verify":{"ok":true}}}` + "\n"
		lost  = `{"event":"final","result":{"verify":{"ok":false,"lost":2,"reason":"lost 2"}}}` + "\n"
	)
	for name, test := range map[string]struct {
		events string
		want   recording.Verify
		err    string
	}{
		"valid":        {warm + begin + end + fine, recording.Verify{OK: true}, ""},
		"lost at last": {warm + begin + end + lost, recording.Verify{Lost: 2, Reason: "lost 2"}, ""},
		"unfit window": {warm + begin + late + fine, recording.Verify{Reason: "late"}, ""},
		"both":         {warm + begin + late + lost, recording.Verify{Lost: 2, Reason: "late; lost 2"}, ""},
		"ends early":   {warm + begin, recording.Verify{}, `ended before its "end" event`},
		"out of turn":  {warm + end, recording.Verify{}, `said "end" where "begin" was due`},
		"no result":    {warm + begin + `{"event":"end"}` + "\n", recording.Verify{}, "has no result"},
		"fails":        {warm + `{"event":"error","error":"broken"}` + "\n", recording.Verify{}, "broken"},
	} {
		var sent bytes.Buffer
		r, err := NewConversation(strings.NewReader(test.events), &sent).MeasureOnce(3 * time.Second)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", name, err, test.err)
			}
			continue
		}
		if err != nil || r.Operations != 7 || r.Verify != test.want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		want := `{"command":"window","min_ns":3000000000}` + "\n" + `{"command":"stop"}` + "\n"
		if sent.String() != want {
			t.Errorf("%s: sent %s", name, sent.String())
		}
	}
}

func FuzzConversation(f *testing.F) {
	f.Add([]byte(`{"command":"window","min_ns":5}` + "\n" + `{"event":"end","result":{"schema":1}}` + "\n"))
	f.Add([]byte("{\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		commands, events := NewConversation(bytes.NewReader(in), io.Discard), NewConversation(bytes.NewReader(in), io.Discard)
		for range bytes.Count(in, []byte("\n")) + 2 {
			if _, err := commands.NextCommand(); err != nil {
				break
			}
		}
		for range bytes.Count(in, []byte("\n")) + 2 {
			if _, err := events.NextEvent(); err != nil {
				return
			}
		}
		t.Error("more lines than there are")
	})
}
