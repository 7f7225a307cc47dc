package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"contend/internal/analyze/render"
	"contend/internal/recording"
)

type mergeOptions struct {
	output string
	force  bool
}

func newMerge() *cobra.Command {
	var o mergeOptions
	c := &cobra.Command{
		Use:   "merge RECORDING|SERIES|PROFILE… -o OUT",
		Short: "Sum recordings of one process or one series into one",
		Long: "Merge sums recordings of one process, or of processes of one build recorded in the same way,\n" +
			"into one recording. Different builds, hosts, settings or profiles, and windows that overlap,\n" +
			"are refused. Given pprof files, it writes one pprof file; their values meet by name and unit.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s takes the recordings to merge: none given", cmd.CommandPath())
			}
			if o.output == "" {
				return usagef("%s needs -o OUT", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runMerge(o, args, cmd.ErrOrStderr()) },
	}
	c.Flags().StringVarP(&o.output, "output", "o", "", "the merged recording, or pprof file")
	c.Flags().BoolVar(&o.force, "force", false, "replace a recording or a file of that name")
	return c
}

func runMerge(o mergeOptions, paths []string, stderr io.Writer) error {
	files := 0
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			files++
		}
	}
	switch files {
	case 0:
		return mergeRecordings(o, paths, stderr)
	case len(paths):
		return mergeFiles(o, paths)
	}
	return usagef("merge takes recordings or pprof files, not both")
}

func mergeRecordings(o mergeOptions, paths []string, stderr io.Writer) error {
	var all []*recording.Recording
	for _, p := range paths {
		series, err := recording.OpenSeries(p)
		if err != nil {
			return err
		}
		for _, w := range series.Warnings {
			fmt.Fprintln(stderr, "contend: warning: "+render.Clean(filepath.Join(p, w)))
		}
		all = append(all, series.Runs...)
	}
	m, err := recording.Merge(all)
	if err != nil {
		return err
	}
	for _, warning := range m.Manifest.Warnings {
		fmt.Fprintln(stderr, "contend: warning: "+render.Clean(warning))
	}
	w, err := recording.Create(o.output, o.force)
	if err != nil {
		return err
	}
	write := func() error {
		for _, name := range slices.Sorted(maps.Keys(m.Profiles)) {
			if err := w.Profile(name, m.Profiles[name]); err != nil {
				return err
			}
		}
		return w.Commit(&m.Manifest)
	}
	return errors.Join(write(), w.Abort())
}

func mergeFiles(o mergeOptions, paths []string) error {
	if _, err := os.Lstat(o.output); err == nil && !o.force {
		return fmt.Errorf("output %s %w: choose another -o, or --force", o.output, recording.ErrExists)
	}
	var all []*profile.Profile
	for _, path := range paths {
		p, err := recording.ReadProfile(path)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	m, err := recording.MergeProfiles(all...)
	if err != nil {
		return fmt.Errorf("cannot merge: %w", err)
	}
	return writeProfile(o.output, m)
}
