package operations

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxBody bounds a response. A broker with ten thousand topics serves about
// 20 MB of metrics.
const maxBody = 64 << 20

// value finds the named number in a response's body.
func value(contentType string, body []byte, name string) (float64, error) {
	head := bytes.TrimSpace(body[:min(len(body), 64)])
	switch {
	case len(head) == 0:
		return 0, fmt.Errorf("the response is empty")
	case head[0] == '<' || strings.HasPrefix(contentType, "text/html"):
		return 0, fmt.Errorf("it answered with an HTML page, not with metrics or JSON: is this the right path?")
	case head[0] == '{' || head[0] == '[' || strings.HasPrefix(contentType, "application/json"):
		return jsonValue(body, name)
	}
	return metricValue(bytes.NewReader(body), name)
}

// parseSelector reads a metric's name with or without labels, NAME{KEY="VALUE"}:
// what stands before the value in the exposition format.
func parseSelector(selector string) (*dto.MetricFamily, error) {
	families, err := parseMetrics(strings.NewReader(selector + " 0\n"))
	if err != nil || len(families) != 1 {
		return nil, fmt.Errorf("%q names no metric: want NAME or NAME{KEY=\"VALUE\"}", selector)
	}
	for _, f := range families {
		return f, nil
	}
	return nil, nil // not reached: there is one
}

func parseMetrics(r io.Reader) (map[string]*dto.MetricFamily, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	return p.TextToMetricFamilies(r)
}

// metricValue sums the series of a metric that have the selector's labels.
func metricValue(r io.Reader, selector string) (float64, error) {
	want, err := parseSelector(selector)
	if err != nil {
		return 0, err
	}
	families, err := parseMetrics(r)
	if err != nil {
		return 0, fmt.Errorf("it answered with neither JSON nor Prometheus text: %w", err)
	}
	f, value := families[want.GetName()], plainValue
	if f == nil { // a histogram's or summary's count is no family of its own
		base, isCount := strings.CutSuffix(want.GetName(), "_count")
		if f = families[base]; !isCount || f == nil {
			return 0, fmt.Errorf("none of its %d metrics is called %s", len(families), want.GetName())
		}
		value = countValue
	}
	sum, found := 0.0, false
	for _, m := range f.Metric {
		if !hasLabels(m, want.Metric[0].Label) {
			continue
		}
		v, ok := value(m)
		if !ok {
			return 0, fmt.Errorf("%s is a %s: count its %s_count", f.GetName(), strings.ToLower(f.GetType().String()), f.GetName())
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("none of the %d series of %s has these labels", len(f.Metric), f.GetName())
	}
	return sum, nil
}

func plainValue(m *dto.Metric) (float64, bool) {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue(), true
	case m.Untyped != nil:
		return m.Untyped.GetValue(), true
	case m.Gauge != nil: // many exporters declare their counters so
		return m.Gauge.GetValue(), true
	}
	return 0, false
}

func countValue(m *dto.Metric) (float64, bool) {
	switch {
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount()), true
	case m.Summary != nil:
		return float64(m.Summary.GetSampleCount()), true
	}
	return 0, false
}

func hasLabels(m *dto.Metric, want []*dto.LabelPair) bool {
	for _, w := range want {
		if !slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == w.GetName() && l.GetValue() == w.GetValue() }) {
			return false
		}
	}
	return true
}

func jsonValue(body []byte, path string) (float64, error) {
	var doc any
	if err := json.Unmarshal(body, &doc); err != nil {
		return 0, fmt.Errorf("its JSON is damaged: %w", err)
	}
	return walk(doc, strings.Split(path, "."), "")
}

// walk follows a path from a node that lies at the path "at".
func walk(node any, path []string, at string) (float64, error) {
	if len(path) == 0 {
		return number(node, at)
	}
	switch n := node.(type) {
	case map[string]any:
		if path[0] == "*" {
			return sum(slices.Collect(maps.Values(n)), path[1:], at)
		}
		// A key may hold dots itself, as expvar's often do: the longest that is there wins.
		for i := len(path); i > 0; i-- {
			key := strings.Join(path[:i], ".")
			if child, ok := n[key]; ok {
				return walk(child, path[i:], join(at, key))
			}
		}
		return 0, fmt.Errorf("its JSON has no %q%s; there are %s", path[0], within(at), some(slices.Sorted(maps.Keys(n))))
	case []any:
		if path[0] == "*" {
			return sum(n, path[1:], at)
		}
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(n) {
			return walk(n[i], path[1:], join(at, path[0]))
		}
		return 0, fmt.Errorf("its JSON has a list of %d%s: %q is neither an index in it nor *", len(n), within(at), path[0])
	}
	return 0, fmt.Errorf("its JSON has nothing below %q", at)
}

func sum(nodes []any, path []string, at string) (float64, error) {
	total := 0.0
	for _, n := range nodes {
		v, err := walk(n, path, join(at, "*"))
		if err != nil {
			return 0, err
		}
		total += v
	}
	return total, nil
}

// number reads a leaf. 64-bit integers are strings in the JSON of protocol buffers.
func number(node any, at string) (float64, error) {
	switch n := node.(type) {
	case float64:
		return n, nil
	case string:
		if v, err := strconv.ParseFloat(n, 64); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("its JSON has no number at %q", at)
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

func within(at string) string {
	if at == "" {
		return ""
	}
	return fmt.Sprintf(" in %q", at)
}

// some lists a few of the names that are there.
func some(names []string) string {
	const few = 12
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > few:
		return strings.Join(names[:few], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
