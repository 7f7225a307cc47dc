package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"contend/internal/analyze"
)

// The speedscope file format, as its published schema has it:
// https://www.speedscope.app/file-format-schema.json. One "sampled" profile for
// each flame graph and side; the frames are shared.

type speedscopeFile struct {
	Schema   string              `json:"$schema"`
	Exporter string              `json:"exporter"`
	Name     string              `json:"name"`
	Active   int                 `json:"activeProfileIndex"`
	Shared   speedscopeShared    `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
}

type speedscopeShared struct {
	Frames []speedscopeFrame `json:"frames"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
}

type speedscopeProfile struct {
	Type       string    `json:"type"`
	Name       string    `json:"name"`
	Unit       string    `json:"unit"`
	StartValue float64   `json:"startValue"`
	EndValue   float64   `json:"endValue"`
	Samples    [][]int   `json:"samples"`
	Weights    []float64 `json:"weights"`
}

func writeSpeedscope(w io.Writer, flames []analyze.Flame, sides [2]string) error {
	file := speedscopeFile{
		Schema:   "https://www.speedscope.app/file-format-schema.json",
		Exporter: "contend",
		Name:     sides[0],
		Shared:   speedscopeShared{Frames: []speedscopeFrame{}},
		Profiles: []speedscopeProfile{},
	}
	if sides[1] != "" {
		file.Name += " → " + sides[1]
	}
	index := map[string]int{}
	for i := range flames {
		for side := range max(flames[i].Sides, 1) {
			p := speedscopeOf(&flames[i], side, func(name string) int {
				k, ok := index[name]
				if !ok {
					k = len(file.Shared.Frames)
					index[name] = k
					file.Shared.Frames = append(file.Shared.Frames, speedscopeFrame{Name: clean(name)})
				}
				return k
			})
			if flames[i].Sides == 2 {
				p.Name += ", " + sides[side]
			}
			file.Profiles = append(file.Profiles, p)
		}
	}
	if err := json.NewEncoder(w).Encode(file); err != nil {
		return fmt.Errorf("write speedscope file: %w", err)
	}
	return nil
}

// speedscopeOf is one side of a flame graph. Weights are nanoseconds; in a diff
// by operation, nanoseconds per operation.
func speedscopeOf(f *analyze.Flame, side int, frame func(string) int) speedscopeProfile {
	unit := "nanoseconds"
	if !strings.HasPrefix(f.Unit, "ns") {
		unit = "none"
	}
	p := speedscopeProfile{Type: "sampled", Name: clean(f.Title), Unit: unit, Samples: [][]int{}, Weights: []float64{}}
	if p.Name == "" {
		p.Name = clean(f.Name)
	}
	eachStack(f.Root, func(stack []*analyze.Node, self [2]float64) {
		if self[side] == 0 {
			return
		}
		sample := make([]int, len(stack))
		for i, n := range stack {
			sample[i] = frame(n.Name)
		}
		p.Samples = append(p.Samples, sample)
		p.Weights = append(p.Weights, self[side])
		p.EndValue += self[side]
	})
	return p
}
