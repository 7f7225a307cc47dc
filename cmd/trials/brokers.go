package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"contend/internal/recording"
	"contend/internal/trial"
)

// brokers records each real broker and holds it to its own block profile.
func brokers(ctx context.Context, r *trial.Recorder, out, scratch string) error {
	source, err := filepath.Abs("testdata/brokers")
	if err != nil {
		return err
	}
	var all []*trial.Verified
	for _, b := range trial.Brokers {
		rec, report, err := r.RecordBroker(ctx, b, source, scratch)
		if err != nil {
			return err
		}
		v, err := trial.Verify(b.Name, rec, report)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %v, by the block profile %v\n", b.Name, v.Contend, v.Block)
		all = append(all, v)
	}
	var text bytes.Buffer
	if err := trial.ReportBrokers(&text, all, "make brokers"); err != nil {
		return err
	}
	return recording.WriteFile(out, text.Bytes())
}
