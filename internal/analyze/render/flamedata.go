package render

import (
	"encoding/json"

	"contend/internal/analyze"
)

// What the page's script gets to draw: the frames once, and the tree as nested
// arrays [frame, baseline, candidate, [children]].

const (
	pageLevels = 400       // deeper stacks are folded; d3 and the browser's stack stay far from their limits
	pageBudget = 3_000_000 // bytes of flame data in one page, all graphs together
	pageNode   = 40        // bytes of a node without its name
	pageName   = 500       // characters of a name
)

// pageFlame is what the template needs to know of a graph.
type pageFlame struct {
	Title string
	Sides int
}

type flameJSON struct {
	Title  string  `json:"title"`
	Unit   string  `json:"unit"`
	Sides  int     `json:"sides"`
	Frames [][]any `json:"frames"` // [label, kind, full name where it differs]
	Root   []any   `json:"root"`
}

// kindIndex numbers the kinds as the script's colours do.
var kindIndex = map[string]int{"app": 0, "std": 1, "runtime": 2, "kernel": 3, "mark": 4, "native": 5}

func flameData(flames []analyze.Flame) (data []byte, shown []pageFlame, err error) {
	out := []flameJSON{}
	for i := range flames {
		f := &flames[i]
		if f.Root == nil || f.Root.Values == [2]float64{} {
			continue
		}
		j := flameJSON{Title: clean(orWord(f.Title, f.Name)), Unit: clean(f.Unit), Sides: f.Sides}
		root := newFrame(f.Root)
		root.name = orWord(root.name, "all")
		fold(root, pageLevels)
		// A hundred-thousandth of the whole is a pixel only after zooming in a hundredfold.
		thin(root, larger, larger(root)*1e-5, func(f *frame) int { return pageNode + min(len(f.name), pageName) }, pageBudget/len(flames))
		j.Root = j.pack(root, map[frameKey]int{})
		out = append(out, j)
		shown = append(shown, pageFlame{Title: capital(j.Title), Sides: f.Sides})
	}
	// Marshal escapes <, > and &, so no name can end the script element.
	data, err = json.Marshal(out)
	return data, shown, err
}

type frameKey struct{ name, kind string }

func (j *flameJSON) pack(f *frame, index map[frameKey]int) []any {
	key := frameKey{f.name, f.kind}
	k, ok := index[key]
	if !ok {
		k = len(j.Frames)
		index[key] = k
		full := fit(clean(f.name), pageName)
		entry := []any{fit(short(f.name), pageName), kindIndex[f.kind]}
		if entry[0] != full {
			entry = append(entry, full)
		}
		j.Frames = append(j.Frames, entry)
	}
	node := []any{k, f.values[0], f.values[1]}
	if len(f.children) > 0 {
		children := make([]any, len(f.children))
		for i, c := range f.children {
			children[i] = j.pack(c, index)
		}
		node = append(node, children)
	}
	return node
}
