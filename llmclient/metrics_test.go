package llmclient_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// A gauge is a MeterProvider that keeps what is recorded, by instrument.
type gauge struct {
	noop.MeterProvider
	mu   sync.Mutex
	seen map[string][]measured
}

type measured struct {
	value float64
	attrs map[string]string
}

func (g *gauge) Meter(string, ...metric.MeterOption) metric.Meter { return meter{gauge: g} }

func (g *gauge) add(name string, value float64, set []metric.MeasurementOption) {
	m := measured{value: value, attrs: map[string]string{}}
	if len(set) > 0 {
		var opts []metric.RecordOption
		for _, o := range set {
			opts = append(opts, o)
		}
		attrs := metric.NewRecordConfig(opts).Attributes()
		for _, kv := range attrs.ToSlice() {
			m.attrs[string(kv.Key)] = kv.Value.String()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen[name] = append(g.seen[name], m)
}

type meter struct {
	noop.Meter
	gauge *gauge
}

func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{gauge: m.gauge, name: name}, nil
}

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{gauge: m.gauge, name: name}, nil
}

type histogram struct {
	noop.Float64Histogram
	gauge *gauge
	name  string
}

func (h histogram) Record(_ context.Context, v float64, opts ...metric.RecordOption) {
	h.gauge.add(h.name, v, measurements(opts))
}

type counter struct {
	noop.Int64Counter
	gauge *gauge
	name  string
}

func (c counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	c.gauge.add(c.name, float64(n), measurements(opts))
}

func measurements[O any](opts []O) []metric.MeasurementOption {
	var list []metric.MeasurementOption
	for _, o := range opts {
		if m, ok := any(o).(metric.MeasurementOption); ok {
			list = append(list, m)
		}
	}
	return list
}

func TestMetrics(t *testing.T) {
	g := &gauge{seen: map[string][]measured{}}
	inWorld(t, script(fake.Unavailable(), fake.Reply(fake.Pause(2*time.Second), fake.Text("a"), fake.Pause(time.Second), fake.End("stop")), fake.OutOfQuota()),
		func(c *llmclient.Config) { c.MeterProvider = g }, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			_, err = w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrQuota)
		})
	calls := g.seen["gen_ai.client.inference.duration"]
	require.Len(t, calls, 2)
	assert.InDelta(t, 3.5, calls[0].value, 1e-9, "backoff and both attempts")
	assert.NotContains(t, calls[0].attrs, "error.type")
	assert.Equal(t, "quota", calls[1].attrs["error.type"])
	assert.Equal(t, "test-model", calls[0].attrs["gen_ai.request.model"])

	first := g.seen["gen_ai.client.inference.time_to_first_chunk"]
	require.Len(t, first, 1)
	assert.InDelta(t, 2, first[0].value, 1e-9)

	var outcomes []string
	for _, m := range g.seen["neverhang.client.attempts"] {
		outcomes = append(outcomes, m.attrs["neverhang.outcome"])
	}
	assert.Equal(t, []string{"server", "ok", "quota"}, outcomes)
}
