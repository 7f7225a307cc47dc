package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"contend/internal/analyze"
)

// The JSON formats are the views' own keys, with what the options add. Names
// stay as they are but for invalid UTF-8, which JSON cannot carry and which
// becomes U+FFFD; <, > and & are written as \u escapes, so a file can be put
// into a page.

type reportJSON struct {
	*analyze.Report
	Experiment *Experiment `json:"experiment,omitempty"`
	Reproduce  []string    `json:"reproduce,omitempty"`
}

type diffJSON struct {
	*analyze.Diff
	Experiment *Experiment `json:"experiment,omitempty"`
	Reproduce  []string    `json:"reproduce,omitempty"`
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
