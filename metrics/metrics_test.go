package metrics_test

import (
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/batchfleet/batchfleet/metrics"
)

func TestEveryRegistrySaysWhatRuns(t *testing.T) {
	families, err := metrics.NewRegistry("v1.2.3").Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
		if f.GetName() != "batchfleet_build_info" {
			continue
		}
		m := f.GetMetric()[0]
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if m.GetGauge().GetValue() != 1 || labels["version"] != "v1.2.3" || labels["goversion"] != runtime.Version() {
			t.Errorf("build_info is %v", m)
		}
	}
	for _, name := range []string{"batchfleet_build_info", "go_goroutines", "process_resident_memory_bytes"} {
		if runtime.GOOS == "linux" && !found[name] {
			t.Errorf("no %s", name)
		}
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
