package analyze

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"contend/internal/recording"
)

// maxRulesBytes bounds a rules file: a thousand rules take a tenth of it.
const maxRulesBytes = 1 << 20

// Rules name locks and say which waits are no contention. The built-in rules
// are rules.yaml in this package; a user's file has the same format.
type Rules struct {
	Locks        []Rule      `yaml:"locks"`        // name is the lock's
	Idle         []Rule      `yaml:"idle"`         // waits for work to arrive
	BackPressure []Rule      `yaml:"backpressure"` // waits for permission
	Handoff      []Rule      `yaml:"handoff"`      // waits for another goroutine's answer
	Blocked      []Rule      `yaml:"blocked"`      // exceptions: contention after all
	Categories   []Rule      `yaml:"categories"`   // groups of blocked time, shown on their own
	Application  Application `yaml:"application"`
	Renames      []Rename    `yaml:"renames"` // so that two versions of a program meet
}

// Rule matches waits. Every given condition must hold; within a list any entry
// will do. Patterns are RE2 expressions over function names, not anchored.
type Rule struct {
	Name   text      `yaml:"name"`
	Class  []class   `yaml:"class"`  // of the wait
	Reason []pattern `yaml:"reason"` // the runtime's wait reason
	At     []pattern `yaml:"at"`     // a frame from the leaf up to the deepest application frame: the wait itself
	Under  []pattern `yaml:"under"`  // any frame
	Unless []pattern `yaml:"unless"` // no frame
	Lock   []pattern `yaml:"lock"`   // the lock's name as captured; for locks and categories

	at, under, unless bitset // indices into the rule set's patterns
}

// Rename gives functions, and locks named at capture, another name before anything
// else looks at them: To, in which $1 is what the first group of From matched.
type Rename struct {
	From pattern `yaml:"from"`
	To   text    `yaml:"to"`
}

// Application says which functions are application code.
type Application struct {
	Include []pattern `yaml:"include"` // besides what is outside the standard library
	Exclude []pattern `yaml:"exclude"` // wins over Include
	Only    []pattern `yaml:"only"`    // nothing else is
}

// text is a string that knows its line.
type text struct {
	s    string
	line int
}

func (t *text) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		return fmt.Errorf("line %d: a name must be a non-empty string", n.Line)
	}
	t.s, t.line = n.Value, n.Line
	return nil
}

// pattern is a compiled regular expression that knows its line.
type pattern struct {
	re   *regexp.Regexp
	line int
}

func (p *pattern) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		return fmt.Errorf("line %d: a pattern must be a non-empty string", n.Line)
	}
	re, err := regexp.Compile(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %v", n.Line, err)
	}
	p.re, p.line = re, n.Line
	return nil
}

// class is a wait class that knows its line.
type class string

var classes = []string{recording.ClassLock, recording.ClassJoin, recording.ClassChannel, recording.ClassSelect,
	recording.ClassCond, recording.ClassSemaphore, recording.ClassIO, recording.ClassSleep,
	recording.ClassSyscall, recording.ClassRuntime, recording.ClassUnknown}

func (c *class) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || !slices.Contains(classes, n.Value) {
		return fmt.Errorf("line %d: %q is not a class; the classes are %v", n.Line, n.Value, classes)
	}
	*c = class(n.Value)
	return nil
}

// ParseRules reads a rules file. Unknown keys, bad patterns and rules that
// could never or would always match are errors that name their line.
func ParseRules(r io.Reader) (*Rules, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxRulesBytes+1))
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if len(data) > maxRulesBytes {
		return nil, fmt.Errorf("rules: the file is larger than %d KiB", maxRulesBytes>>10)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var rules Rules
	if err := dec.Decode(&rules); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("rules: %s", explainYAML(err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("rules: the file must hold one YAML document")
	}
	if err := rules.check(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return &rules, nil
}

// unknownField is how the YAML library refuses a key.
var unknownField = regexp.MustCompile(`field (\S+) not found in type analyze\.(\w+)`)

// knownKeys are the keys of each type that a file is decoded into.
var knownKeys = map[string]string{
	"Rules":       "locks, idle, backpressure, handoff, blocked, categories, application and renames",
	"Rule":        "name, class, reason, at, under, unless and lock",
	"Application": "include, exclude and only",
	"Rename":      "from and to",
}

// explainYAML puts what is wrong with a file on one line, in the file's words.
func explainYAML(err error) string {
	lines := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	var several *yaml.TypeError
	if errors.As(err, &several) {
		lines = several.Errors
	}
	for i, l := range lines {
		lines[i] = unknownField.ReplaceAllStringFunc(l, func(s string) string {
			m := unknownField.FindStringSubmatch(s)
			return fmt.Sprintf("unknown key %q; there are %s", m[1], knownKeys[m[2]])
		})
	}
	return strings.Join(lines, "; ")
}

// check refuses rules that make no sense, with their line.
func (rs *Rules) check() error {
	for _, sec := range rs.sections() {
		for i := range sec.rules {
			r := &sec.rules[i]
			named := sec.name == "locks" || sec.name == "categories"
			switch {
			case r.Name.s == "":
				return fmt.Errorf("line %d: rule %d of %s has no name", r.line(), i+1, sec.name)
			case len(r.Class)+len(r.Reason)+len(r.At)+len(r.Under)+len(r.Lock) == 0:
				return fmt.Errorf("line %d: rule %q matches every wait; give class, reason, at, under or lock", r.line(), r.Name.s)
			case len(r.Lock) > 0 && !named:
				return fmt.Errorf("line %d: rule %q: lock is for locks and categories", r.line(), r.Name.s)
			}
		}
	}
	for i, r := range rs.Renames {
		if r.From.re == nil || r.To.s == "" {
			return fmt.Errorf("line %d: rename %d needs from and to", max(r.From.line, r.To.line), i+1)
		}
	}
	return nil
}

func (r *Rule) line() int {
	if r.Name.line > 0 {
		return r.Name.line
	}
	for _, ps := range [][]pattern{r.Reason, r.At, r.Under, r.Unless, r.Lock} {
		if len(ps) > 0 {
			return ps[0].line
		}
	}
	return 0
}

type section struct {
	name  string
	rules []Rule
}

func (rs *Rules) sections() []section {
	return []section{{"locks", rs.Locks}, {"blocked", rs.Blocked}, {"backpressure", rs.BackPressure},
		{"handoff", rs.Handoff}, {"idle", rs.Idle}, {"categories", rs.Categories}}
}

//go:embed rules.yaml
var builtinYAML []byte

// BuiltinRules are the rules that always apply, after the user's.
var BuiltinRules = sync.OnceValue(func() *Rules {
	rs, err := ParseRules(bytes.NewReader(builtinYAML))
	if err != nil { // a test parses the file: it cannot fail in a tested build
		return &Rules{}
	}
	return rs
})

// BuiltinYAML is the text of the built-in rules, an example of the format.
func BuiltinYAML() []byte { return bytes.Clone(builtinYAML) }
