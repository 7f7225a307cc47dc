package render

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"contend/internal/analyze"
)

// JUnit XML as the build servers read it: one suite of the gate's expressions,
// which alone can fail, so that the file agrees with the exit code; and one of
// the locks, where a case is skipped when the recordings carry no verdict on it.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
		Out      string      `xml:"system-out,omitempty"`
	}
	junitCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Failure *junitReason `xml:"failure"`
		Skipped *junitReason `xml:"skipped"`
		Out     string       `xml:"system-out,omitempty"`
	}
	junitReason struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
	}
)

func (s *junitSuite) add(c junitCase) {
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Skipped != nil {
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

func writeJUnit(w io.Writer, d *analyze.Diff) error {
	sides := sideTitles(d.Baseline, d.Candidate)
	all := junitSuites{Name: "contend diff " + sides[0] + " " + sides[1]}
	for _, s := range []junitSuite{junitGate(d), junitLocks(d)} {
		if s.Tests == 0 {
			continue
		}
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Suites = append(all.Suites, s)
	}
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode JUnit XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, b)
	return err
}

func junitGate(d *analyze.Diff) junitSuite {
	s := junitSuite{Name: "gate"}
	for _, g := range d.Gate {
		c := junitCase{Class: "contend.gate", Name: clean(g.Expr)}
		switch {
		case g.Tripped:
			c.Failure = &junitReason{Message: clean(g.Reason), Type: "gate"}
		case g.Inconclusive:
			c.Skipped = &junitReason{Message: "undecided: " + clean(g.Reason)}
		default:
			c.Out = clean(g.Reason)
		}
		s.add(c)
	}
	return s
}

func junitLocks(d *analyze.Diff) junitSuite {
	s := junitSuite{Name: "locks", Out: strings.Join(append([]string{clean(d.Headline)}, cleanAll(d.Warnings)...), "\n")}
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.By != analyze.ByLock {
			continue
		}
		c := junitCase{Class: "contend.lock", Name: clean(r.Name)}
		said := rowSentence(r, d)
		if r.Verdict != analyze.New && r.Verdict != analyze.Gone { // those say so themselves
			said = r.Verdict + ": " + said
		}
		for _, p := range power(r) {
			said += "; " + p.text
		}
		if r.Note != "" {
			said += "; " + clean(r.Note)
		}
		if r.Tested && r.Verdict != analyze.Inconclusive || r.Verdict == analyze.Identical {
			c.Out = said
		} else {
			c.Skipped = &junitReason{Message: said}
		}
		s.add(c)
	}
	return s
}
